"""Generates the page of docs/reference that lists the commands."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

import click

from knowledge import wire
from knowledge.model import Account, Collection, RemovalResult
from knowledge.surfaces.cli import cli
from knowledge.surfaces.cli import errors as cli_errors
from knowledge.surfaces.cli.output import json_shapes
from knowledge.surfaces.cli.root import SECTIONS

COMMON_OPTIONS = ("data", "as_json", "debug", "help")
SHAPES_BY_COMMAND: dict[str, tuple[type, ...]] = {
    "add": (json_shapes.AddShape, json_shapes.WatchShape),
    "note": (wire.DocumentShape,),
    "crawl": (wire.CrawlShape,),
    "search": (wire.AnswerShape,),
    "eval": (json_shapes.EvaluationShape,),
    "show": (wire.DocumentShape, wire.DocumentsShape),
    "read": (wire.DocumentWithChunksShape,),
    "tag": (json_shapes.EditedShape,),
    "move": (json_shapes.EditedShape,),
    "remove": (RemovalResult,),
    "extract": (json_shapes.ExtractedShape,),
    "collections": (wire.CollectionsShape,),
    "collections create": (Collection,),
    "collections rename": (Collection,),
    "collections remove": (RemovalResult,),
    "user add": (wire.IssuedKeyShape,),
    "user list": (wire.AccountsShape,),
    "user key": (wire.IssuedKeyShape,),
    "user disable": (Account,),
    "user remove": (RemovalResult,),
    "jobs": (wire.JobsShape,),
    "jobs show": (json_shapes.TouchedJobsShape,),
    "jobs retry": (json_shapes.TouchedJobsShape,),
    "jobs cancel": (json_shapes.TouchedJobsShape,),
    "status": (wire.StatusShape,),
    "verify": (wire.FindingsShape,),
    "reindex": (json_shapes.ReindexedShape,),
    "backup": (json_shapes.BackupShape,),
    "restore": (json_shapes.RestoredShape,),
    "doctor": (json_shapes.DoctorShape,),
}


def render_commands_page(generated_note: str) -> str:
    return "\n".join([*_render_head(generated_note), *_render_sections(), *_render_shapes(), ""])


def _render_head(generated_note: str) -> Iterator[str]:
    yield from ("# Commands", "", generated_note, "")
    yield "Results go to standard output, everything else to standard error. Colours are used only on a terminal, and"
    yield "not if `NO_COLOR` is set. `DOCUMENT` is a number, a UUID, the path of its file, or its exact title."
    yield "The commands use the engine at `KB_ENGINE_URL` if that is set, and otherwise the data folder."
    yield from ("", "## For every command", "", "| option | what it does |", "|---|---|")
    yield from (_format_option_row(option) for option in cli.params if option.name in COMMON_OPTIONS)
    yield from ("", "## Exit codes", "", "| code | meaning |", "|---|---|")
    yield from (f"| {code} | {meaning} |" for code, meaning in cli_errors.EXIT_CODES.items())
    yield ""


def _render_sections() -> Iterator[str]:
    for title, names in SECTIONS.items():
        yield from (f"## {title}", "")
        for name in names:
            yield from _render_command(name, _find_command(name))


def _find_command(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


def _render_command(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=f"knowledge {name}", terminal_width=1000, max_content_width=1000)
    yield from (
        f"### `{name}`",
        "",
        *_list_help_lines(command),
        "",
        f"    {command.get_usage(context).removeprefix('Usage: ')}",
        "",
    )
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    own = [option for option in options if option.name not in COMMON_OPTIONS]
    if own:
        yield from ("| option | what it does |", "|---|---|", *map(_format_option_row, own), "")
    if name in SHAPES_BY_COMMAND:
        yield from ("`--json`: " + " or ".join(_format_link(shape) for shape in SHAPES_BY_COMMAND[name]) + ".", "")
    yield from _render_examples(command)
    if isinstance(command, click.Group):
        for subcommand, child in command.commands.items():
            yield from _render_command(f"{name} {subcommand}", child)


def _list_help_lines(command: click.Command) -> list[str]:
    return [line.strip() for line in (command.help or "").strip().splitlines()]


def _render_examples(command: click.Command) -> Iterator[str]:
    lines = (command.epilog or "").splitlines()[2:]
    if lines:
        yield from ("```sh", *(line.strip() for line in lines), "```", "")


def _format_option_row(parameter: click.Parameter) -> str:
    assert isinstance(parameter, click.Option)
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    takes = "" if parameter.is_flag else f" {_format_value(parameter)}"
    default = f" Default: `{parameter.default}`." if parameter.show_default and not parameter.is_flag else ""
    return f"| {names}{takes} | {parameter.help}{default} |".replace("  [", " [")


def _format_value(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return " \\| ".join(str(choice) for choice in option.type.choices)
    return option.metavar or option.type.name.split(" ")[0].upper()


# -- shapes ---------------------------------------------------------------------------------------


def _render_shapes() -> Iterator[str]:
    yield from ("## What `--json` prints", "")
    yield "The shapes are those of the REST API. An error is an [`ErrorShape`](#errorshape) on standard error."
    yield ""
    for shape in _find_all_shapes():
        yield from (f"### `{shape.__name__}`", "", "| field | type |", "|---|---|")
        for name, kind in _read_fields(shape).items():
            yield f"| `{name}` | {_format_type(kind)} |"
        yield ""


def _find_all_shapes() -> list[type]:
    """Return the shapes of all answers and the shapes inside them, each once."""
    found: dict[type, None] = {}
    waiting = [wire.ErrorShape, *(shape for shapes_ in SHAPES_BY_COMMAND.values() for shape in shapes_)]
    while waiting:
        shape = waiting.pop(0)
        if shape not in found:
            found[shape] = None
            waiting += _find_shapes_inside(tuple(_read_fields(shape).values()))
    return sorted(found, key=lambda shape: shape.__name__)


def _find_shapes_inside(kinds: tuple[object, ...]) -> list[type]:
    """Return the shapes inside types, at any depth."""
    found: list[type] = []
    for kind in kinds:
        found += [kind] if _is_shape(kind) else _find_shapes_inside(typing.get_args(kind))
    return found


def _is_shape(kind: object) -> typing.TypeGuard[type]:
    return isinstance(kind, type) and (dataclasses.is_dataclass(kind) or hasattr(kind, "__required_keys__"))


def _read_fields(shape: type) -> dict[str, object]:
    """Return the types of the fields of a shape, in the order of the JSON."""
    hints = typing.get_type_hints(shape, include_extras=True)
    return (
        {each.name: hints[each.name] for each in dataclasses.fields(shape)}
        if dataclasses.is_dataclass(shape)
        else hints
    )


def _format_type(kind: object) -> str:
    arguments = typing.get_args(kind)
    origin = typing.get_origin(kind)
    if _is_shape(kind):
        return _format_link(kind)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_format_type(one) for one in arguments)
    if origin in (list, tuple):
        return f"list of {_format_type(arguments[0])}"
    if origin is dict:
        return "object"
    if origin is typing.Annotated and all(getattr(each, "exclude_if", None) is None for each in arguments[1:]):
        return _format_type(arguments[0])
    if arguments:
        return f"{_format_type(arguments[0])}, if there is one"
    if isinstance(kind, type) and issubclass(kind, (str, UUID, datetime)):
        return "string"
    return {int: "integer", float: "number", bool: "true or false", type(None): "null"}.get(
        typing.cast(type, kind), "any JSON"
    )


def _format_link(shape: type) -> str:
    return f"[`{shape.__name__}`](#{shape.__name__.lower()})"
