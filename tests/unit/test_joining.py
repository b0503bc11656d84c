"""Consecutive chunks are joined to the text that they were cut from."""

from __future__ import annotations

from knowledge.split.passage import join_passages
from tests.unit.test_split import split_pages

TABLE = "| month | litres |\n|---|---|"


def test_paragraphs_stay_paragraphs() -> None:
    assert join_passages(["Water boils.", "Steam rises."]) == "Water boils.\n\nSteam rises."


def test_a_sentence_that_was_cut_is_whole() -> None:
    assert join_passages(["The kettle is", "descaled in spring."]) == "The kettle is descaled in spring."


def test_a_table_has_its_header_once() -> None:
    joined = join_passages([f"Use\n\n{TABLE}\n| May | 3 |", f"{TABLE}\n| June | 4 |"])
    assert joined == f"Use\n\n{TABLE}\n| May | 3 |\n| June | 4 |"


def test_another_table_keeps_its_header() -> None:
    other = "| name | age |\n|---|---|\n| Ada | 36 |"
    assert join_passages([f"{TABLE}\n| May | 3 |", other]).endswith(f"\n\n{other}")


def test_code_has_one_fence() -> None:
    joined = join_passages(["Then:\n\n```python\na = 1\n```", "```python\nb = 2\n```"])
    assert joined == "Then:\n\n```python\na = 1\nb = 2\n```"


def test_list_items_stay_a_list() -> None:
    assert join_passages(["- one", "- two"]) == "- one\n- two"


def test_chunks_of_a_table_are_joined_without_loss() -> None:
    rows = "\n".join(f"| row {number} | {number * 7} |" for number in range(60))
    pieces = split_pages(f"# Sheet\n\n{TABLE}\n{rows}\n", window=116)
    assert len(pieces) > 3 and all("| month | litres |" in piece.text for piece in pieces)
    assert join_passages([piece.text for piece in pieces]) == f"# Sheet\n\n{TABLE}\n{rows}"
