"""Other embedded engines over the same data; run by search.py in an interpreter that has them installed.

Each is set up for hybrid search as its documentation advises: a hundred candidates by keywords and a hundred by
vectors, fused by reciprocal rank fusion, which is done here if the engine does not offer it.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from search_data import COLLECTIONS, Recipe, word_to_number

QUESTIONS, EXACT_QUESTIONS, DEPTH, BATCH_PASSAGES = 200, 60, 100, 5000
Vector = NDArray[np.float32]


class Peer(Protocol):
    def add(self, first: int, texts: list[list[str]], rows: Vector) -> None: ...

    def finish(self) -> None: ...

    def hybrid(self, words: list[str], vector: Vector, collection: int | None) -> object: ...

    def nearest(self, vector: Vector) -> list[int]: ...


def fuse_rankings(*rankings: list[int]) -> list[int]:
    scores: Counter[int] = Counter()
    for ranking in rankings:
        for place, chunk in enumerate(ranking):
            scores[chunk] += 1 / (61 + place)  # type: ignore[assignment]
    return [chunk for chunk, _ in scores.most_common(10)]


class QdrantEdge:
    """Qdrant Edge with BM25 as sparse vectors (IDF modifier) and HNSW for dense vectors."""

    def __init__(self, folder: Path) -> None:
        edge = import_module("qdrant_edge")

        self.edge = edge
        folder.mkdir()
        config = edge.EdgeConfig(
            vectors={"dense": edge.EdgeVectorParams(size=384, distance=edge.Distance.Dot)},
            sparse_vectors={"words": edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
        )
        self.shard = edge.EdgeShard.create(str(folder), config)

    def add(self, first: int, texts: list[list[str]], rows: Vector) -> None:
        edge = self.edge
        points = [
            edge.Point(
                first + at,
                {"dense": row.tolist(), "words": self._document(words)},
                {"collection": (first + at) % COLLECTIONS},
            )
            for at, (words, row) in enumerate(zip(texts, rows, strict=True))
        ]
        self.shard.update(edge.UpdateOperation.upsert_points(points))

    def _document(self, words: list[str]) -> Any:
        counts = Counter(word_to_number(word) for word in words)
        return self.edge.SparseVector(list(counts), [2.2 * tf / (tf + 1.2) for tf in counts.values()])

    def finish(self) -> None:
        edge = self.edge
        self.shard.update(edge.UpdateOperation.create_field_index("collection", edge.PayloadSchemaType.Integer))
        self.shard.optimize()
        self.shard.flush()

    def hybrid(self, words: list[str], vector: Vector, collection: int | None) -> object:
        edge = self.edge
        condition = None
        if collection is not None:
            match = edge.FieldCondition("collection", match=edge.MatchValue(collection))
            condition = edge.Filter(must=[match])
        sparse = edge.SparseVector([word_to_number(word) for word in dict.fromkeys(words)], [1.0] * len(set(words)))
        sides = [
            edge.Prefetch(DEPTH, query=edge.Query.Nearest(vector.tolist(), using="dense"), filter=condition),
            edge.Prefetch(DEPTH, query=edge.Query.Nearest(sparse, using="words"), filter=condition),
        ]
        return self.shard.query(edge.QueryRequest(10, prefetches=sides, query=edge.Fusion.Rrf(k=60)))

    def nearest(self, vector: Vector) -> list[int]:
        edge = self.edge
        request = edge.QueryRequest(10, query=edge.Query.Nearest(vector.tolist(), using="dense"))
        return [int(point.id) for point in self.shard.query(request)]


class Zvec:
    def __init__(self, folder: Path) -> None:
        zvec = import_module("zvec")

        self.zvec = zvec
        schema = zvec.CollectionSchema(
            name="passages",
            fields=[
                zvec.FieldSchema(
                    "text", zvec.DataType.STRING, index_param=zvec.FtsIndexParam(tokenizer_name="standard")
                ),
                zvec.FieldSchema("collection", zvec.DataType.INT64, index_param=zvec.InvertIndexParam()),
            ],
            vectors=zvec.VectorSchema(
                "dense", zvec.DataType.VECTOR_FP32, 384, zvec.HnswIndexParam(metric_type=zvec.MetricType.IP)
            ),
        )
        self.collection = zvec.create_and_open(str(folder), schema)

    def add(self, first: int, texts: list[list[str]], rows: Vector) -> None:
        for start in range(0, len(texts), 1000):
            self.collection.insert(
                [
                    self.zvec.Doc(
                        id=str(first + at),
                        vectors={"dense": rows[at].tolist()},
                        fields={"text": " ".join(texts[at]), "collection": (first + at) % COLLECTIONS},
                    )
                    for at in range(start, min(start + 1000, len(texts)))
                ]
            )

    def finish(self) -> None:
        self.collection.optimize()
        self.collection.flush()

    def hybrid(self, words: list[str], vector: Vector, collection: int | None) -> object:
        zvec = self.zvec
        condition = None if collection is None else f"collection = {collection}"
        queries = [
            zvec.Query(field_name="dense", vector=vector.tolist()),
            zvec.Query(field_name="text", fts=zvec.Fts(match_string=" ".join(words))),
        ]
        rankings = [
            [int(found.id) for found in self.collection.query(query, topk=DEPTH, filter=condition, output_fields=[])]
            for query in queries
        ]
        return fuse_rankings(*rankings)

    def nearest(self, vector: Vector) -> list[int]:
        query = self.zvec.Query(field_name="dense", vector=vector.tolist())
        return [int(found.id) for found in self.collection.query(query, topk=10, output_fields=[])]


class LanceDB:
    def __init__(self, folder: Path) -> None:
        lancedb = import_module("lancedb")

        self.database = lancedb.connect(str(folder))
        self.table: Any = None

    def add(self, first: int, texts: list[list[str]], rows: Vector) -> None:
        data = [
            {"chunk": first + at, "collection": (first + at) % COLLECTIONS, "text": " ".join(words), "vector": row}
            for at, (words, row) in enumerate(zip(texts, rows, strict=True))
        ]
        if self.table is None:
            self.table = self.database.create_table("passages", data)
        else:
            self.table.add(data)

    def finish(self) -> None:
        self.table.create_fts_index("text")
        self.table.create_index(metric="dot", vector_column_name="vector")
        self.table.create_scalar_index("collection")

    def _side(self, asked: object, kind: str, collection: int | None, limit: int = DEPTH) -> list[int]:
        query = self.table.search(asked, query_type=kind).limit(limit).select(["chunk"])
        if kind == "vector":
            query = query.nprobes(50).refine_factor(5)
        if collection is not None:
            query = query.where(f"collection = {collection}", prefilter=True)
        return [int(chunk) for chunk in query.to_arrow()["chunk"].to_pylist()]

    def hybrid(self, words: list[str], vector: Vector, collection: int | None) -> object:
        return fuse_rankings(self._side(" ".join(words), "fts", collection), self._side(vector, "vector", collection))

    def nearest(self, vector: Vector) -> list[int]:
        return self._side(vector, "vector", None, 10)


class FullText:
    """SQLite's FTS5, for peers without keyword search."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        connection.execute("create virtual table words using fts5(text, collection unindexed)")

    def add(self, first: int, texts: list[list[str]]) -> None:
        rows = ((first + at, " ".join(words), (first + at) % COLLECTIONS) for at, words in enumerate(texts))
        self.connection.executemany("insert into words(rowid, text, collection) values (?, ?, ?)", rows)
        self.connection.commit()

    def best(self, words: list[str], collection: int | None) -> list[int]:
        condition = "" if collection is None else f"and collection = {collection}"
        statement = f"select rowid from words where text match ? {condition} order by bm25(words) limit {DEPTH}"
        return [chunk for (chunk,) in self.connection.execute(statement, (" OR ".join(words),))]


