"""Counts and words of an answer for a person who reads it: facets, relevant passages, misspelt and unknown words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from knowledge.engine.search.fusion import Numbers
from knowledge.engine.search.hydrate import PassageSource
from knowledge.model import DocumentLabels, FacetName, FacetValue, SearchDetails
from knowledge.model.search import MIN_RELEVANCE

MAX_FACET_VALUES = 50
IDS_PER_QUERY = 500


def describe_answer(
    facets: Sequence[FacetName],
    relevance: Numbers,
    documents: Sequence[int],
    absent: Iterable[str],
    instead: Mapping[str, Sequence[str]],
    passages: PassageSource,
) -> SearchDetails:
    """Describe an answer by the relevance and the document of each of its passages, also beyond the page."""
    best = float(relevance[0]) if len(relevance) else 0.0
    misspelt = choose_corrections(instead, best)
    relevant = [document for document, value in zip(documents, relevance, strict=True) if value >= MIN_RELEVANCE]
    documents = relevant or documents  # counts agree with what a person sees as found
    labels = passages.find_labels(sorted(set(documents))[:IDS_PER_QUERY]) if facets and documents else {}
    return SearchDetails(
        relevant=int((relevance >= MIN_RELEVANCE).sum()),
        facets={name: count_facet(name, documents, labels) for name in dict.fromkeys(facets)},
        misspelt=misspelt,
        unknown_words=tuple(word for word in absent if word not in misspelt),
    )


def choose_corrections(instead: Mapping[str, Sequence[str]], best: float) -> dict[str, tuple[str, ...]]:
    """Return the corrections worth telling: a single one, or any if the best hit is relevant."""
    return {word: tuple(near) for word, near in instead.items() if len(near) == 1 or best >= MIN_RELEVANCE}


def count_facet(
    name: FacetName, documents: Sequence[int], labels: Mapping[int, DocumentLabels]
) -> tuple[FacetValue, ...]:
    """Count the passages by one property of their documents, most frequent value first."""
    present = [labels[document] for document in documents if document in labels]
    if name is FacetName.COLLECTION:
        return _count_collections(present)
    counts = Counter(value for each in present for value in _list_values(name, each))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(FacetValue(value, count) for value, count in ordered[:MAX_FACET_VALUES])


def _list_values(name: FacetName, labels: DocumentLabels) -> tuple[str, ...]:
    if name is FacetName.TAG:
        return tuple(dict.fromkeys(labels.tags))
    value = labels.doc_type if name is FacetName.DOC_TYPE else labels.language
    return () if value is None else (value,)


def _count_collections(present: Sequence[DocumentLabels]) -> tuple[FacetValue, ...]:
    """Count by collection; one whose name another collection of the answer has is named by its UUID."""
    counts = Counter(each.collection_id for each in present)
    described = {each.collection_id: each for each in present}
    named = Counter(each.collection for each in described.values())
    found = [
        FacetValue(
            each.collection if named[each.collection] == 1 else str(each.collection_uid), counts[identity],
            each.collection_title or each.collection,
        )
        for identity, each in described.items()
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda value: (-value.count, value.value))[:MAX_FACET_VALUES])
