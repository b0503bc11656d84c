"""Finds the definitions of a source file: their names, and the rows from the comment above them to their end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tree_sitter import Node, Parser

from knowledge.extract.code.grammars import GRAMMARS, SECOND_GRAMMARS, Grammar

MAX_DEPTH = 24
MAX_NAME_CHARS = 120
MAX_ERROR_SHARE = 0.3
"""Above this share of the text inside of syntax errors, a file is not read by structure."""
NAME_FIELDS = ("name", "type", "declarator", "left", "key", "property")
DECLARATORS = frozenset({
    "function_declarator", "pointer_declarator", "reference_declarator", "parenthesized_declarator",
    "array_declarator", "init_declarator", "attributed_declarator",
})  # fmt: skip
NAME_NODES = frozenset({
    "identifier", "type_identifier", "simple_identifier", "field_identifier", "property_identifier", "constant",
    "qualified_identifier", "object_reference", "word", "namespace_name", "dotted_name", "scoped_identifier",
    "package_identifier", "user_type", "qualified_name",
})  # fmt: skip
FUNCTION_VALUES = frozenset({
    "arrow_function", "function_expression", "generator_function", "class", "function", "call_expression",
})  # fmt: skip
"""Values that make a variable, a property or an assignment of JavaScript a definition."""
VALUE_NODES = frozenset({"variable_declarator", "assignment_expression", "pair", "field_definition",
                         "public_field_definition"})  # fmt: skip
BODY_NODES = frozenset({"field_declaration_list", "enumerator_list"})
WRAPPERS = frozenset({
    "decorated_definition", "export_statement", "ambient_declaration", "lexical_declaration", "variable_declaration",
    "expression_statement", "template_declaration", "statement",
})  # fmt: skip
"""Statements around one definition: the comment above it stands above them."""
ABOVE = re.compile("comment|attribute|annotation|decorator|pragma|hash_bang")
"""Nodes directly above a definition that belong to it."""
SPACES = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Definition:
    name: str
    first: int
    """First row, counted from 0, of the comments and attributes above it."""
    last: int
    inner: tuple[Definition, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceTree:
    package: str | None
    """Package or namespace that the file declares."""
    definitions: tuple[Definition, ...]


def parse_source(text: str, doc_type: str) -> SourceTree | None:
    """Return the definitions of a file; None if its language has no grammar or it has too many syntax errors."""
    grammar = GRAMMARS.get(doc_type)
    if grammar is None:
        return None
    data = text.encode("utf-8", "replace")
    root, share = _parse(data, grammar)
    second = SECOND_GRAMMARS.get(doc_type)
    if share and second is not None:
        other, other_share = _parse(data, second)
        if other_share < share:
            grammar, root, share = second, other, other_share
    if share > MAX_ERROR_SHARE:
        return None
    return SourceTree(_find_package(root, grammar), tuple(_list_definitions(root, grammar)))


def _parse(data: bytes, grammar: Grammar) -> tuple[Node, float]:
    root = Parser(grammar.load()).parse(data).root_node
    return root, sum(_list_error_sizes(root)) / max(len(data), 1)


def _list_error_sizes(root: Node) -> Iterator[int]:
    """Yield the sizes in bytes of the outermost syntax errors."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.is_error:
            yield node.end_byte - node.start_byte
        elif node.has_error:
            waiting += node.children


def _find_package(root: Node, grammar: Grammar) -> str | None:
    for node in root.children:
        if node.type in grammar.packages and node.child_by_field_name("body") is None:
            return _read_name(node)
    return None


def _list_definitions(
    parent: Node, grammar: Grammar, anchor: Node | None = None, depth: int = 0
) -> Iterator[Definition]:
    """Yield the definitions below a node; `anchor` is the statement around it, such as an `export`."""
    if depth > MAX_DEPTH:
        return
    for node in parent.named_children:
        start = node if anchor is None else anchor
        if node.type in grammar.packages:
            yield from _list_definitions(node, grammar, None, depth + 1)
        elif node.type in grammar.containers or node.type in grammar.leaves:
            definition = _make_definition(node, start, grammar, depth)
            if definition is not None:
                yield definition
            elif _leads_to_definitions(node):
                yield from _list_definitions(node, grammar, start, depth + 1)
        elif node.type in grammar.transparent:
            yield from _list_definitions(node, grammar, start if node.type in WRAPPERS else None, depth + 1)


