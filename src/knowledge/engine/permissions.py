"""One caller's use of the engine in this process: every verb is limited to what they may see and do, and nothing above
this file thinks about permission.

What a caller sees is asked for anew with each verb, so a grant, a key or an account that is revoked is revoked at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from knowledge.engine.proxy import Relay
from knowledge.errors import AdminRequired
from knowledge.model import Account, Caller, CallerKind, Finding

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

    async def _ask_as_operator(self, verb: Callable[[Engine], Awaitable[T]]) -> T:
        """Not even for admins: it would show them what others own."""
        caller, scope = await self._local.admit(self._caller)
        if caller.kind is CallerKind.ACCOUNT:
            raise AdminRequired(
                "This is for the operator of this server alone",
                hint="Use the command line on the server's own machine, or send KB_API_KEY.",
            )
        return await verb(self._local.scoped(scope))

    # -- where an admin may less than the operator ----------------------------------------------

    async def add_account(self, username: str, password: str | None = None) -> Account:
        if self._caller.kind is CallerKind.ACCOUNT and self._local.is_reserved(username):
            return await self._ask_as_operator(lambda engine: engine.add_account(username, password))
        return await super().add_account(username, password)

    async def verify(self) -> list[Finding]:
        """An admin learns how many findings there are and where, but not the names of other people's documents."""
        found = await super().verify()
        if self._caller.kind is not CallerKind.ACCOUNT:
            return found
        return [Finding(part, _summarize(count)) for part, count in Counter(each.part for each in found).items()]


def _summarize(count: int) -> str:
    findings = "1 finding" if count == 1 else f"{count} findings"
    return f"There {'is' if count == 1 else 'are'} {findings}; the operator sees which with 'knowledge verify'"
