"""People who share an engine, for tests about what they see of each other."""

from __future__ import annotations

from knowledge.engine.api import Engine
from knowledge.model import Collection, NewCorpus, Permission

PASSWORD = "correct horse"
ADMIN = "root"
"""Whom the settings of the tests name in ADMIN_USERS: only the operator makes this account."""


async def joined(engine: Engine, username: str) -> Engine:
    """The engine as somebody new may use it; `engine` is the operator's."""
    if username == ADMIN:
        await engine.add_account(username, PASSWORD)
    else:
        await engine.register(username, PASSWORD)
    return await entered(engine, username)


async def entered(engine: Engine, username: str) -> Engine:
    return await bearing(engine, (await engine.login(username, PASSWORD)).secret)


async def bearing(engine: Engine, key: str) -> Engine:
    caller = await engine.account_of(key)
    assert caller is not None
    return engine.as_caller(caller)


async def a_corpus(engine: Engine, title: str = "Contract law", *, public: bool = False) -> Collection:
    return await engine.create_corpus(NewCorpus(title=title, category="legal", is_public=public))


async def lend(owner: Engine, corpus: Collection, username: str, permission: str = "read") -> None:
    await owner.grant(corpus.id, username, Permission(permission))
