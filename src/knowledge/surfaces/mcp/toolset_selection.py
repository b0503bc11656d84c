"""Which tools a request sees: the path first, then its headers, and never more than the operator allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knowledge.errors import InvalidParameter, NotFound
from knowledge.model import JsonValue
from knowledge.toolsets.base import View

DEFAULT = "knowledge"
YES = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True, slots=True)
class Views:
    """The allowed toolsets, and those that the plain `/mcp` shows."""

    allowed: tuple[str, ...]
    default: tuple[str, ...]

    @classmethod
    def of(cls, setting: str, registered: Sequence[str]) -> Views:
        """What `--toolsets` says; nothing said allows all and shows the first contract."""
        named = [name.strip().lower() for name in setting.split(",") if name.strip()]
        unknown = [name for name in named if name not in (*registered, "all")]
        if unknown:
            listed: list[JsonValue] = list(registered)
            raise InvalidParameter(
                f"Unknown toolset: {', '.join(unknown)}",
                hint=f"Choose from {', '.join(registered)} or all.", parameter="toolsets", valid=listed,
            )  # fmt: skip
        if not named:
            return cls(tuple(registered), tuple(name for name in registered if name == DEFAULT) or tuple(registered))
        allowed = tuple(name for name in registered if "all" in named or name in named)
        return cls(allowed, allowed)

    def seen(self, toolset: str | None, read_only: bool, headers: Mapping[str, str]) -> View:
        """What one request sees; the path says more than the headers, and both can only narrow."""
        read_only = read_only or headers.get("x-mcp-readonly", "").lower() in YES
        if toolset is not None:
            if toolset not in self.allowed:
                raise NotFound(
                    f"There is no toolset '{toolset}' here",
                    hint=f"Served are {', '.join(self.allowed)}.",
                    toolset=toolset,
                )
            return View((toolset,), read_only)
        wanted = headers.get("x-mcp-toolsets")
        if wanted is None or not wanted.strip():
            return View(self.default, read_only)
        names = {name.strip().lower() for name in wanted.split(",")}
        return View(tuple(name for name in self.allowed if "all" in names or name in names), read_only)
