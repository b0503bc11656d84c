"""The content folder while files are edited, added, renamed, broken or deleted, and the page cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from knowledge.errors import Damaged, NotFound
from knowledge.toolsets.sage.content_folder import ContentFolder
from knowledge.toolsets.sage.library import Library
from knowledge.toolsets.sage.page import parse_page, split_sections
from tests.contracts.sage.content_folder import make_sage, wait_until, write_pages

PRINCIPLES = "core/principles.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_pages(tmp_path / "content")


def body(library: Library, path: str) -> str:
    page = library.find_cached(path)
    return page.body if page else ""


@pytest.mark.requirement("003.watch.edited")
async def test_edited_added_renamed_and_deleted_files_are_detected(folder: Path) -> None:
    sage = make_sage(ContentFolder(folder))
    async with sage.run():
        await sage.get_knowledge("core", None, 5000)
        (folder / PRINCIPLES).write_text("# Core Principles\n\nEdited.\n", "utf-8")
        await wait_until(lambda: "Edited." in body(sage.library, PRINCIPLES), 10)
        (folder / "core" / "new.md").write_text("# New\n\nAdded.\n", "utf-8")
        await wait_until(lambda: "core/new.md" in (sage.library.known_paths() or ()), 10)
        (folder / "core" / "new.md").rename(folder / "core" / "renamed.md")
        await wait_until(lambda: "core/renamed.md" in (sage.library.known_paths() or ()), 10)
        assert "core/new.md" not in (sage.library.known_paths() or ())
        (folder / "core" / "renamed.md").unlink()
        await wait_until(lambda: "core/renamed.md" not in (sage.library.known_paths() or ()), 10)
        with pytest.raises(NotFound):
            await sage.get_knowledge("core", "renamed", 5000)


@pytest.mark.requirement("003.watch.broken")
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\xfe broken", "invalid UTF-8 at byte 0"),
        (b"---\ntitle: [\n---\n# A\n", "the front matter is not valid YAML in line 3"),
        (b"---\ntitle: open\n# A\n", "the front matter is not closed"),
        (b"a\x00b", "the file contains a NUL byte"),
        (b"  \n", "the page has no text"),
    ],
)
async def test_a_broken_file_is_reported_and_its_last_good_version_is_served(
    folder: Path, data: bytes, reason: str
) -> None:
    sage = make_sage(ContentFolder(folder))
    await sage.get_knowledge("core", None, 5000)
    (folder / PRINCIPLES).write_bytes(data)
    sage.library.refresh()
    answer: Any = await sage.get_knowledge("core", "principles", 5000)
    assert "Understand first." in answer["content"]
    info: Any = await sage.info()
    assert info["status"] == "degraded"
    assert info["knowledge_base"]["broken_files"] == [{"path": f"content/{PRINCIPLES}", "reason": reason}]
    (folder / PRINCIPLES).write_text("# Core Principles\n\nRepaired.\n", "utf-8")
    sage.library.refresh()
    info = await sage.info()
    assert info["status"] == "healthy"
    assert "Repaired." in body(sage.library, PRINCIPLES)


async def test_a_file_that_was_never_readable_is_omitted_from_its_layer(folder: Path) -> None:
    (folder / "core" / "bad.md").write_bytes(b"\xff")
    sage = make_sage(ContentFolder(folder))
    answer: Any = await sage.get_knowledge("core", None, 5000)
    assert answer["metadata"]["files"] == ["content/core/defaults.md", "content/core/principles.md"]
    with pytest.raises(Damaged, match=r"core/bad\.md"):
        await sage.get_knowledge("core", "bad", 5000)


@pytest.mark.requirement("003.cache.hit_rate")
async def test_the_hit_rate_counts_pages_from_the_cache(folder: Path) -> None:
    sage = make_sage(ContentFolder(folder))
    first: Any = await sage.get_knowledge("core", None, 5000)
    second: Any = await sage.get_knowledge("core", None, 5000)
    await sage.get_knowledge("practices", "engineering", 5000)
    assert (first["metadata"]["from_cache"], second["metadata"]["from_cache"]) == (False, True)
    info: Any = await sage.info()
    assert info["cache"] == {"enabled": True, "hits": 2, "misses": 3, "hit_rate": 0.4}


async def test_info_counts_the_files_and_their_size(folder: Path) -> None:
    info: Any = await make_sage(ContentFolder(folder)).info()
    size = sum(file.stat().st_size for file in folder.rglob("*.md"))
    assert info["knowledge_base"]["content_files"] == 5
    assert info["knowledge_base"]["total_size_kb"] == round(size / 1024, 1)
    assert info["uptime_seconds"] >= 0


async def test_a_folder_that_disappears_and_comes_back_is_watched_again(folder: Path) -> None:
    sage = make_sage(ContentFolder(folder))
    async with sage.run():
        await wait_until(lambda: sage.library.known_paths() is not None, 10)
        folder.rename(folder.with_name("away"))
        folder.with_name("away").rename(folder)
        (folder / PRINCIPLES).write_text("# Core Principles\n\nBack.\n", "utf-8")
        await sage.get_knowledge("core", None, 5000)
        await wait_until(lambda: "Back." in body(sage.library, PRINCIPLES), 20)


def test_a_page_is_split_at_second_level_headings_but_not_inside_code() -> None:
    text = "# T\n\nIntro.\n\n## One\n\n```\n## not a heading\n```\n\n## Empty\n\n## Two\n\nText.\n"
    found = split_sections(parse_page("core/t.md", text.encode()))
    assert [section.heading for section in found] == [None, "One", "Two"]
    assert found[0].text == "Intro."
    assert "## not a heading" in found[1].text


def test_front_matter_is_parsed_and_a_page_without_title_is_named_after_its_file() -> None:
    page = parse_page(
        "core/a.md", b"---\ntitle: A\nsummary: S\ntasks: [Coding]\nlanguages: python\npriority: 99\n---\nx"
    )
    assert (page.title, page.summary, page.tasks, page.priority) == ("A", "S", frozenset({"coding"}), 9)
    assert page.languages == frozenset({"python"})
    assert page.body == "x\n"
    assert parse_page("core/error_handling.md", b"just text").title == "Error handling"
    assert parse_page("core/r.md", b"---\n\nBetween two rules.\n\n---\n").body.startswith("---")
