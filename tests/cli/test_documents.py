"""The commands for documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.surfaces.cli import errors as cli_errors
from tests.support.command_line import Shell, serve_engine


@pytest.fixture
def shell(local: LocalEngine, settings: Settings) -> Iterator[Shell]:
    with serve_engine(local, settings) as address:
        yield Shell({"KB_ENGINE_URL": address})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two documents, a binary file, an empty file, an ignored draft, and a hidden note."""
    home = tmp_path / "papers"
    (home / "deep").mkdir(parents=True)
    (home / "tea.md").write_text("# Tea\n\nTea is served at four in the blue room.\n")
    (home / "deep" / "kettle.txt").write_text("The kettle is descaled on the first Monday of the month.")
    (home / "data.bin").write_bytes(b"\0\1\2")
    (home / "empty.md").touch()
    (home / "draft.md").write_text("A draft that nobody should find.")
    (home / ".knowledgeignore").write_text("draft*\n")
    (home / ".hidden.md").write_text("Hidden.")
    return home


def test_a_note_is_saved_and_found(shell: Shell) -> None:
    assert "Saved as document 1" in shell.run_ok("note", "Tea is served at four in the blue room.", "--tag", "house")
    printed = shell.run_ok("search", "when", "is", "tea", "served")
    assert "Tea is served at four" in printed and "document 1, passage 0" in printed


def test_a_note_comes_from_standard_input_and_can_be_updated(shell: Shell) -> None:
    shell.run_ok("note", "--title", "Tea time", input="Tea is at four.")
    shell.run_ok("note", "--update", "Tea time", "Tea is at five.")
    assert shell.run_ok("read", "Tea time") == "Tea is at five.\n"


def test_a_folder_is_added_without_what_its_ignore_file_names(shell: Shell, folder: Path) -> None:
    printed = shell.run_ok("add", folder)
    assert "Added 2 documents" in printed
    assert "Skipped 1 file of unsupported formats: .bin 1." in printed
    assert "Skipped 1 empty file." in printed
    paths = {document["source_path"] for document in shell.run_json("show")["documents"]}
    assert paths == {str(folder / "tea.md"), str(folder / "deep" / "kettle.txt")}


def test_hidden_and_ignored_files_are_added_on_request(shell: Shell, folder: Path) -> None:
    shell.run_ok("add", folder, "--hidden", "--no-ignore")
    names = {document["filename"] for document in shell.run_json("show")["documents"]}
    assert names == {"tea.md", "kettle.txt", "draft.md", ".hidden.md"}


def test_adding_again_replaces_only_changed_files(shell: Shell, folder: Path) -> None:
    shell.run_ok("add", folder)
    (folder / "tea.md").write_text("# Tea\n\nTea is served at five.\n")
    outcome = shell.run_json("add", folder)
    assert [Path(one["name"]).name for one in outcome["added"]] == ["tea.md"]
    assert [Path(one["name"]).name for one in outcome["unchanged"]] == ["kettle.txt"]
    assert shell.run_json("status")["documents"] == 2


def test_a_glob_pattern_is_expanded(shell: Shell, folder: Path) -> None:
    assert "Added 1 document" in shell.run_ok("add", f"{folder}/**/*.txt")
    missing = shell.run("add", f"{folder}/*.nothing")
    assert (missing.exit_code, missing.stdout) == (cli_errors.NOT_FOUND, "")


def test_standard_input_needs_a_name(shell: Shell) -> None:
    assert shell.run("add", "-", input="# Hello").exit_code == cli_errors.USAGE
    added = shell.run_json("add", "-", "--name", "hello.md", input="# Hello\n\nWorld.")["added"][0]
    document = shell.run_json("show", added["document_id"])
    assert (document["title"], document["source_path"]) == ("Hello", None)


def test_each_failure_is_reported_with_a_hint(shell: Shell, tmp_path: Path) -> None:
    good, empty, strange = tmp_path / "good.md", tmp_path / "empty.md", tmp_path / "strange.xyz"
    good.write_text("Something good.")
    empty.touch()
    strange.write_text("?")
    result = shell.run("add", good, empty, strange, tmp_path / "gone.md")
    assert result.exit_code == cli_errors.FAILED
    assert "Added 1 document" in result.stdout and "3 files failed:" in result.stdout
    assert f"{empty}: The file is empty." in result.stdout
    assert f"{strange}: Files named *.xyz are not supported. Supported: " in result.stdout
    assert f"{tmp_path / 'gone.md'}: The file does not exist. Check the path." in result.stdout


def test_collection_tags_title_and_metadata_are_stored(shell: Shell, folder: Path) -> None:
    shell.run_ok(
        *("add", folder / "tea.md", "--collection", "kitchen", "--tag", "tea,house", "--title", "On tea"),
        *("--metadata", "author=Ada", "-m", '{"year": 1843}'),
    )
    document = shell.run_json("show", "On tea")
    assert (document["collection"], document["metadata"]) == ("kitchen", {"author": "Ada", "year": 1843})
    assert document["tags"] == ["collection:kitchen", "tea", "house"]


