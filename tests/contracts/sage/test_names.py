"""Inexact topic names, and path traversal out of the content folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.errors import Damaged, NotFound
from knowledge.toolsets.sage.configuration import SHIPPED_CONTENT
from knowledge.toolsets.sage.content_folder import MAX_PAGE_BYTES, ContentFolder
from knowledge.toolsets.sage.library import Library
from knowledge.toolsets.sage.topic_names import resolve_topic

PATHS = (
    "core/defaults.md",
    "core/principles.md",
    "frameworks/autonomy.md",
    "frameworks/resilience/retries.md",
    "frameworks/resilience/timeout_patterns.md",
    "guidelines/ai_collaboration.md",
    "guidelines/python.md",
    "practices/engineering.md",
)


@pytest.mark.parametrize(
    ("wanted", "path"),
    [
        ("principles", "core/principles.md"),
        ("Principles", "core/principles.md"),
        (" principles.md ", "core/principles.md"),
        ("core/principles", "core/principles.md"),
        ("content/core/principles.md", "core/principles.md"),
        ("timeout", "frameworks/resilience/timeout_patterns.md"),
        ("timeout-patterns", "frameworks/resilience/timeout_patterns.md"),
        ("Timeout Patterns", "frameworks/resilience/timeout_patterns.md"),
        ("resilience/timeout", "frameworks/resilience/timeout_patterns.md"),
        ("patterns timeout", "frameworks/resilience/timeout_patterns.md"),
        ("ai-collaboration", "guidelines/ai_collaboration.md"),
        ("ＡＩ collaboration", "guidelines/ai_collaboration.md"),
        ("collab", "guidelines/ai_collaboration.md"),
        ("engineer", "practices/engineering.md"),
    ],
)
@pytest.mark.requirement("003.names.inexact")
def test_an_inexact_name_resolves_to_one_file(wanted: str, path: str) -> None:
    assert resolve_topic(wanted, PATHS) == (path,)


def test_the_name_of_a_folder_resolves_to_all_its_pages() -> None:
    assert resolve_topic("resilience", PATHS) == (
        "frameworks/resilience/retries.md",
        "frameworks/resilience/timeout_patterns.md",
    )


@pytest.mark.requirement("003.names.similar")
def test_a_mistyped_name_suggests_similar_names() -> None:
    with pytest.raises(NotFound) as refused:
        resolve_topic("autonmy", PATHS)
    assert refused.value.details["near"] == ["frameworks/autonomy"]


def test_an_ambiguous_name_is_rejected_with_suggestions() -> None:
    with pytest.raises(NotFound) as refused:
        resolve_topic("p", ("core/plan.md", "core/python.md"))
    assert refused.value.details["near"]


ESCAPES = (
    "..", "../secret", "../../etc/passwd", "core/../../secret", "..\\secret", "/etc/passwd", "C:\\secret.md",
    "core/./../../secret", "....//secret", "%2e%2e/secret", "．．/secret", "secret.md", "~/secret", "file:///etc/passwd",
    "", " ", "/", "\\", ".", "link", "outside",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.md").write_text("# Secret\n\nhidden", "utf-8")
    content = tmp_path / "content"
    (content / "core").mkdir(parents=True)
    (content / "core" / "open.md").write_text("# Open\n\nfor all", "utf-8")
    (content / "core" / "link.md").symlink_to(tmp_path / "secret.md")
    (content / "core" / "outside").symlink_to(tmp_path, target_is_directory=True)
    (content / "core" / "inside.md").symlink_to(content / "core" / "open.md")
    (content / "core" / ".hidden.md").write_text("# Hidden\n\nhidden", "utf-8")
    return content


@pytest.mark.requirement("003.names.path_traversal")
@pytest.mark.parametrize("wanted", ESCAPES)
def test_path_traversal_is_rejected(folder: Path, wanted: str) -> None:
    library = Library(ContentFolder(folder))
    assert library.list_paths() == ("core/inside.md", "core/open.md")
    with pytest.raises(NotFound):
        resolve_topic(wanted, library.list_paths())


@given(st.text(max_size=60))
def test_only_existing_paths_are_returned(wanted: str) -> None:
    try:
        assert set(resolve_topic(wanted, PATHS)) <= set(PATHS)
    except NotFound as refused:
        assert refused.details["near"] is not None


def test_a_file_replaced_by_a_link_after_listing_is_not_read(folder: Path) -> None:
    library = Library(ContentFolder(folder))
    library.list_paths()
    (folder / "core" / "open.md").unlink()
    (folder / "core" / "open.md").symlink_to(folder.parent / "secret.md")
    with pytest.raises(NotFound):
        library.get_page("core/open.md")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_named_pipe_is_ignored(folder: Path) -> None:
    os.mkfifo(folder / "core" / "pipe.md")
    assert "core/pipe.md" not in Library(ContentFolder(folder)).list_paths()


def test_a_page_that_is_too_large_is_reported_as_broken(folder: Path) -> None:
    (folder / "core" / "large.md").write_bytes(b"x" * (MAX_PAGE_BYTES + 1))
    library = Library(ContentFolder(folder))
    with pytest.raises(Damaged):
        library.get_page(next(path for path in library.list_paths() if "large" in path))
    assert "1 MiB" in library.broken["core/large.md"]


@pytest.mark.requirement("003.content.topics")
@pytest.mark.parametrize(
    ("layer", "topic"),
    [
        ("core", "principles"), ("core", "defaults"), ("guidelines", "python"), ("guidelines", "ai_collaboration"),
        ("frameworks", "autonomy"), ("frameworks", "timeout"), ("practices", "engineering"),
        ("practices", "documentation"),
    ],
)  # fmt: skip
def test_the_topics_of_the_contract_are_shipped(layer: str, topic: str) -> None:
    library = Library(ContentFolder(SHIPPED_CONTENT))
    [path] = resolve_topic(topic, library.list_paths(layer))
    assert len(library.get_page(path).body) > 500


def test_every_shipped_page_is_valid_and_declares_summary_and_tasks() -> None:
    library = Library(ContentFolder(SHIPPED_CONTENT))
    pages = list(library.load_pages())
    assert len(pages) >= 30
    assert library.broken == {}
    for page in pages:
        assert page.body.startswith(f"# {page.title}\n"), page.path
        assert page.summary and page.tasks, page.path
