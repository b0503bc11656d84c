"""Read the configuration of contract 003: the YAML file in `SAGE_CONFIG`, with the sections `sage` and `mcp`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from knowledge.errors import InvalidParameter

SHIPPED_CONTENT = Path(__file__).parents[2] / "content"
"""Pages shipped with the product."""
CONFIG_VARIABLE = "SAGE_CONFIG"
CAPABILITIES = ("knowledge_retrieval", "search", "context_management")
KNOWN_KEYS = {"sage": ("content",), "mcp": ("host", "port", "timeout_ms", "max_connections", "capabilities")}
MCP_SECTION_FILE = Path("services") / "mcp.yaml"
"""Separate file for the section `mcp`, relative to the folder of the main file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SageConfiguration:
    content: Path = SHIPPED_CONTENT
    host: str = "localhost"
    port: int = 8000
    timeout_ms: int | None = None
    """Maximum for any call; None applies only the limit of each timeout level."""
    max_connections: int = 10
    """Concurrent HTTP requests; more are answered with status 503."""
    capabilities: tuple[str, ...] = CAPABILITIES


def load_configuration(environment: Mapping[str, str] | None = None) -> SageConfiguration:
    """Read the file named by `SAGE_CONFIG`, or return the defaults if it is unset."""
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
        raise _configuration_error(path, f"not valid YAML{f' in line {place.line + 1}' if place else ''}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise _configuration_error(path, "expected a mapping with the sections 'sage' and 'mcp'")
    return {str(key): value for key, value in values.items()}


def _check_keys(path: Path, section: str, values: object) -> dict[str, object]:
    """Return the values of a section and reject unknown keys."""
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise _configuration_error(path, f"'{section}' must be a mapping")
    unknown = [str(key) for key in values if key not in KNOWN_KEYS[section]]
    if unknown:
        raise _configuration_error(
            path, f"unknown key '{section}.{unknown[0]}'; known keys: {', '.join(KNOWN_KEYS[section])}"
        )
    return {str(key): value for key, value in values.items()}


def _parse_folder(path: Path, value: object) -> Path:
    folder = (path.parent / Path(_parse_text(path, "sage.content", value)).expanduser()).resolve()
    if not folder.is_dir():
        raise _configuration_error(path, f"'sage.content' is not a folder: {folder}")
    return folder


def _parse_text(path: Path, name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _configuration_error(path, f"'{name}' must be a non-empty string")
    return value.strip()


def _parse_number(path: Path, name: str, value: object, minimum: int, maximum: int = 2**31 - 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise _configuration_error(path, f"'{name}' must be an integer from {minimum} to {maximum}")
    return value


def _parse_capabilities(path: Path, value: object) -> tuple[str, ...]:
    names = value if isinstance(value, list) else [None]
    if any(name not in CAPABILITIES for name in names):
        raise _configuration_error(path, f"'mcp.capabilities' must be a list of {', '.join(CAPABILITIES)}")
    return tuple(name for name in CAPABILITIES if name in names)


def _configuration_error(path: Path, reason: str) -> InvalidParameter:
    return InvalidParameter(
        f"Invalid configuration file {path}: {reason}",
        hint=f"Correct the file, or unset {CONFIG_VARIABLE} to use the defaults.",
        parameter=CONFIG_VARIABLE,
    )
