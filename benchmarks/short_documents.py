"""Makes a judged set of short documents from a larger one, to measure how often a title counts.

    python benchmarks/short_documents.py FOLDER TARGET

The documents of FOLDER that have a title, or a docstring whose first line serves as one, are cut to the title and the
first 200 characters of the text. They become, in turn,

- the title and nothing else,
- a text that begins with the title as a heading,
- a text that begins with the title as a sentence,
- a text without the title, which counts once in any case.

The title itself has no final punctuation and a capital, as people write titles; the text has both as they were.
Questions and grades stay. Measure TARGET with benchmarks/quality.py.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path

from judged_sets import read_rows

BODY_CHARS = 200
DOCSTRING = re.compile(r"\"\"\"\s*([^\"\n]+)[^\"]*\"\"\"\s*")


def find_title(row: dict[str, str]) -> tuple[str, str] | None:
    """Return title and text, or None if there is no title."""
    if row["title"].strip():
        return " ".join(row["title"].split()), row["text"].strip()
    found = DOCSTRING.search(row["text"])
    if found is None:
        return None
    return " ".join(found[1].split()), row["text"].replace(found[0], "").strip()


def make_short_document(number: int, row: dict[str, str]) -> dict[str, str] | None:
    found = find_title(row)
    if found is None or not (words := found[0].rstrip(" .?!:;")):
        return None
    heading, body = found[0], found[1][:BODY_CHARS].rpartition(" ")[0]
    texts = (heading, f"# {heading}\n\n{body}", f"{heading} {body}", body or heading)
    return {"_id": row["_id"], "title": words[0].upper() + words[1:], "text": texts[number % len(texts)]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    arguments.target.mkdir(parents=True)
    made = [make_short_document(number, row) for number, row in enumerate(read_rows(arguments.folder / "corpus.jsonl"))]
    lines = [json.dumps(row, ensure_ascii=False) for row in made if row is not None]
    (arguments.target / "corpus.jsonl").write_text("\n".join(lines), "utf-8")
    for name in ("queries.jsonl", "qrels.tsv"):
        shutil.copy(arguments.folder / name, arguments.target / name)


if __name__ == "__main__":
    main()
