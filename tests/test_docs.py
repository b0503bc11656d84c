"""Generated pages are current, links and paths exist, and examples are copies of the code."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import pytest
from scripts.docs.examples import Example, extract_code, find_examples

from tests import test_architecture

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "knowledge"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")
IMAGE = re.compile(r'\b(?:src|srcset)="([^"]+)"')
EXTERNAL = ("http://", "https://", "mailto:")
NAMED_PATH = re.compile(r"`(?P<path>[\w.-]+(?:/[\w.-]+)*(?:/|\.(?:py|md|toml|sql|json)))(?:#(?P<name>[\w.]+))?`")
EXAMPLE_PAGES = [ROOT / "STYLE.md"]
DIAGRAM = ROOT / "docs" / "explanation" / "packages.svg"
SVG_NAMESPACE = "{http://www.w3.org/2000/svg}"


def load_reference_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.requirement("001.errors.table")
@pytest.mark.parametrize("name", sorted(load_reference_script().PAGES))
def test_generated_pages_are_current(name: str) -> None:
    written = (ROOT / "docs" / "reference" / name).read_text("utf-8")
    assert written == load_reference_script().PAGES[name](), "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_have_a_target(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text("utf-8")) if not target.startswith(EXTERNAL)]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pictures_exist_and_have_a_description(page: Path) -> None:
    text = page.read_text("utf-8")
    shown = [*IMAGE.findall(text), *re.findall(r"!\[[^\]]*\]\(([^)\s]+)", text)]
    assert [target for target in shown if not target.startswith(EXTERNAL) and not (page.parent / target).exists()] == []
    assert [tag for tag in re.findall(r"<img [^>]*>", text) if not re.search(r'alt="[^"]{10,}"', tag)] == []
    assert "![](" not in text


def test_every_picture_is_shown_and_small() -> None:
    text = "".join(page.read_text("utf-8") for page in PAGES)
    pictures = [*(ROOT / "docs" / "images").iterdir()]
    assert pictures
    assert [picture.name for picture in pictures if f"images/{picture.name}" not in text] == []
    assert [picture.name for picture in pictures if picture.stat().st_size > 300 * 1024] == []


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text("utf-8")
    missing = [page.name for page in folder.glob("0*.md") if page.name not in listed]
    assert missing == []


def test_every_test_that_the_security_page_names_exists() -> None:
    text = (ROOT / "docs" / "explanation" / "security.md").read_text("utf-8")
    named = set(re.findall(r"`((?:tests|benchmarks)/[\w/.]+)`", text))
    assert len(named) > 20
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", EXAMPLE_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_are_copies_of_the_code(page: Path) -> None:
    text = page.read_text("utf-8")
    examples = [*find_examples(text)]
    assert len(examples) == text.count("```python"), "an example without its path"
    assert [each.path for each in examples if each.code != each.read_source()] == [], "run `make docs`"


def test_an_example_differs_when_its_file_changes() -> None:
    text = (
        '"""Numbers."""\n\nLIMIT = 5\n\n\nclass Box:\n    @property\n    def size(self) -> int:\n        return LIMIT\n'
    )
    assert extract_code(text, "LIMIT") == "LIMIT = 5\n"
    assert extract_code(text, "Box.size") == "@property\ndef size(self) -> int:\n    return LIMIT\n"
    [example] = find_examples("`src/knowledge/retry_after.py#MAX_SECONDS`\n\n```python\nMAX_SECONDS = 1\n```\n")
    assert example == Example("src/knowledge/retry_after.py", "MAX_SECONDS", "MAX_SECONDS = 1\n")
    assert example.code != example.read_source()


def test_the_packages_that_the_style_guide_lists_exist() -> None:
    text = (ROOT / "STYLE.md").read_text("utf-8")
    listed = re.search(r"## 2\. Packages\n\n```\n(.*?)```", text, re.DOTALL)
    assert listed is not None
    names = set(re.findall(r"\b([a-z_]+)/ |\b([a-z_]+\.py)\b", listed[1] + " "))
    assert len(names) > 30
    assert [name for pair in names for name in pair if name and not [*PACKAGE.rglob(name)]] == []


RETIRED_WORDS = re.compile(r"\b(whoever|courtesy|purse|nursery|who asks|beyond all measure)\b", re.IGNORECASE)


def test_retired_words_do_not_come_back_to_the_pages() -> None:
    pages = [page for page in PAGES if page.name != "CHANGELOG.md" and page.parent.name != "reference"]
    assert [
        f"{page.relative_to(ROOT)}: {found[0]}"
        for page in pages
        if (found := RETIRED_WORDS.search(page.read_text("utf-8")))
    ] == []


@pytest.mark.parametrize(
    "page", ["architecture.md", "search.md", "extraction.md", "crawling.md", "accounts.md", "page.md"]
)
def test_every_path_that_an_explanation_names_exists(page: str) -> None:
    text = (ROOT / "docs" / "explanation" / page).read_text("utf-8")
    assert [path for path in find_named_paths(text) if not resolve_path(path)] == []


def test_every_term_of_the_glossary_names_the_file_that_implements_it() -> None:
    text = (ROOT / "docs" / "reference" / "glossary.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| term", "| ---"))]
    assert len(rows) > 30
    assert [row for row in rows if not [*find_named_paths(row)]] == []
    assert [path for path in find_named_paths(text) if not resolve_path(path)] == []


def find_named_paths(text: str) -> list[str]:
    """Return the paths in backticks: files and folders of the repository, or below src/knowledge."""
    return [found["path"] for found in NAMED_PATH.finditer(text) if "/" in found["path"] or found["path"][-3:] == ".py"]


def resolve_path(path: str) -> Path | None:
    return next((place / path for place in (ROOT, PACKAGE) if (place / path).exists()), None)


def test_the_package_diagram_shows_the_imports_of_the_code() -> None:
    drawing = ET.parse(DIAGRAM).getroot()
    drawn = {
        (arrow.attrib["data-from"], arrow.attrib["data-to"])
        for arrow in drawing.iter(f"{SVG_NAMESPACE}path")
        if arrow.get("data-from")
    }
    arrows = len(drawn)
    boxes = {
        box.attrib["id"]: box.attrib["data-also"].split()
        for box in drawing.iter(f"{SVG_NAMESPACE}g")
        if "data-also" in box.attrib
    }
    drawn |= {(name, target) for name, also in boxes.items() for target in also}
    real = {
        (name.split(".")[0] or "knowledge", target.split(".")[0])
        for name, path in test_architecture.list_modules().items()
        for target in test_architecture.read_imported_modules(path)
        if name.split(".")[0] != target.split(".")[0]
    }
    assert drawn == real, "run `make docs`"
    assert arrows > 10
    assert set(boxes) == {name.split(".")[0] or "knowledge" for name in test_architecture.list_modules()}


def test_the_package_diagram_is_current() -> None:
    assert DIAGRAM.read_text("utf-8") == load_reference_script().render_package_diagram(), "run `make docs`"


@pytest.mark.long
def test_the_site_is_built_strictly_and_has_no_broken_link() -> None:
    built = subprocess.run(["make", "site"], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    assert "0 broken links" in built.stdout
