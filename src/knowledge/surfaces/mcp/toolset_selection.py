"""Selects the tools that a request sees, by its path and headers, within the toolsets that the operator allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knowledge.errors import InvalidParameter, NotFound
from knowledge.model import JsonValue
from knowledge.toolsets.base import ToolsetView

DEFAULT_TOOLSET = "knowledge"
TRUE_WORDS = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True, slots=True)
class ToolsetSelection:
    """The allowed toolsets, and the ones that `/mcp` and stdio show by default."""

    allowed: tuple[str, ...]
    default: tuple[str, ...]
    """What `/mcp` shows: never a standalone toolset."""
    over_stdio: tuple[str, ...]
    """What a stdio server shows: a standalone toolset only if it is named, because stdio has no addresses."""
    standalone: tuple[str, ...] = ()

    @classmethod
    def from_setting(cls, setting: str, registered: Sequence[str], standalone: Sequence[str] = ()) -> ToolsetSelection:
        """Parse `--toolsets`; empty allows all toolsets and shows `knowledge` by default."""
        named = [name.strip().lower() for name in setting.split(",") if name.strip()]
        unknown = [name for name in named if name not in (*registered, "all")]
        if unknown:
            listed: list[JsonValue] = list(registered)
            raise InvalidParameter(
                f"Unknown toolset: {', '.join(unknown)}",
                hint=f"Choose from {', '.join(registered)} or all.", parameter="toolsets", valid=listed,
            )  # fmt: skip
        allowed = tuple(name for name in registered if not named or "all" in named or name in named)
        shared = tuple(name for name in allowed if name not in standalone)
        if not named:
            default = tuple(name for name in shared if name == DEFAULT_TOOLSET) or shared
            return cls(allowed, default, default, tuple(standalone))
        over_stdio = tuple(name for name in allowed if name in shared or name in named)
        return cls(allowed, shared, over_stdio, tuple(standalone))

    def select(self, toolset: str | None, read_only: bool, headers: Mapping[str, str]) -> ToolsetView:
        """Return the view of one request; the path takes precedence over the headers, and both can only narrow."""
        read_only = read_only or headers.get("x-mcp-readonly", "").lower() in TRUE_WORDS
        if toolset is not None:
            if toolset not in self.allowed:
                raise NotFound(
                    f"Toolset '{toolset}' is not served here",
                    hint=f"Available toolsets: {', '.join(self.allowed)}.",
                    toolset=toolset,
                )
            return ToolsetView((toolset,), read_only)
        wanted = headers.get("x-mcp-toolsets")
        if wanted is None or not wanted.strip():
            if not self.default:
                addresses = ", ".join(f"/mcp/{name}" for name in self.allowed)
                raise NotFound("No toolset is served at /mcp", hint=f"Use {addresses}.")
            return ToolsetView(self.default, read_only)
        names = {name.strip().lower() for name in wanted.split(",")}
        shared = (name for name in self.allowed if name not in self.standalone)
        return ToolsetView(tuple(name for name in shared if "all" in names or name in names), read_only)
