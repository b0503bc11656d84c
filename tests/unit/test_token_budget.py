"""Choose sections within a token budget."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from knowledge.toolsets.sage.token_budget import CandidateSection, choose_sections, render_sections


def count(text: str) -> int:
    return len(text.split())


def part(name: str, words: int, weight: float = 1.0, order: int = 0, page: str = "core/a") -> CandidateSection:
    text = " ".join([f"{name}."] + ["word"] * (words - 1))
    return CandidateSection(page, "Title", name, text, order, weight, count(text))


def test_sections_that_fit_are_complete_and_in_page_order() -> None:
    parts = [part("second", 5, weight=2.0, order=1), part("first", 5, weight=1.0, order=0)]
    chosen = choose_sections(parts, 100, count)
    assert chosen.text.index("first.") < chosen.text.index("second.")
    assert chosen.sections == ("core/a",)
    assert chosen.tokens == count(chosen.text)
    assert (chosen.cut, chosen.left_out) == ((), 0)


def test_a_smaller_whole_section_is_preferred_to_a_truncated_heavier_one() -> None:
    parts = [part("large", 500, weight=3.0), part("small", 10, weight=1.0, page="core/b")]
    chosen = choose_sections(parts, 20, count)
    assert chosen.sections == ("core/b",)
    assert "large." not in chosen.text


def test_the_best_section_that_does_not_fit_is_truncated_to_fill_the_budget() -> None:
    long = CandidateSection("core/a", "Title", "long", "One two three four. Five six. " + "seven " * 200, 0, 1.0, 206)
    chosen = choose_sections([long], 30, count)
    assert chosen.text == "# Title\n\nOne two three four. Five six. …"
    assert chosen.sections == chosen.cut == ("core/a#long",)


def test_a_code_block_is_never_truncated() -> None:
    code = "```\n" + "\n\n".join(f"line {number}" for number in range(50)) + "\n```"
    text = f"## Use\n\nLike this.\n\n{code}\n\nAnd that is all."
    chosen = choose_sections([CandidateSection("core/a", "Title", "Use", text, 0, 1.0, count(text))], 30, count)
    assert chosen.text.count("```") % 2 == 0


def test_an_incomplete_page_is_named_by_its_sections() -> None:
    parts = [part("kept", 5, weight=2.0, order=0), part("dropped", 500, weight=1.0, order=1)]
    assert choose_sections(parts, 18, count).sections == ("core/a#kept",)


def test_a_budget_that_fits_nothing_returns_nothing() -> None:
    assert choose_sections([part("a", 50)], 1, count).text == ""
    assert choose_sections([], 1000, count).tokens == 0


PARTS = st.lists(
    st.tuples(st.integers(1, 120), st.floats(0, 3, allow_nan=False), st.sampled_from(["core/a", "core/b", "core/c"])),
    max_size=12,
).map(lambda rows: [part(f"s{place}", words, weight, place, page) for place, (words, weight, page) in enumerate(rows)])


@given(PARTS, st.integers(1, 400))
def test_a_choice_respects_its_budget_and_names_its_sections(parts: list[CandidateSection], budget: int) -> None:
    chosen = choose_sections(parts, budget, count)
    assert chosen.tokens == count(chosen.text) <= budget
    named = {name.partition("#")[0] for name in chosen.sections}
    assert named == {found.page for found in parts if found.text.split()[0] in chosen.text.split()}
    whole = [found for found in parts if found.text in chosen.text]
    assert all(f"{found.page}#{found.heading}" not in chosen.cut for found in whole)


@given(PARTS)
def test_a_sufficient_budget_returns_everything(parts: list[CandidateSection]) -> None:
    chosen = choose_sections(parts, 100_000, count)
    ranked = sorted(parts, key=lambda found: (-found.weight, found.page, found.order))
    assert chosen.text == render_sections(ranked)
    assert chosen.left_out == 0
