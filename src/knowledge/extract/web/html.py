"""HTML: the main text as Markdown, with headings, tables and code; menus, banners and other furniture are dropped."""

from __future__ import annotations

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

from knowledge.extract.base import Extracted, Source
from knowledge.extract.charset import decode, whole_text
from knowledge.extract.text.plain import pages
from knowledge.extract.web.facts import html_facts

DECLARED = re.compile(
    rb"(?i)<meta(?:(?!<meta)[^>])+charset=[\"']?\s*([\w-]+)|<\?xml(?:(?!<\?xml)[^>])+encoding=[\"']([\w-]+)"
)
ALWAYS = "script, style, noscript, template, iframe, object, embed, canvas, svg, input, select, button, textarea"
FURNITURE = ", ".join(
    (
        "nav, aside, form, dialog, menu",
        "[role=navigation], [role=banner], [role=contentinfo], [role=search], [role=dialog], [role=alertdialog]",
        "[aria-hidden=true], [hidden]",
        ".navbar, .nav, .menu, .sidebar, .skip-link, .skipToContent, .breadcrumb, .breadcrumbs, .footer, .noprint",
        ".mw-editsection, .toc, .vector-header-container, .headerlink, .advertisement, .ads, .social, .share, .related",
        "#footer, #mw-navigation, #sidebar, #comments, #cookie-banner",
    )
)
CONSENT = re.compile(r"(?i)(cookie|consent|gdpr)")
EDGES = "header, footer"
CONTENT = ("article", "main", "section")
"""What has a header of its own that belongs to the text."""
MAIN = ("main", "[role=main]", "article", "#content", "#main", "#main-content", ".content")
SKIP = ("skip to", "jump to")
MOST_LOOKS = 300
"""Each look weighs all that is inside, so that many of them would be slow on a page that is nested deeply."""
HEADING_LINE = re.compile(r"(?m)^(#{1,6} )(.*)$")
ANCHORS, BLANK = ("¶", "§", "🔗", " #", "\u200b#"), " \u200b"
"""The mark behind a heading that links to itself."""
BLANKS = re.compile(r"\n{3,}")


def extract(source: Source, doc_type: str) -> Extracted:
    text = read_html(source)
    tree = LexborHTMLParser(text)
    facts = html_facts(tree, doc_type)
    return Extracted(facts, pages([main_markdown(tree)]))


def read_html(source: Source) -> str:
    """What the page declares wins over what its bytes look like, if the bytes agree."""
    declared = DECLARED.search(source.read(2048))
    if declared:
        name = (declared[1] or declared[2]).decode("ascii", "replace").lower()
        try:
            return source.read().decode("cp1252" if name in ("iso-8859-1", "latin-1", "us-ascii") else name)
        except (LookupError, UnicodeDecodeError):
            pass
    return whole_text(source)


def fragment_markdown(html: str | bytes) -> str:
    """All of it, without looking for a main part: the body of a mail, a chapter of a book."""
    tree = LexborHTMLParser(html if isinstance(html, str) else decode(html))
    for node in tree.css(ALWAYS):
        node.decompose()
    return to_markdown(tree.body) if tree.body else ""


def main_markdown(tree: LexborHTMLParser) -> str:
    body = tree.body
    if body is None:
        return ""
    for node in tree.css(ALWAYS):
        node.decompose()
    whole = _weight(body)
    for node in [*tree.css(FURNITURE), *_consent(tree)]:
        if _weight(node) < whole * 0.5:
            node.decompose()
    for node in tree.css(EDGES):
        if not _is_heading(node) and _weight(node) < whole * 0.5:
            node.decompose()
    _drop_menus(body)
    main = _main(tree, body)
    return _title_above(tree, main) + to_markdown(main)


def _title_above(tree: LexborHTMLParser, main: LexborNode) -> str:
    """The only title of the page, where it stands outside of the main part."""
    titles = tree.css("h1")
    words = " ".join(titles[0].text().split()) if len(titles) == 1 and main.css_first("h1") is None else ""
    return f"# {words}\n\n" if words else ""


def _is_heading(edge: LexborNode) -> bool:
    """Whether it says what the text is about: a title above everything, or the head of one part."""
    within = edge.parent is not None and edge.parent.tag in CONTENT
    return edge.css_first("h1") is not None or (within and edge.tag == "header")


def _consent(tree: LexborHTMLParser) -> list[LexborNode]:
    found = tree.css("div[id], div[class], section[id], section[class]")
    return [node for node in found if CONSENT.search(f"{node.attributes.get('id')} {node.attributes.get('class')}")]


def _drop_menus(body: LexborNode) -> None:
    """What stands above the first heading and consists of links is a menu, whatever its author called it."""
    unwanted: list[LexborNode] = []
    looked_at = 0
    for node in body.traverse():
        if node.tag in ("h1", "h2", "h3") or looked_at > MOST_LOOKS:
            break
        if node.tag in ("ul", "ol", "table", "div", "p", "a"):
            looked_at += 1
            if _is_menu(node):
                unwanted.append(node)
    for node in unwanted:
        if node.parent is not None:
            node.decompose()


def _is_menu(node: LexborNode) -> bool:
    text = node.text(strip=True)
    if node.tag == "a":
        return text.lower().startswith(SKIP)
    links = node.css("a")
    linked = sum(len(link.text(strip=True)) for link in links)
    return len(links) > 2 and node.css_first("h1, h2, h3") is None and linked > 0.7 * len(text)


def _main(tree: LexborHTMLParser, body: LexborNode) -> LexborNode:
    """The one element that says it is the content, if it holds most of what is left."""
    weight = _weight(body)
    for selector in MAIN:
        found = tree.css(selector)
        if len(found) == 1 and _weight(found[0]) > weight * 0.5:
            return found[0]
    return body


def _weight(node: LexborNode) -> int:
    return len(node.text())


def to_markdown(node: LexborNode) -> str:
    """Links keep their words only: addresses would drown the text that is to be found."""
    import html_to_markdown

    node.unwrap_tags(["a", "font", "span"])
    html = node.html or ""
    options = html_to_markdown.ConversionOptions(
        extract_metadata=False,
        skip_images=True,
        escape_misc=False,
        bullets="-",
        preprocessing=html_to_markdown.PreprocessingOptions(enabled=False),  # it drops every header
    )
    text = html_to_markdown.convert(html, options).content or ""
    return BLANKS.sub("\n\n", HEADING_LINE.sub(_without_anchor, text)).strip() + "\n"


def _without_anchor(heading: re.Match[str]) -> str:
    words = heading[2].rstrip(BLANK)
    anchor = next((anchor for anchor in ANCHORS if words.endswith(anchor)), "")
    return heading[1] + words.removesuffix(anchor).rstrip(BLANK)
