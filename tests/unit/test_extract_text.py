"""Text formats, web pages and source code become Markdown."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from knowledge import errors
from knowledge.extract.base import Extraction, Facts, Source
from knowledge.extract.clean_text import MAX_PIECE_CHARS
from knowledge.extract.formats import extract, is_supported


def source(tmp_path: Path, filename: str, content: str | bytes) -> Source:
    path = tmp_path / "bytes"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return Source(path, filename)


def read(tmp_path: Path, filename: str, content: str | bytes) -> tuple[Facts, str]:
    extracted: Extraction = extract(source(tmp_path, filename, content))
    return extracted.facts, "".join(page.text for page in extracted.pages)


def test_front_matter_becomes_facts(tmp_path: Path) -> None:
    facts, text = read(
        tmp_path,
        "post.md",
        "---\ntitle: Tea at noon\ntags: [green, black]\nauthor: Ada\ndate: 2024-05-01\nlang: en\n"
        "draft: true\n---\n# Body\n",
    )
    assert (facts.title, facts.author, facts.language, facts.tags) == ("Tea at noon", "Ada", "en", ("green", "black"))
    assert facts.metadata == {"created": "2024-05-01", "draft": True}
    assert text == "# Body\n"


def test_toml_front_matter_is_read_too(tmp_path: Path) -> None:
    facts, text = read(tmp_path, "post.md", '+++\ntitle = "Tea"\ntags = ["green"]\n+++\nBody\n')
    assert (facts.title, facts.tags, text) == ("Tea", ("green",), "Body\n")


def test_a_rule_at_the_top_is_no_front_matter(tmp_path: Path) -> None:
    facts, text = read(tmp_path, "post.md", "---\nHello there\n---\nBody\n")
    assert (facts.title, text) == (None, "---\nHello there\n---\nBody\n")


def test_yaml_aliases_in_front_matter_are_not_followed(tmp_path: Path) -> None:
    bomb = "---\na: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n---\nBody\n"
    facts, text = read(tmp_path, "post.md", bomb)
    assert facts.metadata == {}
    assert "Body" in text


def test_the_first_heading_is_the_title_of_a_markdown_file(tmp_path: Path) -> None:
    facts, _ = read(tmp_path, "a.md", "```\n# not this\n```\n\n# The *real* [title](http://x) #\n")
    assert facts.title == "The real title"


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("utf-8", "naïve café – 東京"),
        ("utf-8-sig", "naïve café"),
        ("utf-16", "naïve café – 東京"),
        ("utf-16-le", "plain words in two bytes"),
        ("utf-16-be", "Слова в двух байтах, без метки порядка"),
        ("utf-32", "naïve café"),
        ("cp1252", "Zwölf Boxkämpfer jagen Viktor über den großen Deich – “schön”"),
        ("latin-1", "El pingüino Wenceslao hizo kilómetros, señor"),
        ("cp1250", "Zażółć gęślą jaźń. Łódź jest miastem, gdzie żyje wielu ludzi"),
        ("cp1251", "Съешь же ещё этих мягких французских булок, да выпей чаю"),
        ("koi8-r", "Съешь же ещё этих мягких французских булок, да выпей чаю"),
        ("cp1253", "Η Αθήνα είναι η πρωτεύουσα της Ελλάδας"),
        ("cp1254", "Şu çılgın köpeği gördüğümde çok şaşırdım"),
        ("cp1255", "ירושלים היא בירת ישראל. אנחנו לומדים ועובדים כאן"),
        ("cp1256", "القاهرة هي عاصمة مصر. نحن ندرس ونعمل هنا كل يوم"),
        ("cp874", "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย"),
        ("shift_jis", "吾輩は猫である。名前はまだ無い。どこで生れたか"),
        ("euc_jp", "吾輩は猫である。名前はまだ無い。どこで生れたか"),
        ("iso2022_jp", "吾輩は猫である。名前はまだ無い。"),
        ("gb18030", "北京是首都，我们在这里学习和工作。这是一个测试文件"),
        ("big5", "臺北是首都，我們在這裡學習和工作。這是一個測試文件"),
        ("euc_kr", "대한민국의 수도는 서울이다. 우리는 여기에서 공부하고 일한다"),
    ],
)
def test_plain_text_is_read_in_any_common_encoding(tmp_path: Path, encoding: str, text: str) -> None:
    assert read(tmp_path, "a.txt", text.encode(encoding))[1].lstrip("\ufeff") == text


def test_a_non_ascii_letter_far_into_a_long_text_decides_its_encoding(tmp_path: Path) -> None:
    text = "plain words\n" * 40_000 + "und dann größer"
    assert read(tmp_path, "a.txt", text.encode("latin-1"))[1].endswith("größer")


def test_a_long_text_comes_in_pieces_that_end_where_paragraphs_do(tmp_path: Path) -> None:
    paragraph = "word " * 200 + "end.\n\n"
    extracted = extract(source(tmp_path, "a.txt", paragraph * 1500))
    pieces = [page.text for page in extracted.pages]
    assert len(pieces) > 4
    assert all(len(piece) <= MAX_PIECE_CHARS and piece.endswith("end.\n\n") for piece in pieces)
    assert "".join(pieces) == paragraph * 1500


def test_a_long_text_is_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    document = source(tmp_path, "a.txt", b"a line of words\n" * 1_000_000)
    extract(document)
    tracemalloc.start()
    size = sum(len(page.text) for page in extract(document).pages)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size == 16_000_000
    assert peak < 4 << 20


PAGE = """<!doctype html><html lang="de"><head><title>Tea &amp; more</title><meta name="author" content="Ada">
<link rel="canonical" href="https://example.org/tea"><meta property="article:published_time" content="2024-01-02">
<style>.x{}</style></head><body>
<div class="cookie-consent">We value your privacy and cookies</div>
<header><ul><li><a href="/">Home</a></li><li><a href="/a">About</a></li><li><a href="/b">Blog</a></li></ul></header>
<nav>Menu one two</nav>
<main><h1>Tea<a href="#tea">¶</a></h1><p>Green tea is <a href="/green">picked early</a> and never roasted for long.</p>
<h2>Prices in C#</h2><table><tr><th>Kind</th><th>Price</th></tr><tr><td>Sencha</td><td>12 | 13</td></tr></table>
<pre><code class="language-python">def brew():
    return "tea"</code></pre>
