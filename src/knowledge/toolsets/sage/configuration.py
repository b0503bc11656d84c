"""The settings of contract 003: a YAML file that `SAGE_CONFIG` names, with the sections `sage` and `mcp`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from knowledge.errors import InvalidParameter

SHIPPED_CONTENT = Path(__file__).parents[2] / "content"
"""The pages that come with the product."""
CONFIG_VARIABLE = "SAGE_CONFIG"
CAPABILITIES = ("knowledge_retrieval", "search", "context_management")
KNOWN_KEYS = {"sage": ("content",), "mcp": ("host", "port", "timeout_ms", "max_connections", "capabilities")}
MCP_SECTION_FILE = Path("services") / "mcp.yaml"
"""Where the section `mcp` may stand in a file of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SageConfiguration:
    content: Path = SHIPPED_CONTENT
    host: str = "localhost"
    port: int = 8000
    timeout_ms: int | None = None
    """The longest that any call may take; None leaves each to its level."""
    max_connections: int = 10
    """How many requests may be under way at once over HTTP."""
    capabilities: tuple[str, ...] = CAPABILITIES


def load_configuration(environment: Mapping[str, str] | None = None) -> SageConfiguration:
    """What `SAGE_CONFIG` says, or how it is when nothing is said."""
    named = (os.environ if environment is None else environment).get(CONFIG_VARIABLE, "").strip()
    return read_configuration(Path(named).expanduser()) if named else SageConfiguration()


def read_configuration(path: Path) -> SageConfiguration:
    sections = _read_sections(path)
    beside = path.parent / MCP_SECTION_FILE
    if "mcp" not in sections and beside.is_file():
        sections["mcp"] = _read_sections(beside).get("mcp", {})
    sage, mcp = (_check_keys(path, name, sections.get(name, {})) for name in KNOWN_KEYS)
    default = SageConfiguration()
    content = sage.get("content")
    return SageConfiguration(
        content=default.content if content is None else _parse_folder(path, content),
        host=_parse_text(path, "mcp.host", mcp.get("host", default.host)),
        port=_parse_number(path, "mcp.port", mcp.get("port", default.port), 0, 65535),
        timeout_ms=None
        if mcp.get("timeout_ms") is None
        else _parse_number(path, "mcp.timeout_ms", mcp["timeout_ms"], 1),
        max_connections=_parse_number(
            path, "mcp.max_connections", mcp.get("max_connections", default.max_connections), 1
        ),
        capabilities=_parse_capabilities(path, mcp.get("capabilities", list(default.capabilities))),
    )


def _read_sections(path: Path) -> dict[str, object]:
    import yaml

    try:
        values = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise _configuration_error(path, f"cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        place = getattr(error, "problem_mark", None)
        raise _configuration_error(path, f"is not YAML{f' in line {place.line + 1}' if place else ''}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise _configuration_error(path, "must hold the sections 'sage' and 'mcp'")
    return {str(key): value for key, value in values.items()}


def _check_keys(path: Path, section: str, values: object) -> dict[str, object]:
    """The values of a section; a key that nobody reads is a mistake somebody should hear of."""
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise _configuration_error(path, f"'{section}' must hold keys and values")
    unknown = [str(key) for key in values if key not in KNOWN_KEYS[section]]
    if unknown:
        raise _configuration_error(
            path, f"'{section}.{unknown[0]}' is not known; there are {', '.join(KNOWN_KEYS[section])}"
        )
    return {str(key): value for key, value in values.items()}


def _parse_folder(path: Path, value: object) -> Path:
    folder = (path.parent / Path(_parse_text(path, "sage.content", value)).expanduser()).resolve()
    if not folder.is_dir():
        raise _configuration_error(path, f"'sage.content' must name a folder, and {folder} is none")
    return folder


def _parse_text(path: Path, name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _configuration_error(path, f"'{name}' must be a text")
    return value.strip()


def _parse_number(path: Path, name: str, value: object, least: int, most: int = 2**31 - 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _configuration_error(path, f"'{name}' must be a whole number from {least} to {most}")
    return value


def _parse_capabilities(path: Path, value: object) -> tuple[str, ...]:
    names = value if isinstance(value, list) else [None]
    if any(name not in CAPABILITIES for name in names):
        raise _configuration_error(path, f"'mcp.capabilities' must be a list out of {', '.join(CAPABILITIES)}")
    return tuple(name for name in CAPABILITIES if name in names)


def _configuration_error(path: Path, what: str) -> InvalidParameter:
    return InvalidParameter(
        f"The configuration {path} is wrong: it {what}" if not what.startswith("'") else f"In {path}, {what}",
        hint=f"Correct it, or unset {CONFIG_VARIABLE}.",
        parameter=CONFIG_VARIABLE,
    )
