"""Helpers that register accounts and share corpora."""

from __future__ import annotations

from knowledge.engine.api import Engine
from knowledge.model import Collection, NewCorpus, Permission

PASSWORD = "correct horse"
ADMIN = "root"
"""In ADMIN_USERS of the test settings, so only the operator can create this account."""


async def register(engine: Engine, username: str) -> Engine:
    """Create an account with the operator's engine and return the engine of the account."""
    if username == ADMIN:
        await engine.accounts.add(username, PASSWORD)
    else:
        await engine.accounts.register(username, PASSWORD)
    return await log_in(engine, username)


async def log_in(engine: Engine, username: str) -> Engine:
    return await get_engine_for_key(engine, (await engine.accounts.login(username, PASSWORD)).secret)


async def get_engine_for_key(engine: Engine, key: str) -> Engine:
    caller = await engine.accounts.find_by_key(key)
    assert caller is not None
    return engine.as_caller(caller)


async def create_corpus(engine: Engine, title: str = "Contract law", *, public: bool = False) -> Collection:
    return await engine.corpora.create(NewCorpus(title=title, category="legal", is_public=public))


async def grant_access(owner: Engine, corpus: Collection, username: str, permission: str = "read") -> None:
    await owner.corpora.grant(corpus.id, username, Permission(permission))
