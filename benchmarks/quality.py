"""How good search is on judged questions, through the REST API of a real server; every table is Markdown.

    python benchmarks/quality.py FOLDER... [--sample N] [--modes text,vector,hybrid,rerank] [--data DIR] [--together]

A folder holds corpus.jsonl {_id, title, text}, queries.jsonl {_id, text} and qrels.tsv (query, document, grade), as the
BEIR collections do, and if you like unanswerable.jsonl {text}. Each becomes a collection of one server; a collection
that is asked alone is weighed by itself, whatever stands beside it. Printed are

- nDCG@10, recall@10, recall@100 and MRR@10 of each mode,
- the differences between modes, question by question, with 95 % intervals from a paired bootstrap,
- how many of a set's own questions have a hit of relevance 0.5, and how many of the other sets' questions,
- with --together the same where the sets are mixed: questions asked of all other sets at once, and of everything,
- how many answerable and unanswerable questions pass 0.3 to 0.9, where a folder has such.

--sample asks that many questions of a set, the same ones every time: reranking takes a third of a second for each. With
--data what was put in is kept, and a second run measures at once; without it the folders are embedded anew, which takes
minutes for ten thousand documents.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import quality_tables as tables
from judged_search import RankedAnswer, Searcher
from judged_sets import JudgedSet, Question, import_documents
from server import BenchmarkServer, run_server

MODES = ("text", "vector", "hybrid", "rerank")


def measure_sets(asker: Searcher, sets: Sequence[JudgedSet], modes: Sequence[str]) -> tables.AnswersBySet:
    """Every set's own questions in every mode."""
    return {
        judged.name: {mode: asker.search_own_set(judged.questions, judged, mode) for mode in modes} for judged in sets
    }


def ask_foreign_questions(asker: Searcher, sets: Sequence[JudgedSet]) -> dict[str, list[RankedAnswer]]:
    """The questions of the other sets, asked of each."""
    return {judged.name: asker.search_best(list_foreign_questions(judged, sets), [judged]) for judged in sets}


def list_foreign_questions(judged: JudgedSet, sets: Sequence[JudgedSet]) -> list[Question]:
    return [question for other in sets if other is not judged for question in other.questions]


def ask_mixed(asker: Searcher, sets: Sequence[JudgedSet]) -> list[tables.MixedAnswers]:
    """Each set's questions asked of all the others at once, and of everything."""
    found = []
    for judged in sets:
        others = [other for other in sets if other is not judged]
        strange, everywhere = asker.search_best(judged.questions, others), asker.search_best(judged.questions, sets)
        found.append(tables.MixedAnswers(judged.name, strange, everywhere))
    return found


def run_benchmark(server: BenchmarkServer, sets: Sequence[JudgedSet], arguments: argparse.Namespace) -> None:
    for judged in sets:
        import_documents(server, judged)
    asker = Searcher(server, arguments.budget_ms)
    modes: list[str] = arguments.modes.split(",")
    found = measure_sets(asker, sets, modes)
    tables.print_measures(found)
    tables.print_differences(found)
    if "hybrid" in modes and len(sets) > 1:
        tables.print_calibration(found, ask_foreign_questions(asker, sets))
    if arguments.together:
        tables.print_mixed(ask_mixed(asker, sets))
    for judged in sets:
        if judged.unanswerable and "hybrid" in modes:
            tables.print_threshold_curve(
                judged.name, found[judged.name]["hybrid"], asker.search_best(judged.unanswerable, [judged])
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--modes", default=",".join(MODES), help="of text, vector, hybrid and rerank, by comma")
    parser.add_argument("--sample", type=int, help="how many questions of a set are asked; all, unless told")
    parser.add_argument("--budget-ms", type=int, help="how long reranking may take, instead of the server's setting")
    parser.add_argument("--data", type=Path, help="keep what was put in, and use it again")
    parser.add_argument("--together", action="store_true", help="also ask all sets as one mixed collection")
    arguments = parser.parse_args()
    sets = [JudgedSet.read(folder, arguments.sample) for folder in arguments.folders]
    with run_server(arguments.data) as server:
        run_benchmark(server, sets, arguments)


if __name__ == "__main__":
    main()
