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
from asking import Answered, Asker
from judged import Judged, Question, fill
from serving import Served, serving

MODES = ("text", "vector", "hybrid", "rerank")


def measured(asker: Asker, sets: Sequence[Judged], modes: Sequence[str]) -> tables.Found:
    """Every set's own questions in every mode."""
    return {judged.name: {mode: asker.rank(judged.questions, judged, mode) for mode in modes} for judged in sets}


def foreign(asker: Asker, sets: Sequence[Judged]) -> dict[str, list[Answered]]:
    """The questions of the other sets, asked of each."""
    return {judged.name: asker.ask(strangers(judged, sets), [judged]) for judged in sets}


def strangers(judged: Judged, sets: Sequence[Judged]) -> list[Question]:
    return [question for other in sets if other is not judged for question in other.questions]


def mixed(asker: Asker, sets: Sequence[Judged]) -> list[tables.Mixed]:
    """Each set's questions asked of all the others at once, and of everything."""
    found = []
    for judged in sets:
        others = [other for other in sets if other is not judged]
        strange, everywhere = asker.ask(judged.questions, others), asker.ask(judged.questions, sets)
        found.append(tables.Mixed(judged.name, strange, everywhere))
    return found


def run(server: Served, sets: Sequence[Judged], arguments: argparse.Namespace) -> None:
    for judged in sets:
        fill(server, judged)
    asker = Asker(server, arguments.budget_ms)
    modes: list[str] = arguments.modes.split(",")
    found = measured(asker, sets, modes)
    tables.show_measures(found)
    tables.show_differences(found)
    if "hybrid" in modes and len(sets) > 1:
        tables.show_calibration(found, foreign(asker, sets))
    if arguments.together:
        tables.show_mixed(mixed(asker, sets))
    for judged in sets:
        if judged.unanswerable and "hybrid" in modes:
            tables.show_curve(judged.name, found[judged.name]["hybrid"], asker.ask(judged.unanswerable, [judged]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--modes", default=",".join(MODES), help="of text, vector, hybrid and rerank, by comma")
    parser.add_argument("--sample", type=int, help="how many questions of a set are asked; all, unless told")
    parser.add_argument("--budget-ms", type=int, help="how long reranking may take, instead of the server's setting")
    parser.add_argument("--data", type=Path, help="keep what was put in, and use it again")
    parser.add_argument("--together", action="store_true", help="also ask all sets as one mixed collection")
    arguments = parser.parse_args()
    sets = [Judged.read(folder, arguments.sample) for folder in arguments.folders]
    with serving(arguments.data) as server:
        run(server, sets, arguments)


if __name__ == "__main__":
    main()
