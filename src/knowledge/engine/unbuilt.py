"""Stands in for the account and corpus verbs until they are built."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from knowledge.engine.api import Engine
from knowledge.engine.relay_accounts import AccountRelay
from knowledge.engine.relay_corpora import CorpusRelay
from knowledge.errors import Internal

T = TypeVar("T")


class Unbuilt(AccountRelay, CorpusRelay):
    async def _ask(self, verb: Callable[[Engine], Awaitable[T]]) -> T:  # noqa: ARG002
        raise Internal("Accounts are not built yet")
