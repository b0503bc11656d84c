"""HTML: the main text as Markdown, with headings, tables and code; menus, banners and other furniture are dropped."""

from __future__ import annotations

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

from knowledge.extract.base import Extraction, Facts, Source
from knowledge.extract.charset import decode_text, read_text
from knowledge.extract.text.plain import to_pages
from knowledge.model import Json

TITLE_SELECTORS = ('meta[property="og:title"]', 'meta[name="citation_title"]', 'meta[name="DC.title"]')
AUTHOR_SELECTORS = ('meta[name="author"]', 'meta[property="article:author"]', 'meta[name="DC.creator"]')
CREATED_SELECTORS = (
    'meta[property="article:published_time"]',
    'meta[name="date"]',
    'meta[name="citation_publication_date"]',
    'meta[name="DC.date"]',
)
MODIFIED_SELECTORS = (
    'meta[property="article:modified_time"]',
    'meta[property="og:updated_time"]',
    'meta[name="last-modified"]',
)
DESCRIPTION_SELECTORS = ('meta[name="description"]', 'meta[property="og:description"]')
KEYWORD_SELECTORS = ('meta[name="keywords"]',)


def read_html_facts(tree: LexborHTMLParser, doc_type: str) -> Facts:
    metadata: Json = {
        "url": _read_attribute(tree, 'link[rel="canonical"]', "href") or _find_meta(tree, ('meta[property="og:url"]',)),
        "description": _find_meta(tree, DESCRIPTION_SELECTORS),
        "keywords": _find_meta(tree, KEYWORD_SELECTORS),
        "created": _find_meta(tree, CREATED_SELECTORS) or _read_attribute(tree, "time[datetime]", "datetime"),
        "modified": _find_meta(tree, MODIFIED_SELECTORS),
    }
    return Facts(
        doc_type,
        title=_read_words(tree, "title") or _find_meta(tree, TITLE_SELECTORS) or _read_words(tree, "h1"),
        author=_find_meta(tree, AUTHOR_SELECTORS),
        language=_read_attribute(tree, "html", "lang") or _read_attribute(tree, "html", "xml:lang"),
        metadata={key: value for key, value in metadata.items() if value},
    )


def _read_words(tree: LexborHTMLParser, selector: str) -> str | None:
    node = tree.css_first(selector)
    return " ".join(node.text().split()) or None if node is not None else None


def _find_meta(tree: LexborHTMLParser, selectors: tuple[str, ...]) -> str | None:
    found = (_read_attribute(tree, selector, "content") for selector in selectors)
    return next((value for value in found if value), None)


def _read_attribute(tree: LexborHTMLParser, selector: str, name: str) -> str | None:
    node = tree.css_first(selector)
    value = node.attributes.get(name) if node is not None else None
    return value.strip() or None if value else None


DECLARED_CHARSET = re.compile(
    rb"(?i)<meta(?:(?!<meta)[^>])+charset=[\"']?\s*([\w-]+)|<\?xml(?:(?!<\?xml)[^>])+encoding=[\"']([\w-]+)"
)
NON_TEXT_SELECTOR = (
    "script, style, noscript, template, iframe, object, embed, canvas, svg, input, select, button, textarea"
)
BOILERPLATE_SELECTOR = ", ".join(
    (
        "nav, aside, form, dialog, menu",
        "[role=navigation], [role=banner], [role=contentinfo], [role=search], [role=dialog], [role=alertdialog]",
        "[aria-hidden=true], [hidden]",
        ".navbar, .nav, .menu, .sidebar, .skip-link, .skipToContent, .breadcrumb, .breadcrumbs, .footer, .noprint",
        ".mw-editsection, .toc, .vector-header-container, .headerlink, .advertisement, .ads, .social, .share, .related",
        "#footer, #mw-navigation, #sidebar, #comments, #cookie-banner",
    )
)
CONSENT_NAME = re.compile(r"(?i)(cookie|consent|gdpr)")
HEADER_FOOTER_SELECTOR = "header, footer"
CONTENT_TAGS = ("article", "main", "section")
"""What has a header of its own that belongs to the text."""
MAIN_SELECTORS = ("main", "[role=main]", "article", "#content", "#main", "#main-content", ".content")
SKIP_LINK_PREFIXES = ("skip to", "jump to")
MAX_MENU_CHECKS = 300
"""Each look weighs all that is inside, so that many of them would be slow on a page that is nested deeply."""
HEADING_LINE = re.compile(r"(?m)^(#{1,6} )(.*)$")
ANCHOR_MARKS, BLANK_CHARS = ("¶", "§", "🔗", " #", "\u200b#"), " \u200b"
"""The mark behind a heading that links to itself."""
BLANK_LINES = re.compile(r"\n{3,}")


