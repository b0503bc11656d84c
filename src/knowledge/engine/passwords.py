"""Passwords: hashed with argon2, two at a time, and in the same time whether there is such an account or not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import VerificationError

from knowledge.engine.common_passwords import is_common
from knowledge.errors import InvalidParameter

T = TypeVar("T")

SHORTEST, LONGEST = 8, 1024
NOBODY = "$argon2id$v=19$m=19456,t=2,p=1$uAVUTp/eRlUUpXmSLVyKtg$DLy1qePpqwXBjjxpppBCh7A7XXbVkTHfTYQzZKrJfkM"
"""Compared with where there is no such account, so that its absence costs as much as a wrong password."""


class Passwords:
    """Each takes 19 MB and a core for a moment; more than two at once would be felt by everybody else."""

    def __init__(self) -> None:
        self.hasher = PasswordHasher(time_cost=2, memory_cost=19456, parallelism=1)
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="passwords")

    async def hash(self, password: str, username: str) -> str:
        check(password, username)
        return await self._run(lambda: self.hasher.hash(_bytes(password)))

    async def matches(self, password: str, kept: str | None) -> bool:
        """Whether this is the password; without a hash the answer is no, after the same work."""
        agrees = await self._run(lambda: self._verify(kept or NOBODY, password[:LONGEST]))
        return agrees and kept is not None and len(password) <= LONGEST

    def close(self) -> None:
        self._threads.shutdown(wait=True)

    def _verify(self, kept: str, password: str) -> bool:
        try:
            return self.hasher.verify(kept, _bytes(password))
        except VerificationError:
            return False

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def check(password: str, username: str) -> None:
    if not SHORTEST <= len(password) <= LONGEST:
        raise InvalidParameter(
            f"A password has {SHORTEST} to {LONGEST} characters", parameter="password", given=len(password)
        )
    if is_common(password, username):
        raise InvalidParameter(
            "This password is one of the first that somebody would try",
            hint="Choose another one, for example several words that have nothing to do with each other.",
            parameter="password",
        )


def _bytes(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")
