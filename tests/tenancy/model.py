"""A model of the permissions, to compare the server with."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from string import ascii_lowercase

SECRET_PREFIX = "zq"
"""Start of every secret, so that it is recognised in any response."""


def make_secrets() -> Iterator[str]:
    """Yield distinct words that no other text contains."""
    for letters in itertools.product(ascii_lowercase, repeat=4):
        yield SECRET_PREFIX + "".join(letters) + "xj"


@dataclass(slots=True)
class CollectionModel:
    """A collection or corpus; its title and each of its documents contain a secret."""

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
    """The account that started each job."""
    deleted_secrets: set[str] = field(default_factory=set)
    """Secrets of deleted documents and collections, which no account may read."""

    def list_readable(self, user: str) -> list[CollectionModel]:
        return [collection for collection in self.collections.values() if collection.is_readable(user)]

    def list_hidden_secrets(self, user: str) -> set[str]:
        """Return every secret that this user must not receive."""
        closed = (collection.secrets for collection in self.collections.values() if not collection.is_readable(user))
        return self.deleted_secrets.union(*closed)

    def choose_collection(self, rng: random.Random) -> CollectionModel | None:
        return rng.choice([*self.collections.values()]) if self.collections else None

    def choose_corpus(self, rng: random.Random) -> CollectionModel | None:
        corpora = [collection for collection in self.collections.values() if collection.is_corpus]
        return rng.choice(corpora) if corpora else None

    def choose_document(self, rng: random.Random) -> tuple[CollectionModel, int, str] | None:
        every = [
            (collection, id, word)
            for collection in self.collections.values()
            for id, word in collection.documents.items()
        ]
        return rng.choice(every) if every else None

    def remove_collection(self, collection: CollectionModel) -> None:
        self.deleted_secrets |= collection.secrets
        del self.collections[collection.id]

    def remove_document(self, collection: CollectionModel, document: int) -> None:
        self.deleted_secrets.add(collection.documents.pop(document))