<ul><li>one<ul><li>nested</li></ul></li><li>two</li></ul></main>
<aside>Related: coffee</aside><footer>Imprint and footer words</footer><script>var secret = 1</script></body></html>"""


def test_a_page_gives_its_main_text_and_its_facts(tmp_path: Path) -> None:
    facts, text = read(tmp_path, "tea.html", PAGE)
    assert (facts.title, facts.author, facts.language) == ("Tea & more", "Ada", "de")
    assert facts.metadata == {"url": "https://example.org/tea", "created": "2024-01-02"}
    for furniture in ("privacy", "About", "Menu", "coffee", "Imprint", "secret", ".x", "¶"):
        assert furniture not in text


def test_a_page_keeps_headings_tables_code_and_lists(tmp_path: Path) -> None:
    lines = read(tmp_path, "tea.html", PAGE)[1].splitlines()
    assert "# Tea" in lines
    assert "## Prices in C#" in lines
    assert any("Sencha" in line and "12 " in line and line.startswith("|") for line in lines)
    assert '    return "tea"' in lines
    assert any(line.startswith("  ") and line.strip() == "- nested" for line in lines)


def test_the_head_of_a_page_and_of_an_article_belong_to_the_text(tmp_path: Path) -> None:
    words = "<p>The breakwater was surveyed in spring.</p>" * 5
    title = "<div><header><a href='/'>Harbour News</a></header></div><header><h1>Of ships</h1><p>By Ada</p></header>"
    article = f"<header><p>1 May 1899</p></header>{words}<footer>Share this</footer>"
    _, text = read(tmp_path, "a.html", f"<body>{title}<article>{article}</article></body>")
    assert text.startswith("# Of ships\n\n1 May 1899\n\nThe breakwater")
    assert ("Harbour News" in text, "Share this" in text) == (False, False)
    assert read(tmp_path, "a.html", f"<body>{title}{words}</body>")[1].startswith("# Of ships\n\nBy Ada\n\nThe")


def test_a_page_in_the_encoding_it_declares(tmp_path: Path) -> None:
    html = '<html><head><meta charset="shift_jis"><title>猫</title></head><body><p>吾輩は猫である</p></body></html>'
    facts, text = read(tmp_path, "a.html", html.encode("shift_jis"))
    assert (facts.title, text.strip()) == ("猫", "吾輩は猫である")


def test_csv_becomes_a_markdown_table(tmp_path: Path) -> None:
    _, text = read(tmp_path, "a.csv", 'Name;Betrag\n"Müller;\nKöln";1.234,50\nMeier|Sohn;2\n'.encode("cp1252"))
    assert text.splitlines() == [
        "| Name | Betrag |",
        "| --- | --- |",
        "| Müller; Köln | 1.234,50 |",
        "| Meier\\|Sohn | 2 |",
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_detected_from_the_rows(tmp_path: Path, delimiter: str) -> None:
    rows = [["city", "note"], ["Oslo", "cold"], ["Rome", "warm"]]
    _, text = read(tmp_path, "a.csv", "\n".join(delimiter.join(row) for row in rows))
    assert "| Rome | warm |" in text


def test_lines_above_the_columns_of_a_table_are_not_its_header(tmp_path: Path) -> None:
    text = "Prices of the harbour\n\nWare;Origin;Price\nTea;Assam;12\n"
    assert read(tmp_path, "a.csv", text)[1] == (
        "Prices of the harbour\n\n| Ware | Origin | Price |\n| --- | --- | --- |\n| Tea | Assam | 12 |"
    )


def test_every_piece_of_a_long_table_repeats_its_header(tmp_path: Path) -> None:
    rows = "id,city\n" + "".join(f"{number},City {number}\n" for number in range(20_000))
    pieces = [page.text for page in extract(source(tmp_path, "a.csv", rows)).pages]
    assert len(pieces) > 3
    assert all(piece.startswith("| id | city |\n| --- | --- |\n") for piece in pieces)
    assert sum(piece.count("City") for piece in pieces) == 20_000


def test_json_becomes_names_and_values(tmp_path: Path) -> None:
    _, text = read(tmp_path, "a.json", '[{"name": "Zo\\u00eb", "langs": ["de", "fr"]}, {"name": "Ann", "age": 3}]')
    assert text == "name: Zoë\nlangs:\n  - de\n  - fr\n\nname: Ann\nage: 3\n\n"


def test_each_line_of_json_lines_is_a_block(tmp_path: Path) -> None:
    _, text = read(tmp_path, "a.jsonl", '{"a": 1}\nnot json\n{"b": {"c": null}}\n')
    assert text == "a: 1\n\nnot json\n\nb:\n  c: null\n\n"


def test_invalid_json_is_passed_on_unchanged(tmp_path: Path) -> None:
    assert "unfinished" in read(tmp_path, "a.json", '{"unfinished": ')[1]


def test_deeply_nested_json_is_read_as_text(tmp_path: Path) -> None:
    assert "[" in read(tmp_path, "a.json", '["x",' + "[" * 100_000)[1]


def test_a_notebook_gives_prose_code_and_results(tmp_path: Path) -> None:
    cells = (
        '{"cells": [{"cell_type": "markdown", "source": ["# Study\\n", "Words"]}, {"cell_type": "code", '
        '"source": "print(1)", "outputs": [{"text": ["1\\n"]}]}], "nbformat": 4, "metadata": {}}'
    )
    facts, text = read(tmp_path, "a.ipynb", cells)
    assert (facts.doc_type, facts.title) == ("ipynb", "Study")
    assert "```python\nprint(1)\n```" in text
    assert "```\n1\n```" in text


def test_code_is_fenced_with_its_language(tmp_path: Path) -> None:
    facts, text = read(tmp_path, "a.py", '"""Doc with ``` in it."""\n# not a heading\n')
    assert facts.doc_type == "py"
    assert text == '````python\n"""Doc with ``` in it."""\n# not a heading\n````'


def test_long_code_is_fenced_piece_by_piece(tmp_path: Path) -> None:
    function = "def f():\n" + "    x = 1\n" * 50 + "\n\n"
    pieces = [page.text for page in extract(source(tmp_path, "a.py", function * 1000)).pages]
    assert len(pieces) > 1
    assert all(piece.startswith("```python\ndef f") and piece.endswith("\n```") for piece in pieces)


@pytest.mark.parametrize("filename", ["a.yaml", "a.toml", "a.ini", "a.xml", "a.sql", "a.sh"])
def test_configuration_is_kept_as_it_is(tmp_path: Path, filename: str) -> None:
    assert "\n# key = 1\n" in read(tmp_path, filename, "# key = 1\nb = 2\n")[1]


def test_restructured_text_gets_its_headings_and_code(tmp_path: Path) -> None:
    rst = (
        "=====\nGuide\n=====\n\nFirst\n-----\nSee :ref:`the end <end>` and ``code``::\n\n    $ run\n\n"
        ".. code-block:: python\n   :linenos:\n\n   import this\n\nDeeper\n~~~~~~\nWords\n\nSecond\n------\n"
    )
    facts, text = read(tmp_path, "a.rst", rst)
    assert facts.title == "Guide"
    for line in ("# Guide", "## First", "### Deeper", "## Second", "$ run", "```python", "import this"):
        assert line in text.splitlines()
    assert "See `the end` and `code`:" in text


@pytest.mark.parametrize(
    ("filename", "text"),
    [
        ("a.adoc", "= Guide\n\n== First\nWords\n\n[source,python]\n----\nimport this\n----\n"),
        ("a.org", "#+TITLE: Guide\n** First\nWords\n#+BEGIN_SRC python\nimport this\n#+END_SRC\n"),
        ("a.tex", "\\title{Guide}\n\\section{First} % note\nWords\n```python\nimport this\n```\n"),
    ],
)
def test_other_markup_gets_its_headings(tmp_path: Path, filename: str, text: str) -> None:
    facts, markdown = read(tmp_path, filename, text)
    assert facts.title == "Guide"
    for line in ("# Guide", "## First", "Words", "```python", "import this"):
        assert line in [line.strip() for line in markdown.splitlines()]


def test_an_unknown_suffix_is_refused_with_the_ones_we_know(tmp_path: Path) -> None:
    with pytest.raises(errors.UnsupportedFormat, match="xyz") as caught:
        extract(source(tmp_path, "a.xyz", "words"))
    assert "md" in caught.value.hint
    assert not is_supported("a.xyz")
    assert is_supported("A.MD")


@pytest.mark.parametrize("content", [b"", b" \n\t ", b"*** --- ***"])
def test_a_text_without_words_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(errors.NoText):
        read(tmp_path, "a.txt", content)


@pytest.mark.parametrize("content", [b"\x7fELF\x02\x01\x01\0\0\0", bytes(range(256)) * 20, b"MZ\x90\0\x03\0\0\0\x04"])
def test_binary_data_named_like_a_text_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(errors.Damaged):
        read(tmp_path, "a.txt", content)


def test_a_page_under_another_known_name_is_read_as_a_page(tmp_path: Path) -> None:
    facts, text = read(tmp_path, "a.txt", "<!DOCTYPE html><html><body><h1>Hi</h1><p>there</p></body></html>")
    assert (facts.doc_type, "# Hi" in text) == ("html", True)
