"""Draws docs/explanation/packages.svg: the packages and which imports which.

An arrow is an import. Imports that a path of arrows implies and imports of the foundation are listed as text in the
box, so that the drawing is complete and readable.
"""

from __future__ import annotations

from dataclasses import dataclass
from xml.sax.saxutils import escape

from scripts.docs.imports import PACKAGE, Graph, read_import_graph, reduce_transitively

WIDTH, MARGIN, ROW_HEIGHT, BOX_HEIGHT, FOUNDATION_HEIGHT = 960, 20, 118, 78, 96
TITLE_HEIGHT, MAX_PLAIN_BOX_WIDTH = 46, 400

STYLE = """
    .background { fill: #ffffff }
    .box { fill: #f3f6fa; stroke: #b6c2d1 }
    .surface .box { fill: #e7f0fd; stroke: #7fa8df }
    .engine .box { fill: #e4f5ea; stroke: #79b890 }
    .work .box { fill: #fdf3e1; stroke: #d8ad62 }
    .storage .box { fill: #f5e9f8; stroke: #b98bc6 }
    .name { font: 600 15px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #16202c }
    .about { font: 12.5px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #33414f }
    .folders { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #33414f }
    .also, .legend { font: 11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #5c6b7a }
    .import { stroke: #4a5a6b; stroke-width: 1.5; fill: none; marker-end: url(#head) }
    #head path { fill: #4a5a6b }
    @media (prefers-color-scheme: dark) {
      .background { fill: #0f151c }
      .box { fill: #1a222c; stroke: #435264 }
      .surface .box { fill: #152a45; stroke: #3f6ea8 }
      .engine .box { fill: #14301f; stroke: #3f7f57 }
      .work .box { fill: #352a14; stroke: #8f7032 }
      .storage .box { fill: #2f1f36; stroke: #7d5490 }
      .name { fill: #eef3f8 }
      .about, .folders { fill: #c9d4df }
      .also, .legend { fill: #9fadbb }
      .import { stroke: #a9b7c5 }
      #head path { fill: #a9b7c5 }
    }
"""


@dataclass(frozen=True, slots=True)
class Box:
    """The place of a package: its row from the top, its left edge and its width."""

    row: int
    x: int
    width: int
    about: str
    kind: str = ""


BOXES = {
    "knowledge": Box(0, 20, 290, "from knowledge import open_engine", "surface"),
    "__main__": Box(0, 330, 290, "the command knowledge", "surface"),
    "testing": Box(0, 640, 300, "an engine with a small model, for tests"),
    "surfaces": Box(1, 20, 600, "everything that users and agents reach", "surface"),
    "toolsets": Box(2, 20, 440, "the six contracts: tools, answers, errors", "surface"),
    "app": Box(2, 480, 460, "turns settings into objects"),
    "engine": Box(3, 20, 920, "the verbs: add, search, jobs, crawls, accounts", "engine"),
    "wire": Box(4, 20, 172, "JSON of /api/v1"),
    "split": Box(4, 207, 172, "text to passages", "work"),
    "text": Box(4, 394, 172, "terms, language", "work"),
    "embed": Box(4, 581, 172, "texts to vectors", "work"),
    "store": Box(4, 768, 172, "the database", "storage"),
    "extract": Box(5, 207, 172, "files to text", "work"),
    "index": Box(5, 394, 172, "BM25 and vectors", "storage"),
    "blobs": Box(5, 581, 172, "originals", "storage"),
}  # fmt: skip
FOUNDATION = {
    "config": "settings",
    "filesystem": "file modes, fsync",
    "telemetry": "metrics",
    "failpoints": "crash tests",
    "malloc": "free memory",
    "retry_after": "HTTP header",
    "error_codes": "errors by code",
    "errors": "one error tree",
    "model": "domain types",
    "version": "of the package",
}
"""Modules that most packages import, from left to right in the band at the bottom."""


