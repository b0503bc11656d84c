"""The settings of contract 003: a YAML file that `SAGE_CONFIG` names, with the sections `sage` and `mcp`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from knowledge.errors import InvalidParameter

SHIPPED = Path(__file__).parents[2] / "content"
"""The pages that come with the product."""
VARIABLE = "SAGE_CONFIG"
CAPABILITIES = ("knowledge_retrieval", "search", "context_management")
KEYS = {"sage": ("content",), "mcp": ("host", "port", "timeout_ms", "max_connections", "capabilities")}
BESIDE = Path("services") / "mcp.yaml"
"""Where the section `mcp` may stand in a file of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    content: Path = SHIPPED
    host: str = "localhost"
    port: int = 8000
    timeout_ms: int | None = None
    """The longest that any call may take; None leaves each to its level."""
    max_connections: int = 10
    """How many requests may be under way at once over HTTP."""
    capabilities: tuple[str, ...] = CAPABILITIES


def configured(environment: Mapping[str, str] | None = None) -> Configuration:
    """What `SAGE_CONFIG` says, or how it is when nothing is said."""
    named = (os.environ if environment is None else environment).get(VARIABLE, "").strip()
    return read(Path(named).expanduser()) if named else Configuration()


def read(path: Path) -> Configuration:
    sections = _sections(path)
    beside = path.parent / BESIDE
    if "mcp" not in sections and beside.is_file():
        sections["mcp"] = _sections(beside).get("mcp", {})
    sage, mcp = (_known(path, name, sections.get(name, {})) for name in KEYS)
    default = Configuration()
    content = sage.get("content")
    return Configuration(
        content=default.content if content is None else _folder(path, content),
        host=_text(path, "mcp.host", mcp.get("host", default.host)),
        port=_number(path, "mcp.port", mcp.get("port", default.port), 0, 65535),
        timeout_ms=None if mcp.get("timeout_ms") is None else _number(path, "mcp.timeout_ms", mcp["timeout_ms"], 1),
        max_connections=_number(path, "mcp.max_connections", mcp.get("max_connections", default.max_connections), 1),
        capabilities=_capabilities(path, mcp.get("capabilities", list(default.capabilities))),
    )


def _sections(path: Path) -> dict[str, object]:
    import yaml

    try:
        values = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        place = getattr(error, "problem_mark", None)
        raise _wrong(path, f"is not YAML{f' in line {place.line + 1}' if place else ''}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise _wrong(path, "must hold the sections 'sage' and 'mcp'")
    return {str(key): value for key, value in values.items()}


def _known(path: Path, section: str, values: object) -> dict[str, object]:
    """The values of a section; a key that nobody reads is a mistake somebody should hear of."""
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise _wrong(path, f"'{section}' must hold keys and values")
    unknown = [str(key) for key in values if key not in KEYS[section]]
    if unknown:
        raise _wrong(path, f"'{section}.{unknown[0]}' is not known; there are {', '.join(KEYS[section])}")
    return {str(key): value for key, value in values.items()}


def _folder(path: Path, value: object) -> Path:
    folder = (path.parent / Path(_text(path, "sage.content", value)).expanduser()).resolve()
    if not folder.is_dir():
        raise _wrong(path, f"'sage.content' must name a folder, and {folder} is none")
    return folder


def _text(path: Path, name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _wrong(path, f"'{name}' must be a text")
    return value.strip()


def _number(path: Path, name: str, value: object, least: int, most: int = 2**31 - 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _wrong(path, f"'{name}' must be a whole number from {least} to {most}")
    return value


def _capabilities(path: Path, value: object) -> tuple[str, ...]:
    names = value if isinstance(value, list) else [None]
    if any(name not in CAPABILITIES for name in names):
        raise _wrong(path, f"'mcp.capabilities' must be a list out of {', '.join(CAPABILITIES)}")
    return tuple(name for name in CAPABILITIES if name in names)


def _wrong(path: Path, what: str) -> InvalidParameter:
    return InvalidParameter(
        f"The configuration {path} is wrong: it {what}" if not what.startswith("'") else f"In {path}, {what}",
        hint=f"Correct it, or unset {VARIABLE}.",
        parameter=VARIABLE,
    )
