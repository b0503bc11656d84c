"""How a verb is passed on, for everything that stands before an engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from knowledge.engine.api import Engine

T = TypeVar("T")


class Asking(ABC):
    """`_ask` hands a verb to whichever engine shall answer it."""

    @abstractmethod
    async def _ask(self, verb: Callable[[Engine], Awaitable[T]]) -> T: ...

    async def _ask_as_admin(self, verb: Callable[[Engine], Awaitable[T]]) -> T:
        """For the verbs that only the local owner and admins may use."""
        return await self._ask(verb)

    async def _ask_as_operator(self, verb: Callable[[Engine], Awaitable[T]]) -> T:
        """For the verbs that only the local owner may use."""
        return await self._ask(verb)
