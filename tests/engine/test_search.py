"""Search through the Engine protocol: modes, phrases, filters, paging, joined passages and spelling."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta

import pytest

from knowledge.engine.api import Engine
from knowledge.errors import EmptyQuery, IndexFailed
from knowledge.index.snapshot import EmbeddedSnapshot
from knowledge.model import Query, SearchFilter, SearchMode, now
from tests.support.engines import add_file, add_note, search_ids


@pytest.mark.parametrize("mode", [SearchMode.HYBRID, SearchMode.TEXT, SearchMode.VECTOR])
async def test_every_mode_finds_and_scores_between_0_and_1(engine: Engine, mode: SearchMode) -> None:
    note = await add_note(engine, "the kettle boils water")
    await add_note(engine, "a boat on the lake")
    answer = await engine.search(Query(text="kettle water", mode=mode))
    assert answer.hits[0].document.id == note.id
    assert all(0.0 <= hit.score <= 1.0 for hit in answer.hits)
    assert answer.mode is mode


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("parse_config", "call parse_config(path) first"),
        ("config", "call parse_config(path) first"),
        ("HTTPHeader", "see parseHTTPHeader in the module"),
        ("os.path.join", "use os.path.join to build it"),
        ("1.2.3", "since version 1.2.3 it works"),
        ("2024-05-01", "due on 2024-05-01 at noon"),
        ("ß", "the letter ß is German"),
        ("東京", "我々は東京タワーに行った"),
        ("naïve", "a naive approach"),
        ("Häuser", "Die Häuser am See sind alt und schön und stehen leer"),
        ("x", "solve for x first"),
    ],
)
async def test_identifiers_numbers_and_other_scripts_are_found(engine: Engine, question: str, text: str) -> None:
    note = await add_note(engine, text)
    await add_note(engine, "nothing to see here")
    answer = await engine.search(Query(text=question, mode=SearchMode.TEXT))
    assert [hit.document.id for hit in answer.hits] == [note.id]


async def test_a_quoted_phrase_matches_exactly(engine: Engine) -> None:
    exact = await add_note(engine, "the red house stands")
    await add_note(engine, "the house is red")
    assert await search_ids(engine, '"red house"') == [exact.id]


@pytest.mark.parametrize("question", ["", "   ", "\n\t"])
async def test_a_blank_question_is_refused(engine: Engine, question: str) -> None:
    with pytest.raises(EmptyQuery):
        await engine.search(Query(text=question))


@pytest.mark.parametrize(
    "question", ["🎉🎉", "the of and", "x" * 10_000, "why " * 2_500, '"unclosed', "a AND (b", "\x00"]
)
async def test_odd_questions_have_an_answer_or_an_empty_query_error(engine: Engine, question: str) -> None:
    await add_note(engine, "the of and why")
    with suppress(EmptyQuery):
        await engine.search(Query(text=question))


async def test_filters_narrow_by_type_date_and_document(engine: Engine) -> None:
    note = await add_note(engine, "apples and pears")
    file = await add_file(engine, "fruit.txt", "apples and plums")
    assert await search_ids(engine, "apples", doc_types=("txt",)) == [file.id]
    assert await search_ids(engine, "apples", documents=(note.id,)) == [note.id]
    today = now()
    assert set(await search_ids(engine, "apples", date_from=today, date_to=today)) == {note.id, file.id}
    assert await search_ids(engine, "apples", date_to=today - timedelta(days=1)) == []


async def test_pages_never_repeat_a_passage(engine: Engine) -> None:
    for number in range(25):
        await add_note(engine, f"apple number {number}")
    seen: list[int] = []
    for offset in range(0, 30, 10):
        answer = await engine.search(Query(text="apple", limit=10, offset=offset))
        seen += [hit.chunk.id for hit in answer.hits]
    assert len(seen) == len(set(seen)) == 25


async def test_a_threshold_drops_less_relevant_hits(engine: Engine) -> None:
    await add_note(engine, "the kettle boils water")
    await add_note(engine, "a boat with water in it")
    every = await engine.search(Query(text="kettle boils water"))
    best = every.hits[0].score
    above = await engine.search(Query(text="kettle boils water", threshold=best - 0.001))
    assert [hit.score for hit in above.hits] == [best]


async def test_explain_returns_the_scores_of_each_step(engine: Engine) -> None:
    await add_note(engine, "the kettle boils water")
    answer = await engine.search(Query(text="kettle", explain=True))
    assert answer.explanation and answer.hits[0].explanation


async def test_titles_and_headings_are_searched_like_text(engine: Engine) -> None:
    document = await add_file(engine, "g.md", "# Zymurgy\n\n## Fermentation\n\nYeast eats sugar.\n", title="Brewing")
    for word in ("brewing", "zymurgy", "fermentation", "yeast"):
        answer = await engine.search(Query(text=word, mode=SearchMode.TEXT, filter=SearchFilter()))
        assert [hit.document.id for hit in answer.hits][:1] == [document.id], word


# -- passages -------------------------------------------------------------------------------------


def long_section(subject: str, paragraphs: int) -> str:
    """Make paragraphs about one subject, each long enough for a chunk."""
    filler = " ".join(f"detail{number} of it" for number in range(40))
    return "\n\n".join(
        f"The {subject} and the {subject} again, part {number}: {filler}." for number in range(paragraphs)
    )


async def test_adjacent_relevant_chunks_are_one_hit(engine: Engine) -> None:
    guide = await add_file(
        engine, "guide.md", f"# Guide\n\n## Kettle\n\n{long_section('kettle', 3)}\n\n## Boat\n\nOars."
    )
    await add_note(engine, "a boat on the lake")
    answer = await engine.search(Query(text="kettle", mode=SearchMode.TEXT))
    assert [(hit.document.id, hit.indexes) for hit in answer.hits] == [(guide.id, (0, 2))]
    assert answer.total == 1
    (hit,) = answer.hits
    chunks = await engine.chunks(guide.id)
    assert hit.chunk in chunks, "the chunk of the hit is the best of the joined ones"
    assert all(f"part {number}:" in hit.text for number in range(3)) and hit.text.count("# Guide") == 1


async def test_one_document_does_not_fill_the_page_if_others_match(engine: Engine) -> None:
    sections = "\n\n".join(f"## Kettle {name}\n\nThe kettle is {name}. {'And so on. ' * 30}" for name in SECTIONS)
    await add_file(
        engine, "kettles.md", "\n\n".join(f"{part}\n\n## Other\n\nOars." for part in sections.split("\n\n## "))
    )
    other = await add_note(engine, "Our kettle boils the water for tea in the small kitchen upstairs every morning.")
    answer = await engine.search(Query(text="kettle", mode=SearchMode.TEXT, limit=6))
    assert other.id in [hit.document.id for hit in answer.hits]
    scores = [hit.score for hit in answer.hits]
    assert scores == sorted(scores, reverse=True)


SECTIONS = ("red", "green", "blue", "white", "black", "brown", "old", "new", "tall", "flat")


async def test_near_duplicates_rank_below_different_passages(engine: Engine) -> None:
    text = "The kettle is descaled in spring with vinegar, then rinsed twice with cold water and left to dry."
    for name in ("first", "second", "third", "fourth"):
        await add_note(engine, text, collection=name)
    other = await add_note(engine, "The kettle is descaled by the janitor.")
    answer = await engine.search(Query(text="kettle descaled spring", mode=SearchMode.TEXT))
    assert [hit.document.id for hit in answer.hits].index(other.id) == 1
    assert answer.total == 5


async def test_pages_of_joined_and_moved_passages_neither_repeat_nor_skip(engine: Engine) -> None:
    for name in SECTIONS:
        await add_file(engine, f"{name}.md", f"# {name}\n\n{long_section('kettle', 4)}\n\n# Other\n\nA kettle, {name}.")
    whole = await engine.search(Query(text="kettle", limit=100))
    assert whole.total == len(whole.hits)
    paged = [await engine.search(Query(text="kettle", limit=3, offset=offset)) for offset in range(0, whole.total, 3)]
    assert [(hit.chunk.id, hit.indexes) for page in paged for hit in page.hits] == [
        (hit.chunk.id, hit.indexes) for hit in whole.hits
    ]
    assert {page.total for page in paged} == {whole.total}


async def test_an_unreadable_index_raises_index_failed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def bad_disk(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    await add_note(engine, "Tea is served at five.")
    monkeypatch.setattr(EmbeddedSnapshot, "find_candidates", bad_disk)
    with pytest.raises(IndexFailed, match="could not be searched"):
        await engine.search(Query(text="tea"))


# -- misspelt words -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("retreival", "retrieval"),
        ("enviroment", "environment"),
        ("seperation", "separation"),
        ("kubernnetes", "kubernetes"),
        ("Postgrss", "Postgres"),
        ("voltmetr-reading", "voltmeter"),
    ],
)
async def test_a_word_with_one_wrong_letter_is_corrected(engine: Engine, typed: str, meant: str) -> None:
    note = await add_note(engine, f"about {meant} and what belongs to it")
    await add_note(engine, "nothing to see here")
    answer = await engine.search(Query(text=typed, mode=SearchMode.TEXT, explain=True))
    assert [hit.document.id for hit in answer.hits] == [note.id]
    assert answer.explanation and answer.explanation["instead"] == {typed.split("-")[0]: [meant.lower()]}
    right = await engine.search(Query(text=meant, mode=SearchMode.TEXT))
    assert answer.hits[0].score < right.hits[0].score


@pytest.mark.parametrize("typed", ["tae", "boet", "sha257", "COVID-18", "parse_confg", '"retreival"', "KERNAL"])
async def test_short_words_names_numbers_and_quotes_are_not_corrected(engine: Engine, typed: str) -> None:
    await add_note(engine, "tea boat sha256 covid-19 parse_config retrieval kernel")
    answer = await engine.search(Query(text=f"zebra {typed}", mode=SearchMode.TEXT, explain=True))
    assert answer.explanation and answer.explanation["instead"] == {}


async def test_a_word_with_a_match_is_not_corrected(engine: Engine) -> None:
    await add_note(engine, "the retreival of it")
    right = await add_note(engine, "the retrieval of it")
    answer = await engine.search(Query(text="retrieval", mode=SearchMode.TEXT, explain=True))
    assert [hit.document.id for hit in answer.hits] == [right.id]
    assert answer.explanation and answer.explanation["instead"] == {}


async def test_corrections_come_from_the_searched_collections(engine: Engine) -> None:
    await add_note(engine, "the retrieval of it", collection="other")
    note = await add_note(engine, "the retreivel of it", collection="mine")
    asked = Query(text="retreival", mode=SearchMode.TEXT, filter=SearchFilter(collections=("mine",)), explain=True)
    answer = await engine.search(asked)
    assert [hit.document.id for hit in answer.hits] == [note.id]
    assert answer.explanation and answer.explanation["instead"] == {"retreival": ["retreivel"]}


async def test_a_phrase_is_found_among_many_passages_with_its_words(engine: Engine) -> None:
    texts = [f"house red house red, number {number}: a house that is red, and red" for number in range(120)]
    await asyncio.gather(*(add_note(engine, text) for text in texts))
    exact = await add_note(engine, "far away, among very many other things and a great deal of rain, a small red house")
    for number in range(120, 130):
        await add_note(engine, f"house, red, number {number}")
    assert exact.id in await search_ids(engine, '"small red house"')
