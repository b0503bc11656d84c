"""Measures the detection of legacy encodings, beside chardet and charset-normalizer in the same run.

    python benchmarks/charset.py [FOLDER...] [--json FILE]

A folder contains UTF-8 texts named by their language (`es.txt`); the default is tests/data/charset/paragraphs. Each
text is encoded in every code page of its language and cut at word boundaries into samples; pure ASCII samples do not
count. A result is correct if it decodes the sample to the original text.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

from knowledge.extract.charset import guess_encoding
from results import NOT_INSTALLED, Result, add_json_option, write_results

PARAGRAPHS = Path(__file__).parent.parent / "tests/data/charset/paragraphs"
SIZES = (2000, 200, 50)
STEPS = {2000: 100, 200: 60, 50: 40}
# Characters between the starts of two samples of a size.
WESTERN = ("cp1252", "iso8859-1", "iso8859-15")
CODE_PAGES = {
    **dict.fromkeys(("es", "it", "pt", "fr", "de", "sv"), WESTERN),
    **dict.fromkeys(("pl", "cs", "hu"), ("cp1250", "iso8859-2")),
    "tr": ("cp1254", "iso8859-9"),
    "el": ("cp1253", "iso8859-7"),
    "ru": ("cp1251", "iso8859-5", "koi8-r"),
    "uk": ("cp1251", "iso8859-5", "koi8-u"),
    "he": ("cp1255", "iso8859-8"),
    "ar": ("cp1256", "iso8859-6"),
}
OTHER_CODE_PAGES = {
    **dict.fromkeys(("ca", "da", "en", "fi", "is", "nb", "nl"), ("cp1252",)),
    **dict.fromkeys(("hr", "ro", "sk", "sl"), ("cp1250", "iso8859-2")),
    **dict.fromkeys(("et", "lt", "lv"), ("cp1257",)),
    **dict.fromkeys(("bg", "sr"), ("cp1251", "iso8859-5")),
    "th": ("cp874",),
    "vi": ("cp1258",),
}
REPLACEMENTS = {
    **dict.fromkeys("“”„«»״", '"'),
    **dict.fromkeys("’‘", "'"),
    **dict.fromkeys("–—", "-"),
    "…": "...",
    "€": "EUR",
    "œ": "oe",
}
# What people typed for characters that a code page lacks.
Detector = Callable[[bytes], str]


def make_samples(text: str, page: str, size: int) -> Iterator[tuple[bytes, str]]:
    """Yield encoded samples of a text with their original."""
    text = replace_missing_chars(text, page)
    next_start = 0
    for start in [0, *(place + 1 for place, letter in enumerate(text) if letter in " \n")]:
        if start < next_start or start + size > len(text):
            continue
        next_start = start + STEPS[size]
        piece = text[start : start + size]
        if start + size < len(text) and text[start + size] not in " \n":
            piece = piece[: max(piece.rfind(" "), piece.rfind("\n"))]
        data = piece.encode(page)
        if not data.isascii():
            yield data, piece


def replace_missing_chars(text: str, page: str) -> str:
    """Replace characters that the code page lacks by typewriter characters."""
    return "".join(letter if _can_encode(page, letter) else REPLACEMENTS.get(letter, "") for letter in text)


@cache
def _can_encode(page: str, letter: str) -> bool:
    try:
        letter.encode(page)
    except UnicodeEncodeError:
        return False
    return True


def is_decoded_right(detector: Detector, data: bytes, text: str) -> bool:
    try:
        return data.decode(detector(data), errors="replace") == text
    except LookupError:
        return False


def load_detectors() -> dict[str, Detector | None]:
    """Return the detectors by name and version; None for one that is not installed."""
    found: dict[str, Detector | None] = {"ours": guess_encoding}
    for package, make in (("chardet", _load_chardet), ("charset-normalizer", _load_charset_normalizer)):
        try:
            found[f"{package} {version(package)}"] = make()
        except ModuleNotFoundError:
            found[package] = None
    return found


def _load_chardet() -> Detector:
    detect = importlib.import_module("chardet").detect
    return lambda data: str(detect(data)["encoding"] or "cp1252")


def _load_charset_normalizer() -> Detector:
    from_bytes = importlib.import_module("charset_normalizer").from_bytes

    def detect(data: bytes) -> str:
        best = from_bytes(data).best()
        return "cp1252" if best is None else str(best.encoding)

    return detect


def measure_detector(detector: Detector, folders: list[Path]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the numbers of correct and of all samples, by language with code page and by size."""
    counts: dict[tuple[str, int], tuple[int, int]] = {}
    for folder in folders:
        for language, pages in {**CODE_PAGES, **OTHER_CODE_PAGES}.items():
            path = folder / f"{language}.txt"
            text = path.read_text("utf-8") if path.exists() else ""
            for page in pages:
                for size in SIZES:
                    right, total = counts.get((f"{language} {page}", size), (0, 0))
                    for data, piece in make_samples(text, page, size):
                        right, total = right + is_decoded_right(detector, data, piece), total + 1
                    counts[f"{language} {page}", size] = right, total
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*")
    add_json_option(parser)
    options = parser.parse_args()
    folders = options.folders or [PARAGRAPHS]
    names = load_detectors()
    results, sample_ms = {}, {}
    for name, detector in names.items():
        if detector is None:
            print(f"{name}: {NOT_INSTALLED}")
            continue
        detector("é".encode("cp1252") * 40)  # tables are loaded at the first call
        started = time.process_time()
        results[name] = measure_detector(detector, folders)
        calls = sum(total for _, total in results[name].values())
        sample_ms[name] = (time.process_time() - started) / max(1, calls) * 1000
        print(f"{name}: {sample_ms[name]:.2f} ms per sample")
    print(f"\n{'% right of samples of':24}" + "".join(f"{name:>28}" for name in results))
    print(" " * 24 + "".join(f"{'  '.join(f'{size:>6}' for size in SIZES):>28}" for _ in results))
    rows = list(dict.fromkeys(row for counts in results.values() for row, _ in counts))
    groups = {row: [row] for row in rows}
    groups["the fifteen languages"] = [row for row in rows if row.split(" ")[0] in CODE_PAGES]
    groups["other languages"] = [row for row in rows if row.split(" ")[0] not in CODE_PAGES]
    for label, members in groups.items():
        shares = [_format_shares(counts, members) for counts in results.values()]
        if any(share.strip(" -") for share in shares):
            print(f"{label:24}" + "".join(f"{share:>28}" for share in shares))
    write_results(options.json, make_results(list(names), results, sample_ms))


Counts = dict[tuple[str, int], tuple[int, int]]


def make_results(names: list[str], counts: dict[str, Counts], sample_ms: dict[str, float]) -> list[Result]:
    shares = {name: _share(counts_of_one) for name, counts_of_one in counts.items()}
    return [
        row
        for name in names
        if name != "ours"
        for row in (
            Result("encodings detected", shares["ours"], "%", name, shares.get(name)),
            Result("detect an encoding, CPU", sample_ms["ours"], "ms", name, sample_ms.get(name)),
        )
    ]


def _share(counts: Counts) -> float:
    totals = counts.values()
    return 100 * sum(right for right, _ in totals) / max(1, sum(total for _, total in totals))


def _format_shares(counts: dict[tuple[str, int], tuple[int, int]], rows: list[str]) -> str:
    cells = []
    for size in SIZES:
        right = sum(counts[row, size][0] for row in rows)
        total = sum(counts[row, size][1] for row in rows)
        cells.append(f"{100 * right / total:6.1f}" if total else "     -")
    return "  ".join(cells)


if __name__ == "__main__":
    main()
