"""Measures the map of passages: how many neighbours stay neighbours, its CPU time, and the size that it adds.

    PYTHONPATH=. python benchmarks/map.py [--data FOLDER] [--passages 5000] [--json FILE]

Without FOLDER the vectors are generated (search_data.py), in clusters around a common mean. With the data folder of a
server on SQLite, which is only read, they are the vectors of its documents. Trustworthiness@10 is 1 if the ten nearest
points of each point are its nearest vectors; beside it is that of the two principal components (PCA). The map is made
in the same child process as in the server, whose CPU time is measured.
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from knowledge.engine.maps import child
from knowledge.engine.maps.projection import Matrix, measure_trustworthiness, project_linearly
from knowledge.engine.maps.telling_words import MappedPassage
from knowledge.model import Scope
from knowledge.store.maps.passage_maps import MapStore, MapSubject
from knowledge.store.models import ModelStore
from knowledge.store.sqlite import DATABASE_NAME, SqliteDatabase
from results import Result, add_json_option, write_results
from search_data import Recipe

NEIGHBOURS = 10
KILOBYTE = 1024


def generate(count: int) -> tuple[Matrix, list[MappedPassage]]:
    recipe = Recipe(count)
    texts = [" ".join(words) for words in recipe.texts()]
    return np.concatenate(list(recipe.vectors())), [MappedPassage(at, text, "en") for at, text in enumerate(texts)]


def read_folder(folder: Path, count: int) -> tuple[Matrix, list[MappedPassage]]:
    """Return the vectors and texts of what the operator may read in a data folder."""
    database = SqliteDatabase(folder / DATABASE_NAME)
    try:
        model = ModelStore(database).get_active()
        if model is None:
            sys.exit(f"{folder} has no vectors")
        scope = Scope()
        chunks = MapStore(database).sample(MapSubject(scope.owner), scope, model.id, count)
    finally:
        database.close()
    vectors = np.stack([np.frombuffer(chunk.vector, np.float16) for chunk in chunks]).astype(np.float32)
    return vectors, [MappedPassage(chunk.document_id, chunk.text, chunk.language) for chunk in chunks]


def measure_own_bytes() -> int:
    """Return the size of the modules that make the map; no package was added for it."""
    found = find_spec("knowledge.engine.maps")
    assert found is not None and found.submodule_search_locations
    return sum(path.stat().st_size for path in Path(found.submodule_search_locations[0]).glob("*.py"))


def measure(vectors: Matrix, passages: list[MappedPassage], where: str) -> list[Result]:
    started, before = time.perf_counter(), _read_child_seconds()
    layout = child.MapProcess().make(vectors, passages)
    seconds, cpu = time.perf_counter() - started, _read_child_seconds() - before
    placed = np.array(layout.places, np.float32)
    trust = measure_trustworthiness(vectors, placed, NEIGHBOURS)
    linear = measure_trustworthiness(vectors, project_linearly(vectors), NEIGHBOURS)
    count = f"{len(vectors):,} {where}"
    return [
        Result(f"trustworthiness@{NEIGHBOURS} of the map, {count}", trust, "", "PCA", linear),
        Result(f"make a map, CPU, {count}", cpu, "s"),
        Result(f"make a map, wall clock, {count}", seconds, "s"),
        Result(f"clusters of the map, {count}", len(layout.words), ""),
    ]


def _read_child_seconds() -> float:
    if sys.platform == "win32":
        return 0.0
    import resource

    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a data folder with documents; without it, vectors are generated")
    parser.add_argument("--passages", type=int, default=5000, help="points, at most 5000 in the server")
    add_json_option(parser)
    given = parser.parse_args()
    vectors, passages = read_folder(given.data, given.passages) if given.data else generate(given.passages)
    results = measure(vectors, passages, "real passages" if given.data else "generated vectors")
    results.append(Result("installed size that the map adds", measure_own_bytes() / KILOBYTE, "KB"))
    for result in results:
        what, ours, beside, ratio, _ = result.to_cells("")
        print(f"{what:58} {ours:>12}  {beside} {ratio}".rstrip())
    write_results(given.json, results)


if __name__ == "__main__":
    main()
