"""HTML: the main content as Markdown, without navigation, banners and other boilerplate."""

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
"""Tags whose `header` belongs to the content."""
MAIN_SELECTORS = ("main", "[role=main]", "article", "#content", "#main", "#main-content", ".content")
SKIP_LINK_PREFIXES = ("skip to", "jump to")
MAX_MENU_CHECKS = 300
"""Each check reads the whole subtree, which is quadratic on deeply nested pages."""
HEADING_LINE = re.compile(r"(?m)^(#{1,6} )(.*)$")
ANCHOR_MARKS, BLANK_CHARS = ("¶", "§", "🔗", " #", "\u200b#"), " \u200b"
"""Permalink signs behind headings, and the blanks around them."""
BLANK_LINES = re.compile(r"\n{3,}")


def extract(source: Source, doc_type: str) -> Extraction:
    text = read_html(source)
    tree = LexborHTMLParser(text)
    facts = read_html_facts(tree, doc_type)
    return Extraction(facts, to_pages([convert_main_part(tree)]))


def read_html(source: Source) -> str:
    """Decode by the declared charset, or detect it if the declaration is missing or wrong."""
    declared = DECLARED_CHARSET.search(source.read(2048))
    if declared:
        name = (declared[1] or declared[2]).decode("ascii", "replace").lower()
        try:
            return source.read().decode("cp1252" if name in ("iso-8859-1", "latin-1", "us-ascii") else name)
        except (LookupError, UnicodeDecodeError):
            pass
    return read_text(source)


def convert_fragment(html: str | bytes) -> str:
    """Convert a mail body or a chapter as a whole, without searching for the main content."""
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
    """Return the only h1 of the page as a heading if it is outside the main content."""
    titles = tree.css("h1")
    words = " ".join(titles[0].text().split()) if len(titles) == 1 and main.css_first("h1") is None else ""
    return f"# {words}\n\n" if words else ""


def _introduces_text(edge: LexborNode) -> bool:
    """Whether a header or footer has the page title or is the header of an article or section."""
    within = edge.parent is not None and edge.parent.tag in CONTENT_TAGS
    return edge.css_first("h1") is not None or (within and edge.tag == "header")


def _find_consent_banners(tree: LexborHTMLParser) -> list[LexborNode]:
    found = tree.css("div[id], div[class], section[id], section[class]")
    return [
        node for node in found if CONSENT_NAME.search(f"{node.attributes.get('id')} {node.attributes.get('class')}")
    ]


def _drop_menus(body: LexborNode) -> None:
    """Remove elements above the first heading that consist mostly of links."""
    unwanted: list[LexborNode] = []
    checks = 0
    for node in body.traverse():
        if node.tag in ("h1", "h2", "h3") or checks > MAX_MENU_CHECKS:
            break
        if node.tag in ("ul", "ol", "table", "div", "p", "a"):
            checks += 1
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
    """Return the only element that is marked as main content if it has most of the text, otherwise the body."""
    weight = _count_chars(body)
    for selector in MAIN_SELECTORS:
        found = tree.css(selector)
        if len(found) == 1 and _count_chars(found[0]) > weight * 0.5:
            return found[0]
    return body


def _count_chars(node: LexborNode) -> int:
    return len(node.text())


def node_to_markdown(node: LexborNode) -> str:
    """Convert a node to Markdown; links are reduced to their text, because URLs would dominate the index."""
    import html_to_markdown

    node.unwrap_tags(["a", "font", "span"])
    html = node.html or ""
    options = html_to_markdown.ConversionOptions(
        extract_metadata=False,
        skip_images=True,
        escape_misc=False,
        bullets="-",
        preprocessing=html_to_markdown.PreprocessingOptions(enabled=False),  # it removes every header element
    )
    text = html_to_markdown.convert(html, options).content or ""
    return BLANK_LINES.sub("\n\n", HEADING_LINE.sub(_strip_anchor, text)).strip() + "\n"


def _strip_anchor(heading: re.Match[str]) -> str:
    words = heading[2].rstrip(BLANK_CHARS)
    anchor = next((anchor for anchor in ANCHOR_MARKS if words.endswith(anchor)), "")
    return heading[1] + words.removesuffix(anchor).rstrip(BLANK_CHARS)