def load_sqlite() -> Any:
    """Return a SQLite module that can load extensions; pysqlite3 if this Python was built without."""
    if hasattr(sqlite3.Connection, "enable_load_extension"):
        return sqlite3
    return import_module("pysqlite3")


class SqliteVec:
    def __init__(self, folder: Path) -> None:
        sqlite_vec = import_module("sqlite_vec")

        self.connection = load_sqlite().connect(folder)
        self.connection.enable_load_extension(True)
        sqlite_vec.load(self.connection)
        self.connection.execute(
            "create virtual table vectors using vec0(collection integer, row float[384] distance_metric=cosine)"
        )
        self.words = FullText(self.connection)

    def add(self, first: int, texts: list[list[str]], rows: Vector) -> None:
        self.words.add(first, texts)
        given = ((first + at, (first + at) % COLLECTIONS, row.tobytes()) for at, row in enumerate(rows))
        self.connection.executemany("insert into vectors(rowid, collection, row) values (?, ?, ?)", given)
        self.connection.commit()

    def finish(self) -> None:
        self.connection.commit()

    def _near(self, vector: Vector, collection: int | None, limit: int) -> list[int]:
        condition = "" if collection is None else f"and collection = {collection}"
        statement = f"select rowid from vectors where row match ? and k = {limit} {condition} order by distance"
        return [chunk for (chunk,) in self.connection.execute(statement, (vector.tobytes(),))]

    def hybrid(self, words: list[str], vector: Vector, collection: int | None) -> object:
        return fuse_rankings(self.words.best(words, collection), self._near(vector, collection, DEPTH))

    def nearest(self, vector: Vector) -> list[int]:
        return self._near(vector, None, 10)


