"""`knowledge eval`: measures search with the user's own questions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from knowledge.config import Settings
from knowledge.engine.evaluate import overlaps
from knowledge.engine.local import LocalEngine
from knowledge.model import Query
from knowledge.surfaces.cli import errors as cli_errors
from tests.support.command_line import Shell, serve_engine

PAGES = {
    "kettle.md": "# Kettle\n\nThe kettle is descaled with vinegar on the first Monday of the month.",
    "boat.md": "# Boat\n\nThe boat lies at the northern jetty and needs paint every spring.",
    "tea.md": "# Tea\n\nTea is served at four in the blue room, with milk.",
}


@pytest.fixture
def shell(local: LocalEngine, settings: Settings, tmp_path: Path) -> Iterator[Shell]:
    folder = tmp_path / "house"
    folder.mkdir()
    for name, text in PAGES.items():
        (folder / name).write_text(text)
    with serve_engine(local, settings) as address:
        shell = Shell({"KB_ENGINE_URL": address, "KNOWLEDGE_DATA": str(tmp_path / "kept")})
        shell.run_ok("add", folder, "--collection", "house")
        yield shell


def lines(folder: Path, *entries: Mapping[str, object]) -> Path:
    path = folder / "questions.jsonl"
    path.write_text("\n".join(json.dumps(entry) for entry in entries))
    return path


def test_a_question_is_measured_by_the_rank_of_its_document(shell: Shell, tmp_path: Path) -> None:
    file = lines(
        tmp_path,
        {"question": "when is the kettle descaled", "document": "Kettle"},
        {"question": "where does the boat lie", "document": "house/tea.md"},
    )
    found = shell.run_json("eval", file)
    right, wrong = found["results"]
    assert (right["rank"], right["ndcg"], right["recall"], right["mrr"]) == (1, 1.0, 1.0, 1.0)
    assert wrong["rank"] != 1
    assert wrong["top"]["title"] == "Boat"
    assert found["ndcg"] == pytest.approx((right["ndcg"] + wrong["ndcg"]) / 2)
    assert found["last"] is None
    assert found["missing_documents"] == []


def test_passages_that_were_marked_as_right_are_the_questions(shell: Shell, local: LocalEngine, tmp_path: Path) -> None:
    answer = asyncio.run(local.search(Query(text="when is the kettle descaled")))
    right = next(hit for hit in answer.hits if hit.document.title == "Kettle")
    wrong = next(hit for hit in answer.hits if hit.document.title != "Kettle")
    assert shell.run("eval", "--feedback").exit_code != 0
    asyncio.run(local.insight.rate("when is the kettle descaled", right.chunk.uid, True))
    asyncio.run(local.insight.rate("when is the kettle descaled", wrong.chunk.uid, False))
    found = shell.run_json("eval", "--feedback")
    (result,) = found["results"]
    assert (result["question"], result["rank"]) == ("when is the kettle descaled", 1)
    assert shell.run("eval").exit_code == shell.run("eval", "--feedback", tmp_path / "x.jsonl").exit_code == 2


def test_the_table_has_the_rank_and_the_first_hit(shell: Shell, tmp_path: Path) -> None:
    printed = shell.run_ok("eval", lines(tmp_path, {"question": "where does the boat lie", "document": "tea.md"}))
    assert "where does the boat lie" in printed
    assert "Boat" in printed
    assert "nDCG@10" in printed


def test_a_run_is_compared_with_the_last_one(shell: Shell, tmp_path: Path) -> None:
    file = lines(tmp_path, {"question": "milk in the blue room", "document": "Biscuits"})
    assert shell.run_json("eval", file)["missing_documents"] == ["Biscuits"]
    lines(tmp_path, {"question": "milk in the blue room", "document": "Tea"})
    last = shell.run_json("eval", file)["last"]
    assert (last["ndcg"], last["questions"], last["better"], last["worse"]) == (0, 1, ["milk in the blue room"], [])
    assert last["ndcg_difference"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert "not significant" in shell.run_ok("eval", file)
    assert shell.run_json("eval", file, "--mode", "text")["last"] is None


def test_a_passage_is_expected_by_its_text(shell: Shell, tmp_path: Path) -> None:
    passage = "tea is served at FOUR\nin the blue room"
    found = shell.run_json("eval", lines(tmp_path, {"question": "when do we have tea", "passage": passage}))
    assert found["results"][0]["rank"] == 1
    wrong = {"question": "when do we have tea", "passage": passage, "document": "Boat"}
    assert shell.run_json("eval", lines(tmp_path, wrong))["results"][0]["rank"] is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("q.csv", 'question,document\n"kettle, boat",Kettle\n"kettle, boat",Boat\n'),
        ("q.tsv", "question\tdocument\nkettle, boat\tKettle\nkettle, boat\tBoat\n"),
        ("q.yaml", "- question: kettle, boat\n  documents: [Kettle, boat.md]\n"),
        ("q.json", '[{"query": "kettle, boat", "title": "Kettle", "path": "house/boat.md"}]'),
    ],
)
def test_questions_are_read_from_every_format(shell: Shell, tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    found = shell.run_json("eval", file, "--collection", "house")
    assert (found["questions"], found["ndcg"], found["recall"]) == (1, 1.0, 1.0)


def test_min_ndcg_sets_the_exit_code(shell: Shell, tmp_path: Path) -> None:
    file = lines(tmp_path, {"question": "kettle", "document": "Kettle"}, {"question": "boat", "document": "Oars"})
    assert shell.run("eval", file, "--min-ndcg", "0.5").exit_code == cli_errors.OK
    assert shell.run("eval", file, "--min-ndcg", "0.6").exit_code == cli_errors.FAILED


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("q.jsonl", '{"question": "tea"}', "line 1 has no expected answer"),
        ("q.jsonl", '{"question": "tea", "document": 1}\n{"document": 2}', "line 2 has no question"),
        ("q.jsonl", '{"question": ', "line 1"),
        ("q.jsonl", "[]", "is not an object"),
        ("q.yaml", "question: tea", "not a list"),
        ("q.yaml", "- [", "cannot be read"),
        ("q.csv", "question,document\n", "no question"),
        ("q.txt", "tea", ".jsonl"),
    ],
)
def test_an_invalid_file_is_reported_with_its_line(tmp_path: Path, name: str, text: str, says: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    result = Shell({}).run("eval", file)
    assert result.exit_code == cli_errors.USAGE
    assert says in result.stderr


def test_a_missing_file_of_questions_is_reported() -> None:
    assert Shell({}).run("eval", "nowhere.jsonl").exit_code == cli_errors.NOT_FOUND


def test_a_passage_is_recognized_in_chunks_cut_differently() -> None:
    sentence = "The kettle is descaled with vinegar on the first Monday of every month"
    assert overlaps(f"Before that. {sentence}. After it.", sentence)
    assert overlaps("the kettle is descaled with vinegar on the first", f"{sentence}, and never on a Sunday")
    assert not overlaps("The boat is painted on the first Monday of May", sentence)
    assert not overlaps("Kettle", sentence)
    assert overlaps("Tea at four", "at four")