def extract(source: Source, doc_type: str) -> Extraction:
    text = read_html(source)
    tree = LexborHTMLParser(text)
    facts = read_html_facts(tree, doc_type)
    return Extraction(facts, to_pages([convert_main_part(tree)]))


def read_html(source: Source) -> str:
    """What the page declares wins over what its bytes look like, if the bytes agree."""
    declared = DECLARED_CHARSET.search(source.read(2048))
    if declared:
        name = (declared[1] or declared[2]).decode("ascii", "replace").lower()
        try:
            return source.read().decode("cp1252" if name in ("iso-8859-1", "latin-1", "us-ascii") else name)
        except (LookupError, UnicodeDecodeError):
            pass
    return read_text(source)


def convert_fragment(html: str | bytes) -> str:
    """All of it, without looking for a main part: the body of a mail, a chapter of a book."""
    tree = LexborHTMLParser(html if isinstance(html, str) else decode_text(html))
    for node in tree.css(NON_TEXT_SELECTOR):
        node.decompose()
    return node_to_markdown(tree.body) if tree.body else ""


def convert_main_part(tree: LexborHTMLParser) -> str:
    body = tree.body
    if body is None:
        return ""
    for node in tree.css(NON_TEXT_SELECTOR):
        node.decompose()
    whole = _count_chars(body)
    for node in [*tree.css(BOILERPLATE_SELECTOR), *_find_consent_banners(tree)]:
        if _count_chars(node) < whole * 0.5:
            node.decompose()
    for node in tree.css(HEADER_FOOTER_SELECTOR):
        if not _introduces_text(node) and _count_chars(node) < whole * 0.5:
            node.decompose()
    _drop_menus(body)
    main = _find_main_part(tree, body)
    return _render_title_above(tree, main) + node_to_markdown(main)


def _render_title_above(tree: LexborHTMLParser, main: LexborNode) -> str:
    """The only title of the page, where it stands outside of the main part."""
    titles = tree.css("h1")
    words = " ".join(titles[0].text().split()) if len(titles) == 1 and main.css_first("h1") is None else ""
    return f"# {words}\n\n" if words else ""


def _introduces_text(edge: LexborNode) -> bool:
    """Whether it says what the text is about: a title above everything, or the head of one part."""
    within = edge.parent is not None and edge.parent.tag in CONTENT_TAGS
    return edge.css_first("h1") is not None or (within and edge.tag == "header")


def _find_consent_banners(tree: LexborHTMLParser) -> list[LexborNode]:
    found = tree.css("div[id], div[class], section[id], section[class]")
    return [
        node for node in found if CONSENT_NAME.search(f"{node.attributes.get('id')} {node.attributes.get('class')}")
    ]


def _drop_menus(body: LexborNode) -> None:
    """What stands above the first heading and consists of links is a menu, whatever its author called it."""
    unwanted: list[LexborNode] = []
    looked_at = 0
    for node in body.traverse():
        if node.tag in ("h1", "h2", "h3") or looked_at > MAX_MENU_CHECKS:
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
        return text.lower().startswith(SKIP_LINK_PREFIXES)
    links = node.css("a")
    linked = sum(len(link.text(strip=True)) for link in links)
    return len(links) > 2 and node.css_first("h1, h2, h3") is None and linked > 0.7 * len(text)


def _find_main_part(tree: LexborHTMLParser, body: LexborNode) -> LexborNode:
    """The one element that says it is the content, if it holds most of what is left."""
    weight = _count_chars(body)
    for selector in MAIN_SELECTORS:
        found = tree.css(selector)
        if len(found) == 1 and _count_chars(found[0]) > weight * 0.5:
            return found[0]
    return body


def _count_chars(node: LexborNode) -> int:
    return len(node.text())


def node_to_markdown(node: LexborNode) -> str:
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
    return BLANK_LINES.sub("\n\n", HEADING_LINE.sub(_strip_anchor, text)).strip() + "\n"


def _strip_anchor(heading: re.Match[str]) -> str:
    words = heading[2].rstrip(BLANK_CHARS)
    anchor = next((anchor for anchor in ANCHOR_MARKS if words.endswith(anchor)), "")
    return heading[1] + words.removesuffix(anchor).rstrip(BLANK_CHARS)
