"""JSON of facets: counts by a property of documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from operator import is_
from typing import Annotated, TypeAlias

from pydantic import Field

from knowledge.errors import InvalidParameter
from knowledge.model import FacetName, FacetValue

IS_NONE = partial(is_, None)
"""Leaves out a field that was not asked for; in C, because it is called for each hit."""
FACET_NAMES = {name.value: name for name in FacetName}


@dataclass(frozen=True)
class FacetValueShape:
    """A value and how often it occurs; `title` is that of a collection."""

    value: str
    count: int
    title: Annotated[str | None, Field(exclude_if=IS_NONE)] = None


FacetsField: TypeAlias = Annotated[
    dict[FacetName, tuple[FacetValueShape, ...]] | None,
    Field(exclude_if=IS_NONE, description="With `facets`: how often each value occurs, at most 50 values."),
]


def dump_facets(
    facets: Mapping[FacetName, tuple[FacetValue, ...]] | None,
) -> dict[FacetName, tuple[FacetValueShape, ...]] | None:
    if facets is None:
        return None
    return {
        name: tuple(FacetValueShape(each.value, each.count, each.title) for each in values)
        for name, values in facets.items()
    }


def load_facets(
    shapes: Mapping[FacetName, tuple[FacetValueShape, ...]] | None,
) -> dict[FacetName, tuple[FacetValue, ...]] | None:
    if shapes is None:
        return None
    return {
        name: tuple(FacetValue(each.value, each.count, each.title) for each in values)
        for name, values in shapes.items()
    }


def parse_facet_names(text: str | None) -> tuple[FacetName, ...]:
    """Parse names separated by commas."""
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    unknown = next((name for name in names if name not in FACET_NAMES), None)
    if unknown is not None:
        raise InvalidParameter(
            f"'{unknown[:40]}' is not a facet", hint=f"Use {', '.join(FACET_NAMES)}.", parameter="facets"
        )
    return tuple(dict.fromkeys(FACET_NAMES[name] for name in names))
