"""A map of passages: each passage a place in the plane, near those with a similar meaning."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

MIN_MAP_PASSAGES = 30
"""Passages with a vector from which on there is a map."""
MAX_MAP_POINTS = 5000


class MapState(StrEnum):
    READY = "ready"
    OUTDATED = "outdated"
    """Complete, and being made anew because more than 5 % of the passages have changed."""
    MAKING = "making"
    """There is none yet; ask again in a few seconds."""
    TOO_FEW = "too_few"
    """There are fewer than 30 passages with a vector."""
    FAILED = "failed"
    """It could not be made; the next attempt follows a request after a minute."""


class GapReason(StrEnum):
    """Why passages have no vector, and so no place on the map."""

    LANGUAGE = "language"
    """The embedding model does not read their language."""
    PENDING = "pending"
    """They are not embedded yet."""


class MapPoint(NamedTuple):
    """A passage: the number of its document in `documents`, its index there, its place (0 to 1) and its cluster."""

    document: int
    chunk: int
    x: float
    y: float
    cluster: int


@dataclass(frozen=True, slots=True)
class MapDocument:
    uid: UUID
    title: str
    collection: int
    """The number of its collection in `collections`."""


@dataclass(frozen=True, slots=True)
class MapCollection:
    uid: UUID
    name: str
    title: str
    count: int
    """Passages on the map."""


@dataclass(frozen=True, slots=True)
class MapCluster:
    """Passages that lie together."""

    terms: tuple[str, ...]
    """The words that tell it from the others, most telling first."""
    x: float
    y: float
    count: int


@dataclass(frozen=True, slots=True)
class VectorGap:
    reason: GapReason
    chunks: int
    language: str | None = None


@dataclass(frozen=True, slots=True)
class PassageMap:
    state: MapState
    passages: int
    """Passages with a vector; if there are more than points, the points are a random sample."""
    without_vectors: tuple[VectorGap, ...] = ()
    made_at: datetime | None = None
    points: tuple[MapPoint, ...] = ()
    documents: tuple[MapDocument, ...] = ()
    collections: tuple[MapCollection, ...] = ()
    """Those with the most passages first."""
    clusters: tuple[MapCluster, ...] = ()
    """Largest first."""
