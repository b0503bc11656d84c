"""Time estimates of new documents from the latest jobs."""

from __future__ import annotations

from knowledge.toolsets.knowledge.tasks import BYTES_PER_MEGABYTE, TimingSample, estimate_seconds


def test_a_larger_document_takes_longer() -> None:
    small, large = (estimate_seconds("pdf", size, []) for size in (BYTES_PER_MEGABYTE // 10, 10 * BYTES_PER_MEGABYTE))
    assert large > 10 * small


def test_a_fast_machine_makes_the_estimate_shorter() -> None:
    fast = [TimingSample("pages", BYTES_PER_MEGABYTE, 0.5)] * 10
    slow = [TimingSample("pages", BYTES_PER_MEGABYTE, 50.0)] * 10
    assert (
        estimate_seconds("pdf", BYTES_PER_MEGABYTE, fast)
        < estimate_seconds("pdf", BYTES_PER_MEGABYTE, [])
        < estimate_seconds("pdf", BYTES_PER_MEGABYTE, slow)
    )


def test_only_documents_of_the_same_kind_are_used() -> None:
    pictures = [TimingSample("image", BYTES_PER_MEGABYTE, 90.0)] * 10
    assert estimate_seconds("pdf", BYTES_PER_MEGABYTE, pictures) == estimate_seconds("pdf", BYTES_PER_MEGABYTE, [])


def test_queued_jobs_add_to_the_estimate() -> None:
    known = [TimingSample("text", 1000, 3.0)]
    assert estimate_seconds("md", 1000, known, waiting=4) >= estimate_seconds("md", 1000, known) + 12
