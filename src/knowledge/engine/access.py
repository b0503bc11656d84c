"""One caller's use of the engine in this process: every verb is limited to what they may see and do, and nothing above
this file thinks about permission.

What a caller sees is asked for anew with each verb, so a grant, a key or an account that is revoked is revoked at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from knowledge.engine.relay import Relay
from knowledge.errors import AdminRequired
from knowledge.model import Caller

if TYPE_CHECKING:
    from knowledge.engine.api import Engine
    from knowledge.engine.local import LocalEngine

T = TypeVar("T")


class Access(Relay):
    def __init__(self, local: LocalEngine, caller: Caller) -> None:
        self._local, self._caller = local, caller

    def as_caller(self, caller: Caller) -> Access:
        return Access(self._local, caller)

    async def _ask(self, verb: Callable[[Engine], Awaitable[T]]) -> T:
        _, scope = await self._local.admit(self._caller)
        return await verb(self._local.scoped(scope))

    async def _ask_as_admin(self, verb: Callable[[Engine], Awaitable[T]]) -> T:
        caller, scope = await self._local.admit(self._caller)
        if not caller.may_administer:
            raise AdminRequired("This is for the admins of this server")
        return await verb(self._local.scoped(scope))
