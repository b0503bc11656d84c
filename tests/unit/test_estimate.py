"""How long a document will take, from how long the latest ones took."""

from __future__ import annotations

from knowledge.toolsets.estimate import MEGABYTE, Sample, seconds_for


def test_a_larger_document_takes_longer() -> None:
    small, large = (seconds_for("pdf", size, []) for size in (MEGABYTE // 10, 10 * MEGABYTE))
    assert large > 10 * small


def test_a_fast_machine_makes_the_estimate_shorter() -> None:
    fast = [Sample("pages", MEGABYTE, 0.5)] * 10
    slow = [Sample("pages", MEGABYTE, 50.0)] * 10
    assert seconds_for("pdf", MEGABYTE, fast) < seconds_for("pdf", MEGABYTE, []) < seconds_for("pdf", MEGABYTE, slow)


def test_only_documents_of_a_like_kind_are_learnt_from() -> None:
    pictures = [Sample("image", MEGABYTE, 90.0)] * 10
    assert seconds_for("pdf", MEGABYTE, pictures) == seconds_for("pdf", MEGABYTE, [])


def test_those_who_wait_before_it_count() -> None:
    known = [Sample("text", 1000, 3.0)]
    assert seconds_for("md", 1000, known, waiting=4) >= seconds_for("md", 1000, known) + 12
