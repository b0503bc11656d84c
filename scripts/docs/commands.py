"""The reference page of the commands, made from the commands themselves."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator

import click

from knowledge.surfaces.cli import cli
from knowledge.surfaces.cli import errors as cli_errors
from knowledge.surfaces.cli.output import json_shapes
from knowledge.surfaces.cli.root import SECTIONS
from knowledge.wire import shapes as wire

COMMON = ("data", "as_json", "debug", "help")
ANSWERS: dict[str, tuple[type, ...]] = {
    "add": (json_shapes.AddShape, json_shapes.WatchShape),
    "note": (wire.DocumentShape,),
    "crawl": (wire.CrawlShape,),
    "search": (wire.AnswerShape,),
    "eval": (json_shapes.EvaluationShape,),
    "show": (wire.DocumentShape, wire.DocumentsShape),
    "read": (wire.DocumentWithChunksShape,),
    "tag": (json_shapes.EditedShape,),
    "move": (json_shapes.EditedShape,),
    "remove": (wire.RemovedShape,),
    "extract": (json_shapes.ExtractedShape,),
    "collections": (wire.CollectionsShape,),
    "collections create": (wire.CollectionShape,),
    "collections rename": (wire.CollectionShape,),
    "collections remove": (wire.RemovedShape,),
    "user add": (wire.IssuedKeyShape,),
    "user list": (wire.AccountsShape,),
    "user key": (wire.IssuedKeyShape,),
    "user disable": (wire.AccountShape,),
    "user remove": (wire.RemovedShape,),
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


def commands_page(made: str) -> str:
    return "\n".join([*_head(made), *_sections(), *_shapes(), ""])


def _head(made: str) -> Iterator[str]:
    yield from ("# Commands", "", made, "")
    yield "Results go to standard output, everything else to standard error. There are no colours without a terminal"
    yield "and where `NO_COLOR` is set. `DOCUMENT` is a number, a UUID, the path that a document came from, or its"
    yield "exact title. The commands use the engine at `KB_ENGINE_URL` if that is set, and otherwise the data folder."
    yield from ("", "## For every command", "", "| option | what it does |", "|---|---|")
    yield from (_row(option) for option in cli.params if option.name in COMMON)
    yield from ("", "## Exit codes", "", "| code | meaning |", "|---|---|")
    yield from (f"| {code} | {meaning} |" for code, meaning in cli_errors.EXIT_CODES.items())
    yield ""


def _sections() -> Iterator[str]:
    for title, names in SECTIONS.items():
        yield from (f"## {title}", "")
        for name in names:
            yield from _command(name, _named(name))


def _named(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


def _command(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=f"knowledge {name}", terminal_width=1000, max_content_width=1000)
    yield from (
        f"### `{name}`",
        "",
        *_help(command),
        "",
        f"    {command.get_usage(context).removeprefix('Usage: ')}",
        "",
    )
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    own = [option for option in options if option.name not in COMMON]
    if own:
        yield from ("| option | what it does |", "|---|---|", *map(_row, own), "")
    if name in ANSWERS:
        yield from ("`--json`: " + " or ".join(_link(shape) for shape in ANSWERS[name]) + ".", "")
    yield from _examples(command)
    if isinstance(command, click.Group):
        for below, child in command.commands.items():
            yield from _command(f"{name} {below}", child)


def _help(command: click.Command) -> list[str]:
    return [line.strip() for line in (command.help or "").strip().splitlines()]


def _examples(command: click.Command) -> Iterator[str]:
    lines = (command.epilog or "").splitlines()[2:]
    if lines:
        yield from ("```sh", *(line.strip() for line in lines), "```", "")


def _row(parameter: click.Parameter) -> str:
    assert isinstance(parameter, click.Option)
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    takes = "" if parameter.is_flag else f" {_takes(parameter)}"
    default = f" Default: `{parameter.default}`." if parameter.show_default and not parameter.is_flag else ""
    return f"| {names}{takes} | {parameter.help}{default} |".replace("  [", " [")


def _takes(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return " \\| ".join(str(choice) for choice in option.type.choices)
    return option.metavar or option.type.name.split(" ")[0].upper()


# -- shapes ---------------------------------------------------------------------------------------


def _shapes() -> Iterator[str]:
    yield from ("## What `--json` prints", "")
    yield "The shapes are those of the REST API. An error is an [`ErrorShape`](#errorshape) on standard error."
    yield ""
    for shape in _all_shapes():
        yield from (f"### `{shape.__name__}`", "", "| field | type |", "|---|---|")
        for name, kind in typing.get_type_hints(shape, include_extras=True).items():
            yield f"| `{name}` | {_type(kind)} |"
        yield ""


def _all_shapes() -> list[type]:
    """Those that commands answer, and those that stand in them, each once."""
    found: dict[type, None] = {}
    waiting = [wire.ErrorShape, *(shape for shapes_ in ANSWERS.values() for shape in shapes_)]
    while waiting:
        shape = waiting.pop(0)
        if shape not in found:
            found[shape] = None
            waiting += _inside(tuple(typing.get_type_hints(shape).values()))
    return sorted(found, key=lambda shape: shape.__name__)


def _inside(kinds: tuple[object, ...]) -> list[type]:
    """The shapes that stand in types, however deep."""
    found: list[type] = []
    for kind in kinds:
        found += [kind] if _is_shape(kind) else _inside(typing.get_args(kind))
    return found


def _is_shape(kind: object) -> typing.TypeGuard[type]:
    return isinstance(kind, type) and hasattr(kind, "__required_keys__")


def _type(kind: object) -> str:
    arguments = typing.get_args(kind)
    origin = typing.get_origin(kind)
    if _is_shape(kind):
        return _link(kind)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_type(one) for one in arguments)
    if origin is list:
        return f"list of {_type(arguments[0])}"
    if origin is dict:
        return "object"
    if arguments:
        return f"{_type(arguments[0])}, if there is one"
    return {str: "string", int: "integer", float: "number", bool: "true or false", type(None): "null"}.get(
        typing.cast(type, kind), "any JSON"
    )


def _link(shape: type) -> str:
    return f"[`{shape.__name__}`](#{shape.__name__.lower()})"
