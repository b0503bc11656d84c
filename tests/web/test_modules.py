"""dom.js, text.js and snippet.js in the browser: what they draw, and what they refuse."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page

from knowledge.surfaces.web.assets import Assets
from tests.support.server_process import ServerProcess

Run = Callable[..., Awaitable[Any]]
ASSETS = Assets.read_package()
PRELUDE = f"""
const {{ h, render, isSafeAddress }} = await import("{ASSETS.path_of("dom.js")}");
const {{ markdown, inline }} = await import("{ASSETS.path_of("text.js")}");
const {{ clean, snippet, markWords, highlightedWords }} = await import("{ASSETS.path_of("snippet.js")}");
const box = document.createElement("div");
const draw = (...views) => {{ render(box, ...views); return box; }};
const tag = (node) => (node.className?.length ? `${{node.localName}}.${{node.className}}` : node.localName);
const outline = (node) =>
  node.nodeType === 3 ? node.data : `<${{tag(node)}}>` + [...node.childNodes].map(outline).join("") + "</>";
const shape = (...views) => [...draw(...views).childNodes].map(outline).join("");
"""


@pytest_asyncio.fixture(loop_scope="session")
async def run(page: Page, server: ServerProcess) -> Run:
    """Run a function body in the page; `given` is its argument."""
    await page.goto(f"{server.url}/settings")

    async def evaluate(body: str, given: Any = None) -> Any:
        return await page.evaluate(f"async (given) => {{ {PRELUDE} {body} }}", given)

    return evaluate


async def test_a_description_becomes_elements_and_text(run: Run) -> None:
    assert await run('return shape(h("p.a.b", { class: "c" }, "x", 1, [null, false, h("b", null, "y")]), "z")') == (
        "<p.a b c>x1<b>y</></>z"
    )


async def test_text_is_never_parsed_as_html(run: Run) -> None:
    hostile = "<img src=x onerror=window.pwned=1><script>window.pwned=1</script>"
    drawn = await run(
        """
        const e = draw(h("p", { title: given }, given));
        const strange = e.querySelectorAll("img, script").length;
        return [e.children.length, e.textContent, e.querySelector("p").title, strange];
        """,
        hostile,
    )
    assert drawn == [1, hostile, hostile, 0]


async def test_drawing_again_keeps_the_elements_and_changes_what_differs(run: Run) -> None:
    assert await run("""
      draw(h("p", { title: "a", hidden: true }, "one"));
      const before = box.firstChild;
      draw(h("p", { lang: "de" }, "two"));
      return [box.firstChild === before, before.textContent, before.hasAttribute("title"), before.hidden, before.lang];
    """) == [True, "two", False, False, "de"]


async def test_a_keyed_list_moves_its_elements(run: Run) -> None:
    assert await run("""
      const list = (...keys) => draw(h("ul", null, keys.map((key) => h("li", { key }, key))));
      list("a", "b", "c");
      const [a, b, c] = box.querySelectorAll("li");
      list("c", "x", "a");
      const now = [...box.querySelectorAll("li")];
      return [now.map((each) => each.textContent).join(""), now[0] === c, now[2] === a, b.isConnected];
    """) == ["cxa", True, True, False]


async def test_an_element_keeps_its_focus_when_others_come_before_it(run: Run) -> None:
    assert await run("""
      document.body.append(box);
      draw(h("form", null, h("input", { key: "q", value: "typed" })));
      box.querySelector("input").focus();
      draw(h("form", null, h("h1", null, "x"), h("p", null, "y"), h("input", { key: "q", value: "typed" })));
      const kept = document.activeElement === box.querySelector("input");
      box.remove();
      return kept;
    """)


async def test_a_listener_is_called_once_and_is_the_newest(run: Run) -> None:
    assert await run("""
      const calls = [];
      for (const name of ["old", "new"]) draw(h("button", { on: { click: () => calls.push(name) } }));
      box.firstChild.click();
      draw(h("button", null));
      box.firstChild.click();
      return calls;
    """) == ["new"]


async def test_drawings_are_svg_elements(run: Run) -> None:
    assert await run(
        'draw(h("svg", { viewBox: "0 0 1 1" }, h("rect", { width: 1 }))); return box.querySelector("rect").namespaceURI'
    ) == ("http://www.w3.org/2000/svg")


@pytest.mark.parametrize("name", ["onclick", "ONLOAD", "style", "srcdoc"])
async def test_attributes_that_run_scripts_are_refused(run: Run, name: str) -> None:
    assert (
        await run('try { draw(h("p", { [given]: "x" })); return "drawn"; } catch (error) { return error.name; }', name)
        == "TypeError"
    )


@pytest.mark.parametrize(
    ("address", "safe"),
    [
        ("https://example.org/a?b#c", True),
        ("http://example.org", True),
        ("/d/1?at=2", True),
        ("#main", True),
        ("?q=x", True),
        ("javascript:alert(1)", False),
        ("JaVaScRiPt:alert(1)", False),
        (" javascript:alert(1)", False),
        ("java\nscript:alert(1)", False),
        ("data:text/html,x", False),
        ("vbscript:x", False),
        ("//example.org", False),
        ("/\\example.org", False),
        ("/\t/example.org", False),
        ("blob:x", False),
        ("file:///etc/passwd", False),
        ("https://a\\b", False),
    ],
)
async def test_only_safe_addresses_become_links(run: Run, address: str, safe: bool) -> None:
    assert await run(
        'draw(h("a", { href: given }, "x")); return [isSafeAddress(given), box.firstChild.hasAttribute("href")]',
        address,
    ) == [safe, safe]


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("# Title\ntext", "<p.h h1>Title</><p>text</>"),
        ("one\ntwo\n\nthree", "<p>one\ntwo</><p>three</>"),
        ("- a\n- b\n  - c\n1. d", "<ul><li>a</><li>b<ul><li>c</></></></><ol><li>d</></>"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "<div.table><table><thead><tr><th>a</><th>b</></></>"
            "<tbody><tr><td>1</><td>2</></></></></>"),
        ("```py\n<b> *x*\n```", "<pre><code><b> *x*</></>"),
        ("a **b** *c* `d*e*`", "<p>a <strong>b</> <em>c</> <code>d*e*</></>"),
        ("snake_case_name and 2 * 3 * 4", "<p>snake_case_name and 2 * 3 * 4</>"),
        ("*open and **open", "<p>*open and **open</>"),
        ("**a *b** c*", "<p><strong>a *b</> c*</>"),
        ("<b>x</b> ![i](https://e.org/i.png)", "<p><b>x</b> !<a.out>i</><span.host> (e.org)</></>"),
        ("[x](javascript:alert(1))", "<p>[x](javascript:alert(1))</>"),
        ("see https://e.org/a.", "<p>see <a.out>https://e.org/a</>.</>"),
        ("\\*not\\*", "<p>*not*</>"),
    ],
)  # fmt: skip
async def test_markdown_is_drawn_and_the_rest_stays_text(run: Run, text: str, drawn: str) -> None:
    assert await run("return shape(...markdown(given))", text) == drawn


async def test_a_link_to_another_server_shows_its_host_and_tells_it_nothing(run: Run) -> None:
    drawn = await run(
        """
        const a = draw(...markdown("[bank](https://evil.example/x)")).querySelector("a");
        return [a.href, a.rel, a.target, a.parentNode.textContent];
        """
    )
    assert drawn == ["https://evil.example/x", "noopener noreferrer nofollow", "_blank", "bank (evil.example)"]


@pytest.mark.parametrize(
    "piece",
    ["*", "_", "**a", "[", "[a](", "`", "``a", "|", "- ", "#", "https://", "\\", "[a](https://", "  - a\n", "|a\n"],
)
async def test_markdown_needs_time_in_proportion_to_its_length(run: Run, piece: str) -> None:
    """Eight times the text may take at most 45 times as long; a quadratic parser takes 64 times as long."""
    short, long = await run(
        """
        const time = (count) => {
          const text = given.repeat(count), begin = performance.now();
          markdown(text);
          return performance.now() - begin;
        };
        time(1000);
        const best = (count) => Math.min(time(count), time(count), time(count));
        return [best(5000), best(40000)];
        """,
        piece,
    )
    assert long <= 45 * max(short, 3.0)


async def test_control_characters_of_titles_are_shown(run: Run) -> None:
    assert await run("return [clean(given), clean('x'.repeat(400)).length]", "a\u0000b\u001b[31m\u007f") == [
        "a␀b␛[31m␡",
        301,
    ]


async def test_words_are_marked_whole_and_in_any_case(run: Run) -> None:
    assert (
        await run('return shape(...markWords("Lamp lamps LAMP clamp", new Set(["lamp"])))')
        == "<mark>Lamp</> lamps <mark>LAMP</> clamp"
    )


async def test_a_snippet_shows_the_marked_words_without_the_signs_of_markdown(run: Run) -> None:
    hit = {"text": "## Heading\n\nSome **bold** lamp | text\n\n---\n\nbelow", "highlights": [[26, 30]]}
    drawn = await run("return shape(...snippet(given).filter(Boolean))", hit)
    assert drawn == "Heading Some bold <mark>lamp</> text below"


async def test_a_snippet_begins_where_most_words_are_marked(run: Run) -> None:
    text = "filler. " * 200 + "The lamp burns. The lamp is bright. " + "filler. " * 200
    first = text.index("lamp")
    spans = [[first, first + 4], [text.index("lamp", first + 5), text.index("lamp", first + 5) + 4]]
    drawn = await run("return shape(...snippet(given).filter(Boolean))", {"text": text, "highlights": spans})
    assert drawn.count("<mark>lamp</>") == 2 and drawn.startswith("… ") and drawn.endswith(" …") and len(drawn) < 450