def render_package_diagram() -> str:
    graph = read_import_graph()
    unplaced = set(graph) - {*BOXES, *FOUNDATION}
    assert not unplaced, f"give {', '.join(sorted(unplaced))} a place in scripts/docs/package_diagram.py"
    drawn = {name: targets - {*FOUNDATION} for name, targets in reduce_transitively(remove_foundation(graph)).items()}
    bottom = 6 * ROW_HEIGHT + TITLE_HEIGHT
    height = bottom + FOUNDATION_HEIGHT + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" aria-labelledby="title">',
        '  <title id="title">The packages of Knowledge Server and their imports</title>',
        f"  <style>{STYLE}  </style>",
        '  <defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 L10 5 L0 10 z"/></marker></defs>',
        f'  <rect class="background" width="{WIDTH}" height="{height}"/>',
        f'  <text class="legend" x="{MARGIN}" y="26">An arrow is an import. “also” lists the other imports of a package'
        ": those that a path of arrows implies, and those of the foundation.</text>",
        *(render_arrow(name, target) for name in BOXES for target in sorted(drawn.get(name, ()), key=[*BOXES].index)),
        *(render_box(name, box, sorted(graph[name] - drawn[name])) for name, box in BOXES.items()),
        *render_foundation(graph, bottom),
        "</svg>",
    ]
    return "\n".join([*parts, ""])


def remove_foundation(graph: Graph) -> Graph:
    return {name: targets - {*FOUNDATION} for name, targets in graph.items() if name not in FOUNDATION}


def get_top(box: Box) -> int:
    return TITLE_HEIGHT + box.row * ROW_HEIGHT


def render_arrow(name: str, target: str) -> str:
    """Return a vertical arrow in the middle of the overlap of both boxes."""
    upper, lower = BOXES[name], BOXES[target]
    left, right = max(upper.x, lower.x), min(upper.x + upper.width, lower.x + lower.width)
    assert left < right and upper.row < lower.row, f"{name} must be above {target}"
    x = (left + right) // 2
    return (
        f'  <path class="import" data-from="{name}" data-to="{target}" '
        f'd="M{x} {get_top(upper) + BOX_HEIGHT} V{get_top(lower) - 2}"/>'
    )


def render_box(name: str, box: Box, also: list[str]) -> str:
    title = f"{name}/" if name not in ("knowledge", "__main__", "testing", "app") else f"{name}.py"
    title = "__init__.py" if name == "knowledge" else title
    x, y = box.x + 12, get_top(box)
    folders = " ".join(f"{folder}/" for folder in list_folders(name)) if box.width > MAX_PLAIN_BOX_WIDTH else ""
    lines = [
        f'  <g id="{name}" class="{box.kind}" data-also="{" ".join(also)}">',
        f'    <rect class="box" x="{box.x}" y="{y}" width="{box.width}" height="{BOX_HEIGHT}" rx="7"/>',
        f'    <text class="name" x="{x}" y="{y + 22}">{title}</text>',
        f'    <text class="about" x="{x}" y="{y + 41}">{escape(box.about)}</text>',
    ]
    if folders:
        end = box.x + box.width - 12
        lines.append(f'    <text class="folders" x="{end}" y="{y + 22}" text-anchor="end">{folders}</text>')
    for number, line in enumerate(wrap_text(format_also(also), box.width - 24)):
        lines.append(f'    <text class="also" x="{x}" y="{y + 59 + 13 * number}">{line}</text>')
    return "\n".join([*lines, "  </g>"])


def list_folders(name: str) -> list[str]:
    return sorted(path.parent.name for path in (PACKAGE / name).glob("*/__init__.py"))


def format_also(names: list[str]) -> str:
    return f"also {', '.join(names)}" if names else ""


def wrap_text(text: str, width: int) -> list[str]:
    """Break a line at words; 11 px letters are 5.6 px wide on average."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width / 5.6:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def render_foundation(graph: Graph, top: int) -> list[str]:
    width = (WIDTH - 2 * MARGIN) / len(FOUNDATION)
    lines = [
        '  <g id="foundation">',
        f'    <rect class="box" x="{MARGIN}" y="{top}" width="{WIDTH - 2 * MARGIN}" '
        f'height="{FOUNDATION_HEIGHT}" rx="7"/>',
        f'    <text class="legend" x="{MARGIN + 12}" y="{top + 20}">foundation</text>',
    ]
    for number, (name, about) in enumerate(FOUNDATION.items()):
        x, also = round(MARGIN + 12 + number * width), sorted(graph[name])
        lines += [
            f'    <g id="{name}" data-also="{" ".join(also)}">',
            f'      <text class="name" x="{x}" y="{top + 44}">{name}</text>',
            f'      <text class="about" x="{x}" y="{top + 62}">{about}</text>',
            *([f'      <text class="also" x="{x}" y="{top + 80}">{format_also(also)}</text>'] if also else []),
            "    </g>",
        ]
    return [*lines, "  </g>"]
