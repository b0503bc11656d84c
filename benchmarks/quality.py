"""Measures search quality on judged questions through the REST API; all tables are Markdown.

    python benchmarks/quality.py [FOLDER...] [--sample N] [--modes text,vector,hybrid,rerank] [--data DIR] [--together]
        [--save FILE] [--before FILE]

A folder contains corpus.jsonl {_id, title, text}, queries.jsonl {_id, text} and qrels.tsv (query, document, grade), as
BEIR collections do, and optionally unanswerable.jsonl {text}. Each becomes a collection of one server. Without a folder
the pages and questions of tests/quality are used. The tables show

- nDCG@10, recall@10, recall@100 and MRR@10 of each mode,
- the differences between modes, question by question, with 95 % intervals from a paired bootstrap,
- the share of a set's own questions with a hit of relevance 0.5, and of the other sets' questions,
- with --together the same for all other sets at once and for all sets,
- the shares of answerable and unanswerable questions with a relevance of at least 0.3 to 0.9.

--sample limits the questions of a set, always to the same ones; reranking takes a third of a second for each. --data
keeps the data folder for the next run, because embedding ten thousand documents takes minutes. --save writes the
nDCG@10 of each question, and --before compares them with those of an earlier run of the same questions.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import quality_tables as tables
from judged_search import RankedAnswer, Searcher
from judged_sets import JudgedSet, Question, import_documents, write_own_set
from knowledge.engine.evaluate import mean
from results import Result, add_json_option, write_results
from server import BenchmarkServer, run_server

MODES = ("text", "vector", "hybrid", "rerank")


def measure_sets(searcher: Searcher, sets: Sequence[JudgedSet], modes: Sequence[str]) -> tables.AnswersBySet:
    """Run the questions of each set in its own collection in each mode."""
    return {
        judged.name: {mode: searcher.search_own_set(judged.questions, judged, mode) for mode in modes}
        for judged in sets
    }


def ask_foreign_questions(searcher: Searcher, sets: Sequence[JudgedSet]) -> dict[str, list[RankedAnswer]]:
    """Run the questions of the other sets in each set."""
    return {judged.name: searcher.search_best(list_foreign_questions(judged, sets), [judged]) for judged in sets}


def list_foreign_questions(judged: JudgedSet, sets: Sequence[JudgedSet]) -> list[Question]:
    return [question for other in sets if other is not judged for question in other.questions]


def ask_mixed(searcher: Searcher, sets: Sequence[JudgedSet]) -> list[tables.MixedAnswers]:
    """Run the questions of each set in all other sets at once, and in all sets."""
    found = []
    for judged in sets:
        others = [other for other in sets if other is not judged]
        in_others, in_all = searcher.search_best(judged.questions, others), searcher.search_best(judged.questions, sets)
        found.append(tables.MixedAnswers(judged.name, in_others, in_all))
    return found


def run_benchmark(server: BenchmarkServer, sets: Sequence[JudgedSet], arguments: argparse.Namespace) -> list[Result]:
    for judged in sets:
        import_documents(server, judged)
    searcher = Searcher(server, arguments.budget_ms)
    modes: list[str] = arguments.modes.split(",")
    found = measure_sets(searcher, sets, modes)
    tables.print_measures(found)
    tables.print_differences(found)
    scores = {name: {mode: [a.ndcg for a in answers] for mode, answers in by.items()} for name, by in found.items()}
    if arguments.save:
        arguments.save.write_text(json.dumps(scores), "utf-8")
    if arguments.before:
        tables.print_changes(scores, json.loads(arguments.before.read_text("utf-8")))
    if "hybrid" in modes and len(sets) > 1:
        tables.print_calibration(found, ask_foreign_questions(searcher, sets))
    if arguments.together:
        tables.print_mixed(ask_mixed(searcher, sets))
    for judged in sets:
        if judged.unanswerable and "hybrid" in modes:
            tables.print_threshold_curve(
                judged.name, found[judged.name]["hybrid"], searcher.search_best(judged.unanswerable, [judged])
            )
    return make_results(found)


def make_results(found: tables.AnswersBySet) -> list[Result]:
    """Return the nDCG@10 of each set: the last mode beside the others."""
    results = []
    for name, modes in found.items():
        *others, best = [(mode, mean([one.ndcg for one in answers])) for mode, answers in modes.items()]
        results += [Result(f"nDCG@10, {name}, {best[0]}", best[1], "", mode, value) for mode, value in others]
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--modes", default=",".join(MODES), help="comma-separated: text, vector, hybrid, rerank")
    parser.add_argument("--sample", type=int, help="maximum number of questions per set; default: all")
    parser.add_argument("--budget-ms", type=int, help="time limit of reranking, instead of the server's setting")
    parser.add_argument("--data", type=Path, help="data folder that is kept for the next run")
    parser.add_argument("--save", type=Path, help="file for the nDCG@10 of each question")
    parser.add_argument("--before", type=Path, help="file that --save wrote in an earlier run, to compare with")
    parser.add_argument("--together", action="store_true", help="also search all sets together")
    add_json_option(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folders = arguments.folders or [Path(made) / "own"]
        if not arguments.folders:
            write_own_set(folders[0])
        sets = [JudgedSet.read(folder, arguments.sample) for folder in folders]
        with run_server(arguments.data) as server:
            write_results(arguments.json, run_benchmark(server, sets, arguments))


if __name__ == "__main__":
    main()
