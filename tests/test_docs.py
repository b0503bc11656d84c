"""What the docs say is true: generated pages are fresh, links lead somewhere, examples are ours."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.requirement("001.errors.table")
@pytest.mark.parametrize("name", sorted(reference().PAGES))
def test_generated_pages_are_fresh(name: str) -> None:
    written = (ROOT / "docs" / "reference" / name).read_text("utf-8")
    assert written == reference().PAGES[name](), "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text("utf-8")):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name} points at {target}"


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
