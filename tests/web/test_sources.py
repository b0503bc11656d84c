"""The source of the page: no way to run strangers' text, small files, and every text in every language."""

from __future__ import annotations

import re

import pytest

from knowledge.surfaces.web.assets import Assets

ASSETS = Assets.read_package()
SCRIPTS = {name: asset.plain.decode() for name, asset in ASSETS.by_name.items() if name.endswith(".js")}
SOURCES = {**SCRIPTS, "index.html": ASSETS.by_name["index.html"].plain.decode()}
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|setHTMLUnsafe|document\.write|createContextualFragment|DOMParser"
    r"|\bsrcdoc\s*=|\beval\s*\(|new Function|setAttribute\(\s*[\"']style[\"']|\bstyle="
    r"|[\s\"'.]on[a-z]+\s*=(?!=)|javascript:"
)
KILOBYTE = 1024
ENTRY = re.compile(r'^  "?([\w.]+)"?: (.+),$', re.MULTILINE)
ENGLISH = [name for name in SCRIPTS if re.fullmatch(r"words/en(/\w+)?\.js", name)]
OTHER_LANGUAGES = ["de"]


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_no_text_becomes_html_or_code(name: str) -> None:
    assert [line.strip() for line in SOURCES[name].splitlines() if FORBIDDEN.search(line)] == []


@pytest.mark.parametrize(
    "line",
    ["x.innerHTML = t", "a.outerHTML", "eval (t)", "new Function(t)", 'e.setAttribute("style", t)', "<p onclick=x>",
     "e.onclick = f", "<p style=x>"],
)  # fmt: skip
def test_the_search_for_forbidden_words_finds_them(line: str) -> None:
    assert FORBIDDEN.search(line)


def test_nothing_is_loaded_from_another_server() -> None:
    styles = "".join(asset.plain.decode() for name, asset in ASSETS.by_name.items() if name.endswith(".css"))
    assert "url(" not in styles and "@import" not in styles
    assert [name for name, text in SOURCES.items() if re.search(r"(src|href|from|import)\W{1,3}https?://", text)] == []


def test_the_page_stays_small() -> None:
    scripts = sum(len(ASSETS.by_name[name].gzipped) for name in SCRIPTS)
    first = sum(len(ASSETS.by_name[name].gzipped) for name in ASSETS.list_modules("app.js"))
    styles = sum(len(asset.gzipped) for name, asset in ASSETS.by_name.items() if name.endswith(".css"))
    assert scripts <= 120 * KILOBYTE
    assert first <= 35 * KILOBYTE
    assert styles <= 20 * KILOBYTE
    assert sum(len(ASSETS.by_name[name].gzipped) for name in ("tokens.css", "app.css")) <= 12 * KILOBYTE


def test_colours_and_sizes_are_named_in_one_file() -> None:
    styles = [name for name in ASSETS.by_name if name.endswith(".css") and name != "tokens.css"]
    assert len(styles) > 1
    assert [name for name in styles if re.search(r"#[0-9a-fA-F]{3,8}\b", ASSETS.by_name[name].plain.decode())] == []


def read_texts(name: str) -> dict[str, str]:
    return dict(ENTRY.findall(SCRIPTS[name]))


@pytest.mark.parametrize("name", ENGLISH)
@pytest.mark.parametrize("language", OTHER_LANGUAGES)
def test_every_language_has_the_same_texts_with_the_same_blanks(name: str, language: str) -> None:
    english, other = read_texts(name), read_texts(name.replace("words/en", f"words/{language}"))
    assert sorted(other) == sorted(english)
    blanks = {key: set(re.findall(r"\{(\w+)\}", text)) for key, text in english.items()}
    assert {key for key, text in other.items() if set(re.findall(r"\{(\w+)\}", text)) != blanks[key]} == set()


def test_no_text_is_defined_twice() -> None:
    keys = [key for name in ENGLISH for key in read_texts(name)]
    assert len(keys) > 150
    assert sorted(key for key in set(keys) if keys.count(key) > 1) == []


def test_every_text_is_used_and_every_used_text_exists() -> None:
    code = "\n".join(text for name, text in SCRIPTS.items() if not name.startswith("words/"))
    known = {key for name in ENGLISH for key in read_texts(name)}
    literals = set(re.findall(r'"([\w.]+)"', code))
    prefixes = tuple(re.findall(r"say\(`([\w.]+)\$\{", code))
    assert {key for key in known if key not in literals and not key.startswith(prefixes)} == set()
    assert set(re.findall(r'say\("([\w.]+)"', code)) <= known


def test_no_sentence_stands_outside_of_the_texts() -> None:
    views = "\n".join(
        text for name, text in SCRIPTS.items() if name.startswith(("pages/", "parts/")) or name == "frame.js"
    )
    assert re.findall(r'(?:null|\}), "([A-Z][a-z]+ [^"]+)"', views) == []


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_module_fits_on_a_few_screens(name: str) -> None:
    assert len(SCRIPTS[name].splitlines()) <= 300