class FullTextAndNumpy:
    """The simplest hybrid search: FTS5, and a numpy matrix in memory."""

    def __init__(self, folder: Path) -> None:
        self.words = FullText(sqlite3.connect(folder))
        self.blocks: list[Vector] = []

    def add(self, first: int, texts: list[list[str]], rows: Vector) -> None:
        self.words.add(first, texts)
        self.blocks.append(rows)

    def finish(self) -> None:
        self.rows = np.concatenate(self.blocks)
        self.collections = np.arange(len(self.rows)) % COLLECTIONS

    def _near(self, vector: Vector, collection: int | None, limit: int) -> list[int]:
        scores = self.rows @ vector
        if collection is not None:
            scores[self.collections != collection] = -1
        best = np.argpartition(-scores, limit)[:limit]
        return [int(chunk) for chunk in best[np.argsort(-scores[best])]]

    def hybrid(self, words: list[str], vector: Vector, collection: int | None) -> object:
        return fuse_rankings(self.words.best(words, collection), self._near(vector, collection, DEPTH))

    def nearest(self, vector: Vector) -> list[int]:
        return self._near(vector, None, 10)


class Chroma:
    """Chroma has no keyword ranking, so chunks that contain a word are ranked by vector."""

    def __init__(self, folder: Path) -> None:
        chromadb = import_module("chromadb")

        client = chromadb.PersistentClient(str(folder))
        self.collection = client.create_collection("passages", metadata={"hnsw:space": "ip"}, embedding_function=None)

    def add(self, first: int, texts: list[list[str]], rows: Vector) -> None:
        numbers = range(first, first + len(texts))
        self.collection.add(
            ids=[str(number) for number in numbers],
            embeddings=rows.tolist(),
            documents=[" ".join(words) for words in texts],
            metadatas=[{"collection": number % COLLECTIONS} for number in numbers],
        )

    def finish(self) -> None:
        self.nearest(np.ones(384, np.float32))

    def _query(self, vector: Vector, limit: int, **conditions: object) -> list[int]:
        found = self.collection.query(query_embeddings=[vector.tolist()], n_results=limit, include=[], **conditions)
        return [int(chunk) for chunk in found["ids"][0]]

    def hybrid(self, words: list[str], vector: Vector, collection: int | None) -> object:
        where = {} if collection is None else {"where": {"collection": collection}}
        held = {"where_document": {"$or": [{"$contains": f" {word} "} for word in words]}}
        return fuse_rankings(self._query(vector, DEPTH, **where, **held), self._query(vector, DEPTH, **where))

    def nearest(self, vector: Vector) -> list[int]:
        return self._query(vector, 10)


PEERS: dict[str, Callable[[Path], Peer]] = {
    "qdrant-edge": QdrantEdge,
    "zvec": Zvec,
    "lancedb": LanceDB,
    "sqlite-vec": SqliteVec,
    "chroma": Chroma,
    "fts5-numpy": FullTextAndNumpy,
}


def make_batches(recipe: Recipe) -> Iterator[tuple[int, list[list[str]], Vector]]:
    texts, first = recipe.texts(), 0
    for block in recipe.vectors():
        for start in range(0, len(block), BATCH_PASSAGES):
            rows = block[start : start + BATCH_PASSAGES]
            yield first, list(islice(texts, len(rows))), rows
            first += len(rows)


def measure_median_ms(work: Callable[[int], object], times: int = QUESTIONS) -> float:
    """Return the median CPU time of the whole process, because some peers search on their own threads."""
    for number in range(5):
        work(number)
    spent = []
    began = time.perf_counter()
    for number in range(times):
        before = time.process_time()
        work(number)
        spent.append(time.process_time() - before)
        if time.perf_counter() - began > 60:
            break
    return float(np.median(spent)) * 1000


def find_exact_nearest(recipe: Recipe, questions: Vector) -> list[set[int]]:
    best = [list[tuple[float, int]]() for _ in range(EXACT_QUESTIONS)]
    for first, _, rows in make_batches(recipe):
        for number, row in enumerate(questions[:EXACT_QUESTIONS] @ rows.T):
            places = np.argpartition(-row, min(10, len(row) - 1))[:10]
            best[number] += [(float(row[place]), first + int(place)) for place in places]
    return [{chunk for _, chunk in sorted(each, reverse=True)[:10]} for each in best]


def main() -> None:
    name, recipe = sys.argv[1], Recipe(int(sys.argv[2]))
    words, vectors = recipe.questions(QUESTIONS), recipe.question_vectors(QUESTIONS)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        peer, spent = PEERS[name](Path(folder) / "peer"), 0.0
        for first, texts, rows in make_batches(recipe):
            before = time.process_time()
            peer.add(first, texts, rows)
            spent += time.process_time() - before
        before = time.process_time()
        peer.finish()
        figures = {
            "name": name,
            "passages": recipe.passages,
            "build_seconds": spent + time.process_time() - before,
            "hybrid_ms": measure_median_ms(lambda n: peer.hybrid(words[n], vectors[n], None)),
            "filtered_ms": measure_median_ms(lambda n: peer.hybrid(words[n], vectors[n], n % COLLECTIONS)),
        }
        truth = find_exact_nearest(recipe, vectors)
        shares = [len(truth[number] & set(peer.nearest(vectors[number]))) / 10 for number in range(EXACT_QUESTIONS)]
        print(json.dumps({**figures, "recall": float(np.mean(shares))}), flush=True)


if __name__ == "__main__":
    main()
