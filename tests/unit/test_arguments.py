"""Arguments of tools: the JSON schema for clients, and validation errors."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from knowledge.errors import InvalidParameter, MissingParameter, UnknownParameter
from knowledge.model import Json
from knowledge.toolsets.arguments import (
    Arguments,
    JsonObject,
    make_arguments_model,
    make_schema,
    parse_arguments,
    suggest_name,
)


class Inner(Arguments):
    colour: Annotated[str | None, Field(description="A colour")] = None


async def tool(
    call: object,
    name: Annotated[str, Field(description="A name", min_length=1, max_length=5)],
    count: Annotated[int, Field(description="How many", ge=1, le=9)] = 3,
    kind: Annotated[Literal["a", "b"], Field(description="Which")] = "a",
    inner: Annotated[Inner | None, Field(description="More")] = None,
    facts: Annotated[JsonObject | None, Field(description="Anything")] = None,
    tags: Annotated[list[str] | None, Field(description="Labels")] = None,
    async_: Annotated[bool, Field(description="Later")] = True,
) -> Json:
    return {}


MODEL = make_arguments_model(tool, "tool")


def test_the_schema_is_plain() -> None:
    schema: Any = make_schema(MODEL)
    assert schema["required"] == ["name"]
    assert "additionalProperties" not in str(schema)
    assert list(schema["properties"]) == ["name", "count", "kind", "inner", "facts", "tags", "async"]
    assert schema["properties"]["inner"]["properties"]["colour"] == {"type": "string", "description": "A colour"}
    assert schema["properties"]["tags"] == {"type": "array", "items": {"type": "string"}, "description": "Labels"}
    assert "anyOf" not in str(schema) and "$ref" not in str(schema) and "title" not in str(schema)


async def measure(
    call: object,
    index: Annotated[int, Field(description="An index", gt=0, lt=10)],
    ratio: Annotated[float, Field(description="A ratio", gt=0.0, lt=1.0)],
) -> Json:
    return {}


def test_exclusive_bounds_are_checked_but_only_advertised_as_inclusive_bounds_of_integers() -> None:
    model = make_arguments_model(measure, "measure")
    schema: Any = make_schema(model)
    assert schema["properties"]["index"] == {
        "type": "integer", "minimum": 1, "maximum": 9, "description": "An index",
    }  # fmt: skip
    assert schema["properties"]["ratio"] == {"type": "number", "description": "A ratio"}
    for wrong in ({"index": 10, "ratio": 0.5}, {"index": 1, "ratio": 1.0}):
        with pytest.raises(InvalidParameter):
            parse_arguments(model, wrong)


def test_defaults_nulls_and_whole_floats_are_accepted() -> None:
    parsed = parse_arguments(MODEL, {"name": "ada", "count": 4.0, "inner": None, "async": False})
    assert parsed["count"] == 4 and isinstance(parsed["count"], int)
    assert (parsed["kind"], parsed["inner"], parsed["async_"]) == ("a", None, False)


@pytest.mark.parametrize("given", [{}, None, {"name": None}])
def test_a_missing_argument_is_named(given: Json | None) -> None:
    with pytest.raises(MissingParameter) as caught:
        parse_arguments(MODEL, given)
    assert caught.value.details == {"parameter": "name"}


@pytest.mark.parametrize(("given", "valid"), [({"size": 1}, "name"), ({"inner": {"size": 1}}, "colour")])
def test_an_unknown_argument_is_named_with_the_valid_names(given: Json, valid: str) -> None:
    with pytest.raises(UnknownParameter) as caught:
        parse_arguments(MODEL, {"name": "ada", **given})
    names = caught.value.details["valid_parameters"]
    assert isinstance(names, list) and names[0] == valid


@pytest.mark.requirement("mcp.refusals.names")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"nam": "ada"}, "Missing required parameter: name. Unknown parameter: nam (did you mean 'name'?)"),
        ({"n": "ada"}, "Missing required parameter: name. Unknown parameter: n (did you mean 'name'?)"),
        ({"size": 1}, "Missing required parameter: name. Unknown parameter: size"),
        (
            {"first_name": "ada", "counts": 2},
            "Missing required parameter: name. "
            "Unknown parameter: first_name (did you mean 'name'?), counts (did you mean 'count'?)",
        ),
    ],
)
def test_a_misnamed_argument_is_answered_with_both_names(given: Json, message: str) -> None:
    with pytest.raises(MissingParameter) as caught:
        parse_arguments(MODEL, given)
    assert str(caught.value) == message
    assert caught.value.details["unknown_parameters"] == list(given)
    assert ("Did you mean" in caught.value.hint) is ("did you mean" in message)


@pytest.mark.requirement("mcp.refusals.names")
def test_an_unknown_argument_gets_a_suggestion() -> None:
    with pytest.raises(UnknownParameter) as caught:
        parse_arguments(MODEL, {"name": "ada", "inner": {"color": "red"}})
    assert str(caught.value) == "Unknown parameter: inner.color (did you mean 'colour'?). Valid parameters: colour"
    assert caught.value.hint == "Did you mean 'colour' instead of 'color'?"


@pytest.mark.parametrize(
    ("name", "missing", "valid", "meant"),
    [
        ("q", ["query"], ["query", "top_k"], "query"),
        ("question", ["query"], ["query", "top_k"], "query"),
        ("filePath", ["file_path"], ["file_path", "async"], "file_path"),
        ("path", ["file_path"], ["file_path", "async"], "file_path"),
        ("topK", [], ["query", "top_k"], "top_k"),
        ("k", [], ["query", "top_k"], "top_k"),
        ("search", [], ["knowledge-add", "knowledge-search"], "knowledge-search"),
        ("id", [], ["document_id", "source_id"], None),
        ("colour", [], ["query", "top_k"], None),
    ],
)
def test_a_name_is_suggested_by_resemblance(name: str, missing: list[str], valid: list[str], meant: str | None) -> None:
    assert suggest_name(name, missing, valid) == meant


def test_a_thousand_unknown_arguments_are_a_short_error() -> None:
    with pytest.raises(MissingParameter) as caught:
        parse_arguments(MODEL, {f"name{number}": 1 for number in range(1000)})
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"name": ""}, "'name': must not be empty"),
        ({"name": "longer"}, "'name': must not be longer than 5"),
        ({"name": 5}, "'name': must be a string"),
        ({"count": 0}, "'count': must be at least 1"),
        ({"count": 10}, "'count': must be at most 9"),
        ({"count": 2.5}, "'count': must be an integer"),
        ({"count": True}, "'count': must be an integer"),
        ({"kind": "c"}, "'kind': must be one of 'a', 'b'"),
        ({"inner": 3}, "'inner': must be an object"),
        ({"facts": []}, "'facts': must be an object"),
        ({"tags": "one"}, "'tags': must be an array"),
        ({"tags": ["one", 2]}, "'tags.1': must be a string"),
        ({"async": "yes"}, "'async': must be true or false"),
        ({"facts": {"a": float("nan")}}, "'facts': must be finite"),
        ({"facts": {"\ud800": 1}}, "'facts': not valid Unicode text"),
        ({"name": "a\x00"}, "'name': not valid Unicode text"),
    ],
)
def test_an_invalid_value_is_explained(given: Json, problem: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        parse_arguments(MODEL, {"name": "ada", **given})
    assert str(caught.value) == f"Invalid value for {problem}"


def test_deep_nesting_is_refused() -> None:
    deep: Any = {}
    for _ in range(100):
        deep = {"a": deep}
    with pytest.raises(InvalidParameter):
        parse_arguments(MODEL, {"name": "ada", "facts": deep})
