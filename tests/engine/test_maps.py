"""The map of passages: made in the background, kept, remade after changes, and never of what others own."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.engine.maps import child
from knowledge.errors import CollectionNotFound, InvalidParameter
from knowledge.model import Caller, DocumentEdit, NewCollection
from knowledge.model.maps import GapReason, MapState, PassageMap
from knowledge.testing import BagOfWordsEmbedder, SharedParsers, make_test_engine
from tests.support.accounts import create_corpus, grant_access, register
from tests.support.engines import add_file, add_note

SUBJECTS = {
    "lighthouse": "The keeper of the lighthouse lights the lamp and polishes the lens.",
    "tomato": "A tomato plant needs water, compost and a stick beside the greenhouse.",
    "railway": "The railway engine stops at the signal before the tunnel and the viaduct.",
}
PASSAGES_PER_SUBJECT = 12


def write_text(subject: str, count: int = PASSAGES_PER_SUBJECT, word: str = "") -> str:
    """Return a document with one passage for each heading."""
    return "\n\n".join(
        f"# {subject} {number}\n\n" + f"{SUBJECTS[subject]} {word} " * 4 + f"Note {number}." for number in range(count)
    )


async def add_subjects(engine: Engine, **more: object) -> None:
    for subject in SUBJECTS:
        await add_file(engine, f"{subject}.md", write_text(subject), **more)


async def read_map(
    engine: Engine, collection: str | int | None = None, *, state: MapState = MapState.READY
) -> PassageMap:
    """Ask for the map until it is in this state."""
    async with asyncio.timeout(60):
        while (found := await engine.maps.read(collection)).state is not state:
            assert found.state in (MapState.MAKING, MapState.OUTDATED), found.state
            await asyncio.sleep(0.05)
    return found


def list_titles(found: PassageMap) -> set[str]:
    return {document.title for document in found.documents}


def list_terms(found: PassageMap) -> set[str]:
    return {term.casefold() for cluster in found.clusters for term in cluster.terms}


async def test_every_passage_is_a_point_and_clusters_are_named_by_their_words(engine: Engine) -> None:
    await add_subjects(engine)
    assert (await engine.maps.read()).state in (MapState.MAKING, MapState.READY)
    found = await read_map(engine)
    assert found.passages == len(found.points) >= 36 and found.made_at is not None and found.without_vectors == ()
    assert len(found.documents) == 3 and [each.name for each in found.collections] == ["documents"]
    assert all(0 <= point.x <= 1 and 0 <= point.y <= 1 for point in found.points)
    assert sum(cluster.count for cluster in found.clusters) == len(found.points)
    together: dict[int, set[int]] = {}
    for point in found.points:
        together.setdefault(point.document, set()).add(point.cluster)
    assert len(found.clusters) >= 3 and not set.intersection(*together.values()), "documents do not share a cluster"
    assert {"lighthouse", "tomato", "railway"} & list_terms(found)
    few = await engine.maps.read(limit=10)
    assert len(few.points) == 10 and few.passages == found.passages


async def test_there_is_no_map_of_fewer_than_thirty_passages(engine: Engine) -> None:
    assert (await engine.maps.read()).state is MapState.TOO_FEW
    await add_file(engine, "tomato.md", write_text("tomato", 5))
    found = await engine.maps.read()
    assert (found.state, found.points) == (MapState.TOO_FEW, ()) and found.passages >= 5


async def test_wrong_values_are_refused(engine: Engine) -> None:
    with pytest.raises(CollectionNotFound):
        await engine.maps.read("nowhere")
    for limit in (0, 5001):
        with pytest.raises(InvalidParameter):
            await engine.maps.read(limit=limit)


async def test_a_collection_has_a_map_of_its_own_that_goes_with_it(engine: Engine) -> None:
    await add_subjects(engine)
    made = await engine.create_collection(NewCollection(title="Rails", name="rails"))
    await add_file(engine, "more.md", write_text("railway", 32, "locomotive"), collection="rails")
    found = await read_map(engine, "rails")
    assert [each.name for each in found.collections] == ["rails"] and len(found.documents) == 1
    await engine.remove_collection(made.id)
    with pytest.raises(CollectionNotFound):
        await engine.maps.read("rails")


async def test_a_removed_or_replaced_document_leaves_the_map_at_once(engine: Engine) -> None:
    await add_subjects(engine)
    note = await add_note(engine, "A zeppelin lands at the mooring mast.", title="Airship")
    before = await read_map(engine)
    assert "Airship" in list_titles(before)
    await engine.edit(note.id, DocumentEdit(title="Balloon"))
    assert "Balloon" in list_titles(await engine.maps.read())
    await engine.remove(note.id)
    after = await engine.maps.read()
    assert after.state is MapState.READY, "one of 37 passages is less than 5 %"
    assert not {"Airship", "Balloon"} & list_titles(after) and "zeppelin" not in list_terms(after)


async def test_the_map_is_made_anew_when_more_than_five_percent_changed(engine: Engine) -> None:
    await add_subjects(engine)
    before = await read_map(engine)
    await add_note(engine, "One more passage about the weather.")
    assert (await engine.maps.read()).made_at == before.made_at and len((await engine.maps.read()).points) == 36
    await add_file(engine, "more.md", write_text("tomato", 6, "basil"))
    outdated = await engine.maps.read()
    assert outdated.state is MapState.OUTDATED and outdated.points, "the old map is shown meanwhile"
    after = await read_map(engine)
    assert after.made_at != before.made_at and len(after.points) == after.passages > 40


async def test_the_map_is_kept_over_a_restart(settings: Settings, parsers: SharedParsers) -> None:
    times = []
    for start in range(2):
        local = make_test_engine(settings, parsers=parsers)
        local.start()
        try:
            engine = local.as_caller(Caller())
            if not start:
                await add_subjects(engine)
                await read_map(engine)
            times.append((await engine.maps.read()).made_at)
        finally:
            local.close()
    assert times[0] == times[1] is not None


class EnglishEmbedder(BagOfWordsEmbedder):
    languages = frozenset({"en"})


async def test_it_says_which_passages_have_no_vector_and_why(settings: Settings, parsers: SharedParsers) -> None:
    local = make_test_engine(settings, parsers=parsers, embedder=EnglishEmbedder())
    local.start()
    try:
        engine = local.as_caller(Caller())
        await add_subjects(engine)
        german = "Der Leuchtturmwärter zündet jeden Abend die Lampe an und schreibt das Wetter in sein Tagebuch. " * 5
        note = await add_note(engine, german)
        [gap] = (await read_map(engine)).without_vectors
        assert (gap.reason, gap.language) == (GapReason.LANGUAGE, "de") and gap.chunks >= 1
        # Vectors that are made later, as after a change of the model, count as well.
        model = local._parts.stored_models.get_active()
        assert model is not None
        vector = np.ones(model.dimension, np.float16).tobytes()
        vectors = [(chunk.id, vector) for chunk in await engine.chunks(note.id)]
        local._parts.chunks.add_vectors(model.id, vectors, [note.id])
        assert (await engine.document(note.id)).vector_count == len(vectors)
        assert (await engine.maps.read()).without_vectors == ()
    finally:
        local.close()


async def test_a_child_that_fails_is_reported_and_does_not_stop_the_engine(
    local: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "CHILD_PROGRAM", "raise SystemExit(3)")
    engine = local.as_caller(Caller())
    await add_subjects(engine)
    async with asyncio.timeout(60):
        while (found := await engine.maps.read()).state is MapState.MAKING:
            await asyncio.sleep(0.02)
    assert found.state is MapState.FAILED and found.points == ()


# -- accounts ---------------------------------------------------------------------------------------


async def test_an_account_sees_only_what_it_may_read_also_in_the_names_of_clusters(engine: Engine) -> None:
    anna, bert = [await register(engine, name) for name in ("anna", "bert")]
    await add_subjects(anna)
    corpus = await create_corpus(bert, "Secret harbour")
    await add_file(bert, "secret.md", write_text("lighthouse", 34, "periscope"), collection=corpus.id)
    alone = await read_map(anna)
    assert "secret" not in list_titles(alone) and "periscope" not in list_terms(alone)
    with pytest.raises(CollectionNotFound):
        await anna.maps.read(corpus.id)
    await grant_access(bert, corpus, "anna")
    shared = await read_map(anna)
    assert len(shared.points) > len(alone.points) and "periscope" in list_terms(shared)
    assert (await read_map(anna, corpus.id)).passages == len(shared.points) - len(alone.points)
    await bert.corpora.revoke_grant(corpus.id, "anna")
    revoked = await anna.maps.read()
    assert revoked.state is MapState.OUTDATED, "the stored map still has the places of both"
    assert len(revoked.points) == len(alone.points) and "periscope" not in list_terms(revoked)
    assert [each.name for each in revoked.collections] == ["documents"]
    with pytest.raises(CollectionNotFound):
        await anna.maps.read(corpus.id)
