"""Password hashing with argon2, protection against user enumeration by timing, and the check for common passwords."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import VerificationError

from knowledge.errors import InvalidParameter

COMMON_WORDS = """
abc123 abcd access account admin administrator alexander amanda america andrea andrew angel anthony apple arsenal
asdf asdfgh ashley austin azerty baseball basketball batman biteme blessed buster butterfly changeit changeme
charlie cheese chelsea chocolate computer cookie corvette creative daniel database default demo dragon elephant
facebook family fender ferrari flower football forever freedom friends gandalf george ginger google guest hallo
hammer hannah harley heaven hello hockey hunter iloveyou internet jackson jasmine jennifer jessica jesus jordan
joshua justin killer knight knowledge knowledgeserver letmein lifehack liverpool login london lovely loveme manager
master matrix matthew merlin michael michelle mickey minecraft monkey monster mustang mynoob mypassword naruto
nicole ninja nothing number oracle orange p4ssw0rd p4ssword p@ssw0rd p@ssword pa55w0rd pa55word passphrase passw0rd
password passwort patrick pepper pokemon princess private public purple qazwsx qwer qwert qwerty qwertz rainbow
ranger robert root samsung secret secure server service shadow silver snoopy soccer solo spiderman spring starwars
student summer sunshine superman superuser support sysadmin system taylor temp temporary test tester testing thomas
thunder tigger trustno trustnoone user vagrant welcome whatever william winter wizard xxxxxx yankees zaq12wsx zxcvbn
"""
COMMON_PASSWORDS = frozenset(COMMON_WORDS.split())
"""In lower case; also refused with a few digits and punctuation around them."""
KEYBOARD_ROWS = (
    "01234567890123456789", "abcdefghijklmnopqrstuvwxyz", "qwertyuiopasdfghjklzxcvbnm", "qwertzuiopasdfghjklyxcvbnm",
    "azertyuiopqsdfghjklmwxcvbn", "1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik9ol0p", "1q2w3e4r5t6y7u8i9o0p",
    "q1w2e3r4t5y6u7i8o9p0", "!@#$%^&*()_+",
)  # fmt: skip
"""Keyboard and alphabet sequences: any substring, forwards or backwards, is refused."""
SURROUNDING_CHARS = "0123456789!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ "
MAX_SURROUNDING_CHARS = 6
"""With more digits and punctuation than this around it, a common word is accepted."""
MAX_REPEAT_PERIOD_CHARS = 4
MIN_DIFFERENT_CHARS = 3


def is_common_password(password: str, username: str = "") -> bool:
    """Return whether a password is easy to guess: a common word, a sequence, a repetition or the username."""
    folded, name = password.casefold().strip(), username.casefold()
    period = _repeat_period(folded)
    if len(set(folded)) < MIN_DIFFERENT_CHARS or period <= MAX_REPEAT_PERIOD_CHARS:
        return True
    word = folded[:period]
    core = word.strip(SURROUNDING_CHARS)
    around = len(word) - len(core)
    if word in COMMON_PASSWORDS or (around <= MAX_SURROUNDING_CHARS and core in COMMON_PASSWORDS):
        return True
    if name and (
        name in (word, word[::-1]) or (around <= MAX_SURROUNDING_CHARS and core == name.strip(SURROUNDING_CHARS))
    ):
        return True
    return any(word in row or word[::-1] in row for row in KEYBOARD_ROWS)


def _repeat_period(text: str) -> int:
    """Return the length of the shortest string that, repeated, gives the text."""
    return (text + text).find(text, 1)


T = TypeVar("T")

MIN_PASSWORD_CHARS, MAX_PASSWORD_CHARS = 8, 1024
DUMMY_HASH = "$argon2id$v=19$m=19456,t=2,p=1$uAVUTp/eRlUUpXmSLVyKtg$DLy1qePpqwXBjjxpppBCh7A7XXbVkTHfTYQzZKrJfkM"
"""Verified for unknown usernames, so that they take as long as a wrong password (user enumeration by timing)."""


class PasswordService:
    def __init__(self) -> None:
        self.hasher = PasswordHasher(time_cost=2, memory_cost=19456, parallelism=1)
        # Two at a time, because each hash takes 19 MB and a core.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="passwords")

    async def hash_password(self, password: str, username: str) -> str:
        check_password(password, username)
        return await self._run_in_thread(lambda: self.hasher.hash(_encode_password(password)))

    async def verify_password(self, password: str, stored_hash: str | None) -> bool:
        """Verify a password; without a stored hash, return False after the same work."""
        matches = await self._run_in_thread(
            lambda: self._verify_hash(stored_hash or DUMMY_HASH, password[:MAX_PASSWORD_CHARS])
        )
        return matches and stored_hash is not None and len(password) <= MAX_PASSWORD_CHARS

    def close(self) -> None:
        self._threads.shutdown(wait=True)

    def _verify_hash(self, stored_hash: str, password: str) -> bool:
        try:
            return self.hasher.verify(stored_hash, _encode_password(password))
        except VerificationError:
            return False

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def check_password(password: str, username: str) -> None:
    if not MIN_PASSWORD_CHARS <= len(password) <= MAX_PASSWORD_CHARS:
        raise InvalidParameter(
            f"The password must have {MIN_PASSWORD_CHARS} to {MAX_PASSWORD_CHARS} characters, got {len(password)}",
            parameter="password",
            given=len(password),
        )
    if is_common_password(password, username):
        raise InvalidParameter(
            "The password is too common or too easy to guess",
            hint="Choose another password, for example several unrelated words.",
            parameter="password",
        )


def _encode_password(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")