def test_a_document_is_named_by_number_uuid_path_or_title(shell: Shell, folder: Path) -> None:
    shell.run_ok("add", folder)
    document = shell.run_json("show", folder / "tea.md")
    for name in (document["id"], f"#{document['id']}", document["uid"], "Tea", "tea.md", folder / "." / "tea.md"):
        assert shell.run_json("show", name)["uid"] == document["uid"]


def test_a_title_that_two_documents_have_is_refused_with_their_numbers(shell: Shell) -> None:
    shell.run_ok("note", "One cup.", "--title", "Tea")
    shell.run_ok("note", "Two cups.", "--title", "Tea")
    result = shell.run("show", "Tea")
    assert result.exit_code == cli_errors.USAGE
    assert result.stderr == "2 documents match 'Tea'. Use an id instead: 1, 2.\n"


def test_a_missing_document_is_reported_without_a_traceback(shell: Shell) -> None:
    result = shell.run("show", "nowhere.pdf")
    assert (result.exit_code, result.stdout) == (cli_errors.NOT_FOUND, "")
    assert result.stderr.startswith("There is no document 'nowhere.pdf'. ")
    assert shell.run("read", "99").exit_code == cli_errors.NOT_FOUND


def test_errors_are_json_with_the_option_json(shell: Shell) -> None:
    result = shell.run("show", "99", "--json")
    assert (result.exit_code, result.stdout) == (cli_errors.NOT_FOUND, "")
    assert json.loads(result.stderr)["error"]["code"] == "document_not_found"


def test_search_applies_its_filters(shell: Shell, folder: Path) -> None:
    shell.run_ok("add", folder / "tea.md", "--collection", "kitchen")
    shell.run_ok("note", "Tea is also sold at the station.")
    assert "Tea is also sold" not in shell.run_ok("search", "tea", "--collection", "kitchen")
    assert shell.run_json("search", "tea", "--type", "note")["returned"] == 1
    assert shell.run_json("search", "tea", "--document", "Tea")["returned"] == 1
    assert shell.run_json("search", "tea", "--to", "2000-01-01")["returned"] == 0
    assert shell.run("search", "tea", "--collection", "nowhere").exit_code == cli_errors.NOT_FOUND
    assert shell.run("search", "tea", "--from", "yesterday").exit_code == cli_errors.USAGE


def test_explain_prints_a_table(shell: Shell) -> None:
    shell.run_ok("note", "Tea is served at four.")
    printed = shell.run_ok("search", "tea", "--explain")
    assert "bm25" in printed and "cosine" in printed and "wall_ms" in printed


def test_a_search_without_results_succeeds(shell: Shell) -> None:
    result = shell.run("search", "tea", "--mode", "text")
    assert (result.exit_code, result.stdout) == (cli_errors.OK, "")
    assert "No results." in result.stderr


def test_opening_a_result_that_does_not_exist_is_not_found(shell: Shell) -> None:
    result = shell.run("search", "tea", "--open", "1")
    assert result.exit_code == cli_errors.NOT_FOUND, result.output


def test_one_passage_is_read_with_its_neighbours(shell: Shell, tmp_path: Path) -> None:
    long = tmp_path / "long.md"
    parts = ["\n\n".join([f"# Part {n}", f"Cup {n} of tea. " * 60]) for n in range(8)]
    long.write_text("\n\n".join(parts))
    shell.run_ok("add", long)
    chunks = shell.run_json("read", "long.md", "--passage", "3", "--around", "2")["chunks"]
    assert [chunk["index"] for chunk in chunks] == [1, 2, 3, 4, 5]
    assert "> passage 3" in shell.run_ok("read", "long.md", "--passage", "3")
    assert shell.run("read", "long.md", "--passage", "9999").exit_code == cli_errors.NOT_FOUND


def test_the_original_comes_back_byte_for_byte(shell: Shell, tmp_path: Path) -> None:
    original = tmp_path / "old.txt"
    original.write_bytes("Grüße aus Köln, alles gut dort".encode("latin-1"))
    shell.run_ok("add", original)
    assert shell.run("read", "old.txt", "--original").stdout_bytes == original.read_bytes()


def test_tags_and_collections_change(shell: Shell) -> None:
    shell.run_ok("note", "Tea.", "--tag", "draft")
    assert shell.run_ok("tag", "1", "final", "--remove", "draft") == "final\n"
    shell.run_ok("collections", "create", "Archive of the house")
    assert "archive-of-the-house" in shell.run_ok("move", "1", "archive-of-the-house")
    assert shell.run_json("show", "1")["collection"] == "archive-of-the-house"


def test_removing_needs_confirmation(shell: Shell) -> None:
    shell.run_ok("note", "Tea.")
    refused = shell.run("remove", "1")
    assert refused.exit_code == cli_errors.USAGE and "--yes" in refused.stderr
    assert shell.run_json("remove", "1", "--yes")["documents"] == 1
    assert shell.run("show", "1").exit_code == cli_errors.NOT_FOUND
    assert shell.run("remove").exit_code == cli_errors.USAGE


def test_everything_can_be_removed_at_once(shell: Shell) -> None:
    shell.run_ok("note", "Tea.")
    shell.run_ok("note", "Coffee.")
    assert "Removed 2 documents" in shell.run_ok("remove", "--everything", "--yes")
    assert "There are no documents." in shell.run("show").stderr
