"""Reranking within a time budget, or the unchanged order and a note."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.engine.search.fusion import Numbers, Ranking
from knowledge.engine.search.rerank import (
    DEFAULT_MODEL,
    LateInteractionScorer,
    PassageScorer,
    Reranker,
    RerankPassage,
    RerankRequest,
    open_reranker,
    reorder_ranking,
    to_fused_scale,
)
from knowledge.errors import InvalidParameter
from knowledge.index.api import IndexSnapshot, QueryTerms
from knowledge.model import Query, SearchMode

QUERY = Query(text="what is the capital city of france", mode=SearchMode.RERANK, budget_ms=20_000)


class LengthIdfIndex:
    """The part of an index that reranking uses: the idf of a word is its length."""

    def languages(self) -> tuple[str, ...]:
        return ("en",)

    def compute_ceiling(self, words: QueryTerms) -> float:
        return 2.2 * sum(len(forms[0]) for forms in words.terms)


INDEX: IndexSnapshot = LengthIdfIndex()  # type: ignore[assignment]


def ranking(*relevance: float) -> Ranking:
    given = np.array(relevance)
    return Ranking(np.argsort(-given, kind="stable"), given.copy(), given, calibrated=True)


def passages(*texts: str) -> list[RerankPassage]:
    return [RerankPassage(number, text) for number, text in enumerate(texts)]


class FixedScorer:
    def __init__(self, *scores: float) -> None:
        self._scores = np.array(scores)

    def score_passages(self, request: RerankRequest) -> Numbers:
        return self._scores


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.data())
def test_relevance_falls_from_first_to_last_in_the_new_order(relevance: list[float], data: st.DataObject) -> None:
    before = ranking(*relevance)
    count = data.draw(st.integers(1, len(relevance)))
    scores = np.array(data.draw(st.lists(st.floats(-5, 5), min_size=count, max_size=count)))
    after = reorder_ranking(before, scores)
    ordered = after.relevance[after.order]
    assert (np.diff(ordered) <= 0).all()
    assert sorted(after.order.tolist()) == sorted(before.order.tolist())
    assert sorted(ordered.tolist()) == sorted(relevance), "the set of relevances stays the same"
    assert after.order[count:].tolist() == before.order[count:].tolist()


def test_a_relevance_is_converted_back_to_its_fused_score() -> None:
    score = np.array([0.1, 0.4, 0.8])
    relevance = 1 / (1 + np.exp(-(-3.94 + 10.94 * score)))
    assert to_fused_scale(relevance) == pytest.approx(score)


def test_the_scorer_decides_the_order() -> None:
    reranker = Reranker(lambda: FixedScorer(0.1, 0.9, 0.5), 300)
    after, note = reranker.rerank(QUERY, "any", ranking(0.9, 0.8, 0.7, 0.6), passages("a", "b", "c"), INDEX)
    assert note is None
    assert after.order.tolist() == [1, 2, 0, 3]
    assert after.relevance[after.order].tolist() == [0.9, 0.8, 0.7, 0.6]


def test_an_exceeded_budget_keeps_the_fused_order_with_a_note() -> None:
    before = ranking(0.9, 0.8)
    slow = Reranker(lambda: FixedScorer(0.5), 300)
    after, note = slow.rerank(replace(QUERY, budget_ms=7), "any", before, passages("a", "b"), INDEX)
    assert after is before
    assert note == "Reranking took longer than 7 ms; this is the fused order."


def test_a_budget_exceeded_halfway_reranks_the_scored_passages_with_a_note() -> None:
    slow = Reranker(lambda: FixedScorer(0.1, 0.9), 300)
    after, note = slow.rerank(replace(QUERY, budget_ms=7), "any", ranking(0.9, 0.8, 0.7), passages(*"abc"), INDEX)
    assert after.order.tolist() == [1, 0, 2]
    assert note is not None and note.startswith("Within 7 ms the best 2 of 3 passages were reranked")


def test_a_reranker_that_is_still_loading_is_not_waited_for_beyond_the_budget() -> None:
    leave = threading.Event()

    def load() -> PassageScorer:
        leave.wait(30)
        return FixedScorer(1.0, 2.0)

    reranker = Reranker(load, 1)
    before = ranking(0.9, 0.8)
    after, note = reranker.rerank(replace(QUERY, budget_ms=None), "any", before, passages("a", "b"), INDEX)
    assert after is before
    assert note is not None and "still being loaded" in note
    leave.set()
    after, note = reranker.rerank(QUERY, "any", before, passages("a", "b"), INDEX)
    assert (after.order.tolist(), note) == ([1, 0], None)


def test_the_note_gives_the_reason_if_the_reranker_cannot_be_loaded(tmp_path: Path) -> None:
    reranker = open_reranker(f"dir:{tmp_path}", "auto", 5000)
    _, note = reranker.rerank(QUERY, "any", ranking(0.9), passages("a"), INDEX)
    assert note is not None and "contains no cross-encoder" in note


def test_reranking_can_be_switched_off_and_the_default_needs_its_model() -> None:
    before = ranking(0.9, 0.8)
    _, off = open_reranker("none", "auto", 300).rerank(QUERY, DEFAULT_MODEL, before, passages("a", "b"), INDEX)
    _, other = open_reranker("default", "auto", 300).rerank(QUERY, "another", before, passages("a", "b"), INDEX)
    assert off is not None and "switched off" in off
    assert other is not None and "not available with the model another" in other


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="KNOWLEDGE_RERANKER"):
        open_reranker("magic", "auto", 300)


TEXTS = (
    "The capital market of France is large.",
    "Bread is made of flour, water and salt.",
    "Paris is the capital city of France.",
    "Lyon is a city in France.",
)


@pytest.fixture(scope="module")
def late_interaction() -> LateInteractionScorer:
    from knowledge.embed.rerankers import GraniteTokenEmbedder

    return LateInteractionScorer(GraniteTokenEmbedder())


def test_late_interaction_puts_the_answering_passage_first(late_interaction: LateInteractionScorer) -> None:
    reranker = Reranker(lambda: late_interaction, 300)
    after, note = reranker.rerank(QUERY, "any", ranking(0.72, 0.7, 0.69, 0.68), passages(*TEXTS), INDEX)
    assert note is None
    assert after.order[0] == 2
    assert after.order[-1] == 1


def test_token_vectors_computed_in_time_are_cached(late_interaction: LateInteractionScorer) -> None:
    given = [RerankPassage(900 + number, text * 30) for number, text in enumerate(TEXTS)]
    late = RerankRequest(QUERY.text, given, np.array([0.7, 0.69, 0.68, 0.67]), INDEX, deadline=0.0)
    assert len(late_interaction.score_passages(late)) == 0
    in_time = replace(late, deadline=float("inf"))
    late_interaction.score_passages(replace(in_time, passages=[*given[:2], given[3]], fused=late.fused[:3]))
    assert len(late_interaction.score_passages(late)) == 2, "the third is not cached, so the fourth is not scored"
    assert len(late_interaction.score_passages(in_time)) == 4
    assert len(late_interaction.score_passages(late)) == 4, "all four are cached"


def test_each_token_has_one_vector_of_unit_length() -> None:
    from knowledge.embed.rerankers import GraniteTokenEmbedder

    tokens = GraniteTokenEmbedder()
    asked = tokens.embed_question("kettle whistles")
    assert len(asked.vectors) == len(asked.spans)
    assert np.linalg.norm(asked.vectors, axis=1) == pytest.approx(1.0, abs=1e-3)
    (one,) = tokens.embed_tokens(tokens.tokenize_passages(["kettle whistles"]))
    assert one.shape == asked.vectors.shape


def write_cross_encoder(folder: Path) -> None:
    """Write an ONNX cross-encoder that scores a pair by its highest token id."""
    from onnx import TensorProto, helper, save
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"])
    mask = helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "length"])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1])
    nodes = [
        helper.make_node("Mul", ["input_ids", "attention_mask"], ["seen"]),
        helper.make_node("Cast", ["seen"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMax", ["numbers"], ["logits"], axes=[1], keepdims=1),
    ]
    graph = helper.make_graph(nodes, "cross", [ids, mask], [logits])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    words = {"[UNK]": 0, "tea": 1, "green": 2, "best": 3}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B:1", special_tokens=[])
    tokenizer.save(str(folder / "tokenizer.json"))


def test_a_cross_encoder_from_a_folder_decides_the_order(tmp_path: Path) -> None:
    write_cross_encoder(tmp_path)
    reranker = open_reranker(f"dir:{tmp_path}", "auto", 20_000)
    given = passages("tea", "green tea", "the best tea", "no", "none", "nothing")
    after, note = reranker.rerank(
        replace(QUERY, text="tea"), "any", ranking(0.9, 0.8, 0.7, 0.6, 0.5, 0.4), given, INDEX
    )
    assert note is None
    assert after.order[:2].tolist() == [2, 1]
