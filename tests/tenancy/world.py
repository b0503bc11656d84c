"""Who may see what, in the fewest words: the model that the server is compared with."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from string import ascii_lowercase

PREFIX = "zq"
"""What every secret begins with, so that one is recognised wherever it turns up."""


def secrets() -> Iterator[str]:
    """Words that nobody can guess or write by chance, each one once."""
    for letters in itertools.product(ascii_lowercase, repeat=4):
        yield PREFIX + "".join(letters) + "xj"


@dataclass(slots=True)
class Shelf:
    """A collection, or a corpus; its title holds a secret, and so does each of its documents."""

    id: int
    owner: str
    name: str
    secret: str
    is_corpus: bool = False
    is_public: bool = False
    is_approved: bool = False
    grants: dict[str, str] = field(default_factory=dict)
    documents: dict[int, str] = field(default_factory=dict)

    def readable(self, user: str) -> bool:
        return user == self.owner or user in self.grants or (self.is_public and self.is_approved)

    def writable(self, user: str) -> bool:
        return user == self.owner or self.grants.get(user) == "write"

    @property
    def secrets(self) -> set[str]:
        return {self.secret, *self.documents.values()}


@dataclass(slots=True)
class World:
    shelves: dict[int, Shelf] = field(default_factory=dict)
    jobs: dict[int, str] = field(default_factory=dict)
    """Who started each job."""
    gone: set[str] = field(default_factory=set)
    """Secrets that were deleted: nobody may read them any more."""

    def readable(self, user: str) -> list[Shelf]:
        return [shelf for shelf in self.shelves.values() if shelf.readable(user)]

    def hidden(self, user: str) -> set[str]:
        """Every secret that must not reach this user."""
        closed = (shelf.secrets for shelf in self.shelves.values() if not shelf.readable(user))
        return self.gone.union(*closed)

    def any_shelf(self, chance: random.Random) -> Shelf | None:
        return chance.choice([*self.shelves.values()]) if self.shelves else None

    def any_corpus(self, chance: random.Random) -> Shelf | None:
        corpora = [shelf for shelf in self.shelves.values() if shelf.is_corpus]
        return chance.choice(corpora) if corpora else None

    def any_document(self, chance: random.Random) -> tuple[Shelf, int, str] | None:
        every = [(shelf, id, word) for shelf in self.shelves.values() for id, word in shelf.documents.items()]
        return chance.choice(every) if every else None

    def forget(self, shelf: Shelf) -> None:
        self.gone |= shelf.secrets
        del self.shelves[shelf.id]

    def forget_document(self, shelf: Shelf, document: int) -> None:
        self.gone.add(shelf.documents.pop(document))