def _make_definition(node: Node, anchor: Node, grammar: Grammar, depth: int) -> Definition | None:
    if not _is_definition(node):
        return None
    name = _read_name(node)
    if not name:
        return None
    inner: Sequence[Definition] = ()
    if node.type in grammar.containers:
        inner = tuple(_list_definitions(node, grammar, None, depth + 1))
    return Definition(name, _find_first_row(anchor), _find_last_row(anchor), tuple(inner))


def _is_definition(node: Node) -> bool:
    """Whether a node that may be a definition is one: variables only with functions, types only with a body."""
    if node.type in VALUE_NODES:
        value = node.child_by_field_name("value") or node.child_by_field_name("right")
        return value is not None and value.type in FUNCTION_VALUES and value.start_point.row < value.end_point.row
    if node.type in ("struct_specifier", "union_specifier", "enum_specifier", "class_specifier"):
        return any(child.type in BODY_NODES for child in node.children)
    if node.type == "declaration":
        return _has_function_declarator(node)
    if node.type == "type_definition":
        return node.start_point.row < node.end_point.row
    return True


def _has_function_declarator(node: Node) -> bool:
    inside = node.child_by_field_name("declarator")
    while inside is not None and inside.type in DECLARATORS:
        if inside.type == "function_declarator":
            return True
        inside = inside.child_by_field_name("declarator")
    return False


def _leads_to_definitions(node: Node) -> bool:
    """Whether a node that is no definition itself may contain some: `const api = {...}`, `struct {...} x;`."""
    return node.type in ("declaration", "variable_declarator", "assignment_expression", "pair")


def _find_first_row(node: Node) -> int:
    """Return the row of the first comment or attribute that stands directly above a definition."""
    first = node.start_point.row
    above = node.prev_named_sibling
    while above is not None and ABOVE.search(above.type) and _find_last_row(above) in (first - 1, first):
        before = above.prev_named_sibling
        if before is not None and before.end_point.row == above.start_point.row and not ABOVE.search(before.type):
            break  # a comment at the end of the line of another statement
        first, above = min(first, above.start_point.row), before
    return first


def _find_last_row(node: Node) -> int:
    """Return the last row of a node, without that on which only its final line break ends."""
    end = node.end_point
    return end.row - 1 if end.column == 0 and end.row > node.start_point.row else end.row


# -- names --------------------------------------------------------------------------------------


def _read_name(node: Node) -> str:
    name = _find_name_text(node)
    if node.type == "method_declaration" and (receiver := node.child_by_field_name("receiver")) is not None:
        owner = _read_text(receiver).strip("()").partition("[")[0].rpartition(" ")[2].lstrip("*")  # (s *Server[T])
        name = f"{owner}.{name}" if owner else name
    if node.type == "impl_item" and (trait := node.child_by_field_name("trait")) is not None:
        name = f"{_read_text(trait)} for {name}"
    return name[:MAX_NAME_CHARS]


def _find_name_text(node: Node) -> str:
    for field in NAME_FIELDS:
        found = node.child_by_field_name(field)
        while found is not None and found.type in DECLARATORS:
            found = found.child_by_field_name("declarator") or next(iter(found.named_children), None)
        if found is not None and (field != "type" or node.type == "impl_item"):
            return _read_text(found)
    for child in node.named_children:
        if child.type in NAME_NODES:
            return _read_text(child)
        if child.type in ("type_spec", "type_alias"):  # Go: type ( A struct {...} )
            return _find_name_text(child)
    return "init" if node.type.startswith(("init", "secondary_constructor")) else ""


def _read_text(node: Node) -> str:
    return SPACES.sub(" ", (node.text or b"").decode("utf-8", "replace")).strip()
