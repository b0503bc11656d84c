"""Checks that every link, picture and anchor of a built site exists.

python scripts/check_site.py build/site
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

TARGETS = {"a": "href", "link": "href", "img": "src", "source": "srcset", "script": "src"}


class SitePage(HTMLParser):
    """The targets and the anchors of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {found[name] or "" for name in ("id", "name") if name in found}
        target = found.get(TARGETS.get(tag, ""))
        self.targets += [target] if target else []


def find_broken_links(site: Path) -> list[str]:
    """Return every target within a site that does not exist, with its page."""
    pages = {path.resolve(): SitePage(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    broken = []
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or path.name == "404.html":  # its links begin with the address of the site
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            file = file / "index.html" if file.is_dir() else file
            anchors = pages[file].anchors if file in pages else {parts.fragment}
            if not file.exists() or unquote(parts.fragment) not in anchors:
                broken.append(f"{path.relative_to(site.resolve())}: {target}")
    return broken


def main() -> int:
    site = Path(sys.argv[1])
    broken = find_broken_links(site)
    count = len([*site.rglob("*.html")])
    sys.stdout.write("\n".join([*broken, f"{count} pages, {len(broken)} broken links"]) + "\n")
    return 1 if broken or not count else 0


if __name__ == "__main__":
    sys.exit(main())
