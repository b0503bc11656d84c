"""Who may see what, in the fewest words: the model that the server is compared with."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from string import ascii_lowercase

SECRET_PREFIX = "zq"
"""What every secret begins with, so that one is recognised wherever it turns up."""


def make_secrets() -> Iterator[str]:
    """Words that nobody can guess or write by chance, each one once."""
    for letters in itertools.product(ascii_lowercase, repeat=4):
        yield SECRET_PREFIX + "".join(letters) + "xj"


@dataclass(slots=True)
class CollectionModel:
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

    def is_readable(self, user: str) -> bool:
        return user == self.owner or user in self.grants or (self.is_public and self.is_approved)

    def is_writable(self, user: str) -> bool:
        return user == self.owner or self.grants.get(user) == "write"

    @property
    def secrets(self) -> set[str]:
        return {self.secret, *self.documents.values()}


@dataclass(slots=True)
class TenancyModel:
    collections: dict[int, CollectionModel] = field(default_factory=dict)
    jobs: dict[int, str] = field(default_factory=dict)
    """Who started each job."""
    deleted_secrets: set[str] = field(default_factory=set)
    """Secrets that were deleted: nobody may read them any more."""

    def list_readable(self, user: str) -> list[CollectionModel]:
        return [shelf for shelf in self.collections.values() if shelf.is_readable(user)]

    def hidden_secrets(self, user: str) -> set[str]:
        """Every secret that must not reach this user."""
        closed = (shelf.secrets for shelf in self.collections.values() if not shelf.is_readable(user))
        return self.deleted_secrets.union(*closed)

    def choose_collection(self, chance: random.Random) -> CollectionModel | None:
        return chance.choice([*self.collections.values()]) if self.collections else None

    def choose_corpus(self, chance: random.Random) -> CollectionModel | None:
        corpora = [shelf for shelf in self.collections.values() if shelf.is_corpus]
        return chance.choice(corpora) if corpora else None

    def choose_document(self, chance: random.Random) -> tuple[CollectionModel, int, str] | None:
        every = [(shelf, id, word) for shelf in self.collections.values() for id, word in shelf.documents.items()]
        return chance.choice(every) if every else None

    def remove_collection(self, shelf: CollectionModel) -> None:
        self.deleted_secrets |= shelf.secrets
        del self.collections[shelf.id]

    def remove_document(self, shelf: CollectionModel, document: int) -> None:
        self.deleted_secrets.add(shelf.documents.pop(document))
