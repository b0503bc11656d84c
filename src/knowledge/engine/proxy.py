"""Forwards every verb of the Engine protocol to the engine that answers it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Any, Protocol, TypeVar, cast

from knowledge.engine.api import (
    AccountsApi,
    CorporaApi,
    Engine,
    LibraryApi,
    MaintenanceApi,
    MapsApi,
    McpSessionsApi,
    PagesApi,
    SessionsApi,
)
from knowledge.engine.insight.protocol import AgentsApi, InsightApi
from knowledge.engine.oauth.protocol import OAuthApi
from knowledge.model import Caller

T = TypeVar("T")

SUB_PROTOCOLS: dict[str, type] = {
    "accounts": AccountsApi,
    "corpora": CorporaApi,
    "mcp_sessions": McpSessionsApi,
    "sessions": SessionsApi,
    "oauth": OAuthApi,
    "pages": PagesApi,
    "library": LibraryApi,
    "maintenance": MaintenanceApi,
    "agents": AgentsApi,
    "insight": InsightApi,
    "maps": MapsApi,
}


def list_verbs() -> frozenset[str]:
    """Return the verbs of the Engine protocol; verbs of a sub-protocol are prefixed, as in 'accounts.login'."""
    own = {name for name in vars(Engine) if not name.startswith("_")} - {"as_caller", *SUB_PROTOCOLS}
    below = {f"{group}.{name}" for group, api in SUB_PROTOCOLS.items() for name in vars(api) if name[0] != "_"}
    return frozenset(own | below)


VERBS = list_verbs()
# A separate permission, because an embedding service receives the texts of all accounts.
REINDEX_WITH_MODEL = "reindex with a model"


class EngineHost(Engine, Protocol):
    """An engine that checks permissions per caller and verb."""

    async def admit(self, caller: Caller, verb: str, /) -> Engine:
        """Return the engine in the caller's scope; raises if the caller may not use the verb."""


class Proxy(ABC):
    """Base of proxies that implement Engine dynamically (mypy needs a cast); `_ask` calls the engine behind it."""

    @abstractmethod
    async def _ask(self, verb: str, call: Callable[[Engine], Awaitable[T]]) -> T: ...

    async def reindex(self, model: str | None = None) -> None:
        verb = "reindex" if model is None else REINDEX_WITH_MODEL
        await self._ask(verb, lambda engine: engine.reindex(model))

    def __getattr__(self, name: str) -> Any:
        return SubProxy(self, name) if name in SUB_PROTOCOLS else self._forward(name)

    def _forward(self, verb: str) -> Callable[..., Awaitable[Any]]:
        if verb not in VERBS:
            raise AttributeError(verb)
        find = attrgetter(verb)
        return lambda *args, **kwargs: self._ask(verb, lambda engine: find(engine)(*args, **kwargs))


class SubProxy:
    """Forwards the verbs of a sub-protocol."""

    def __init__(self, proxy: Proxy, name: str) -> None:
        self._proxy, self._name = proxy, name

    def __getattr__(self, name: str) -> Any:
        return self._proxy._forward(f"{self._name}.{name}")


class CallerProxy(Proxy):
    """An engine for one caller, who is authenticated again with each verb, so that revocations apply at once."""

    def __init__(self, host: EngineHost, caller: Caller) -> None:
        self._host, self._caller = host, caller

    def as_caller(self, caller: Caller) -> Engine:
        return cast(Engine, CallerProxy(self._host, caller))

    async def _ask(self, verb: str, call: Callable[[Engine], Awaitable[T]]) -> T:
        return await call(await self._host.admit(self._caller, verb))
