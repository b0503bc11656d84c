"""Highlights, facets, searches while typing, and the words that stand nowhere, through the Engine protocol."""

from __future__ import annotations

from knowledge.engine.api import Engine
from knowledge.model import FacetName, FacetValue, Hit, NewCollection, Query, SearchFilter, SearchMode
from tests.support.engines import add_file, add_note


def list_marks(hit: Hit) -> list[str]:
    encoded = hit.text.encode("utf-16-le")
    assert hit.highlights is not None
    return [encoded[2 * first : 2 * last].decode("utf-16-le") for first, last in hit.highlights]


async def test_a_hit_says_which_of_its_words_matched(engine: Engine) -> None:
    await add_note(engine, "🎉 Kettles boil water; the kettle is hot.")
    answer = await engine.search(Query(text="boiling kettle", highlight=True))
    assert list_marks(answer.hits[0]) == ["Kettles", "boil", "kettle"]


async def test_nothing_is_marked_unless_asked_for(engine: Engine) -> None:
    await add_note(engine, "the kettle is hot")
    answer = await engine.search(Query(text="kettle"))
    assert answer.details is None and answer.hits[0].highlights is None


async def test_a_misspelt_word_marks_the_word_that_was_meant(engine: Engine) -> None:
    await add_note(engine, "the kettle boils water")
    answer = await engine.search(Query(text="kettel", highlight=True))
    assert list_marks(answer.hits[0]) == ["kettle"]
    assert answer.details is not None
    assert answer.details.misspelt == {"kettel": ("kettle",)} and answer.details.unknown_words == ()


async def test_a_word_that_stands_nowhere_is_listed(engine: Engine) -> None:
    await add_note(engine, "the kettle boils water")
    answer = await engine.search(Query(text="kettle zeppelin qx7", highlight=True))
    assert answer.details is not None
    assert answer.details.unknown_words == ("zeppelin", "qx7") and answer.details.misspelt == {}


async def test_several_corrections_of_one_word_are_told_only_with_a_relevant_hit(engine: Engine) -> None:
    for word in ("break", "broad", "tread"):
        await add_note(engine, f"{word} {word} stands in this note among many other words about the sea and its ships")
    text = "bread zeppelin airships moorings hydrogen lakehurst"
    answer = await engine.search(Query(text=text, highlight=True, mode=SearchMode.TEXT))
    assert answer.details is not None and answer.hits[0].score < 0.3
    assert answer.details.misspelt == {} and "bread" in answer.details.unknown_words


async def test_facets_count_the_passages_by_type_collection_tag_and_language(engine: Engine) -> None:
    await engine.create_collection(NewCollection(name="brewing", title="Brewing at home"))
    await add_note(engine, "the kettle boils water", tags=("tea", "noon"))
    await add_note(engine, "another kettle boils milk slowly", tags=("tea",))
    await add_file(engine, "beer.txt", "a kettle of wort boils for an hour", collection="brewing")
    asked = Query(text="kettle boils", facets=(*FacetName,), mode=SearchMode.TEXT)
    answer = await engine.search(asked)
    assert answer.details is not None and answer.total == 3
    facets = answer.details.facets
    assert facets[FacetName.DOC_TYPE] == (FacetValue("note", 2), FacetValue("txt", 1))
    assert facets[FacetName.TAG] == (FacetValue("tea", 2), FacetValue("noon", 1))
    assert {(each.value, each.count) for each in facets[FacetName.COLLECTION]} == {("documents", 2), ("brewing", 1)}
    assert facets[FacetName.COLLECTION][1].title == "Brewing at home"
    assert facets[FacetName.LANGUAGE] == ()
    narrowed = await engine.search(Query(text="kettle boils", filter=SearchFilter(tags=("tea",)), mode=SearchMode.TEXT))
    assert narrowed.total == 2, "a chip leads to as many passages as it says"


async def test_facets_leave_out_passages_below_the_threshold(engine: Engine) -> None:
    await add_note(engine, "the kettle boils water", tags=("tea",))
    await add_note(engine, "a boat with water in it", tags=("boat",))
    every = await engine.search(Query(text="kettle boils water"))
    best = every.hits[0].score
    asked = Query(text="kettle boils water", threshold=best - 0.001, facets=(FacetName.TAG,))
    answer = await engine.search(asked)
    assert answer.details is not None and answer.details.facets == {FacetName.TAG: (FacetValue("tea", 1),)}


async def test_the_number_of_relevant_passages_is_not_that_of_candidates(engine: Engine) -> None:
    await add_note(engine, "the kettle boils water")
    for number in range(5):
        await add_note(engine, f"a boat called number {number} lies in the harbour at night with its lamps lit")
    await add_note(engine, "water and many other things such as lamps, ropes, oars, sails, anchors and nets")
    answer = await engine.search(Query(text="kettle boils water", highlight=True, mode=SearchMode.TEXT))
    assert answer.details is not None and answer.total > answer.details.relevant
    assert answer.details.relevant == sum(hit.score >= 0.3 for hit in answer.hits) >= 1


async def test_the_last_word_is_a_prefix_while_typing(engine: Engine) -> None:
    note = await add_note(engine, "retrieval of the lost anchors")
    await add_note(engine, "a boat on the lake")
    for typed in ("retr", "lost an", "retrieva", "anch", "RETR"):
        asked = Query(text=typed, typing=True, mode=SearchMode.TEXT, highlight=True)
        answer = await engine.search(asked)
        assert [hit.document.id for hit in answer.hits] == [note.id], typed
        assert list_marks(answer.hits[0]), typed
        assert answer.details is not None and answer.details.unknown_words == (), typed
    complete = await engine.search(Query(text="retr", mode=SearchMode.TEXT))
    assert complete.hits == (), "without typing a word is a word"
    after_space = await engine.search(Query(text="retr ", typing=True, mode=SearchMode.TEXT))
    assert after_space.hits == (), "a space ends the word"


async def test_a_search_while_typing_is_never_reranked(engine: Engine) -> None:
    await add_note(engine, "the kettle boils water")
    answer = await engine.search(Query(text="kettle boi", typing=True, mode=SearchMode.RERANK))
    assert answer.mode is SearchMode.HYBRID and answer.hits


async def test_odd_typed_questions_have_an_answer(engine: Engine) -> None:
    await add_note(engine, "the kettle boils water")
    for typed in ('"ket', "kettle.", "東", "the", "k", "kettle-", "x" * 300, "ke\u0301", "C+"):
        await engine.search(Query(text=typed, typing=True, highlight=True, facets=(FacetName.TAG,)))


async def test_facets_leave_out_passages_that_are_hardly_related_to_the_question(engine: Engine) -> None:
    await add_note(engine, "the kettle boils water for the tea of the afternoon")
    await add_file(engine, "sea.txt", "water " + "ships and harbours and the wide sea with its tides " * 3)
    answer = await engine.search(
        Query(text="kettle boils water for tea", facets=(FacetName.DOC_TYPE,), mode=SearchMode.TEXT)
    )
    assert answer.details is not None and (answer.total, answer.details.relevant) == (2, 1)
    assert answer.details.facets[FacetName.DOC_TYPE] == (FacetValue("note", 1),)
