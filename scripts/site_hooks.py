"""Hooks of MkDocs: list the pages of a folder in the navigation, and add files outside of docs/ that pages name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OUTSIDE_LINK = re.compile(r"\]\(\.\./\.\./([^)#\s]+)")
"""A link from a page in a folder of docs/ to a file of the repository."""


def on_config(config: Any) -> Any:
    """Replace `FOLDER/*` in the navigation by the pages of the folder, and name headings as code hosts do."""
    config.mdx_configs["toc"]["slugify"] = make_anchor
    config.nav = [{title: list_pages(target)} for entry in config.nav for title, target in entry.items()]
    return config


def make_anchor(heading: str, _: str) -> str:
    """Return the anchor that code hosts give a heading, so that links work in both places."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def list_pages(target: str) -> str | list[str]:
    folder, star, _ = target.partition("/*")
    return sorted(f"{folder}/{page.name}" for page in (ROOT / "docs" / folder).glob("*.md")) if star else target


def on_files(files: Any, config: Any) -> Any:
    """Add every file outside of docs/ that a page links to."""
    from mkdocs.structure.files import File

    pages = [page.read_text("utf-8") for page in (ROOT / "docs").glob("*/*.md")]
    for name in sorted({name for page in pages for name in OUTSIDE_LINK.findall(page)}):
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Adapt links between docs/ and the rest of the repository, which are one folder in the site."""
    if (ROOT / page.file.src_uri).exists():  # a page that is not in docs/
        return markdown.replace("](docs/", "](")
    return OUTSIDE_LINK.sub(r"](../\1", markdown)
