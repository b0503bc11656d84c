"""The languages that are read by structure: their grammars, and the syntax nodes that are definitions."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import cast

from tree_sitter import Language


@dataclass(frozen=True, slots=True)
class Grammar:
    """A tree-sitter grammar and the names of its nodes."""

    module: str
    function: str = "language"
    """The function of the module that returns the grammar; some have several dialects."""
    leaves: frozenset[str] = frozenset()
    """Definitions that stay whole, such as functions."""
    containers: frozenset[str] = frozenset()
    """Definitions that contain others, such as classes."""
    transparent: frozenset[str] = frozenset()
    """Nodes around definitions that give no name, such as the body of a class or an `#ifdef`."""
    packages: frozenset[str] = frozenset()
    """Declarations of the package or namespace of a whole file."""

    def load(self) -> Language:
        return _load_language(self.module, self.function)


@cache
def _load_language(module: str, function: str) -> Language:
    pointer = getattr(importlib.import_module(module), function)()
    return Language(cast(object, pointer))


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


PYTHON = Grammar(
    "tree_sitter_python",
    leaves=_names("function_definition type_alias_statement"),
    containers=_names("class_definition"),
    transparent=_names("decorated_definition block if_statement else_clause elif_clause try_statement except_clause"),
)
_SCRIPT_LEAVES = "function_declaration generator_function_declaration method_definition function_signature"
_SCRIPT_TRANSPARENT = (
    "export_statement class_body statement_block if_statement ambient_declaration lexical_declaration "
    "variable_declaration expression_statement interface_body object parenthesized_expression"
)
JAVASCRIPT = Grammar(
    "tree_sitter_javascript",
    leaves=_names(f"{_SCRIPT_LEAVES} variable_declarator assignment_expression pair field_definition"),
    containers=_names("class_declaration class"),
    transparent=_names(_SCRIPT_TRANSPARENT),
)
_TYPESCRIPT_LEAVES = _names(
    f"{_SCRIPT_LEAVES} variable_declarator assignment_expression pair public_field_definition type_alias_declaration "
    "enum_declaration abstract_method_signature method_signature"
)
_TYPESCRIPT_CONTAINERS = _names(
    "class_declaration abstract_class_declaration class interface_declaration internal_module module"
)
TYPESCRIPT = Grammar(
    "tree_sitter_typescript", "language_typescript", _TYPESCRIPT_LEAVES, _TYPESCRIPT_CONTAINERS,
    _names(_SCRIPT_TRANSPARENT),
)  # fmt: skip
TSX = Grammar(
    "tree_sitter_typescript", "language_tsx", _TYPESCRIPT_LEAVES, _TYPESCRIPT_CONTAINERS, _names(_SCRIPT_TRANSPARENT)
)
GO = Grammar(
    "tree_sitter_go",
    leaves=_names("function_declaration method_declaration type_declaration"),
    packages=_names("package_clause"),
)
RUST = Grammar(
    "tree_sitter_rust",
    leaves=_names(
        "function_item function_signature_item struct_item enum_item union_item type_item macro_definition const_item "
        "static_item"
    ),
    containers=_names("impl_item trait_item mod_item"),
    transparent=_names("declaration_list foreign_mod_item"),
)
JAVA = Grammar(
    "tree_sitter_java",
    leaves=_names("method_declaration constructor_declaration compact_constructor_declaration"),
    containers=_names(
        "class_declaration interface_declaration enum_declaration record_declaration annotation_type_declaration"
    ),
    transparent=_names("class_body interface_body enum_body enum_body_declarations annotation_type_body"),
    packages=_names("package_declaration"),
)
_C_LEAVES = (
    "function_definition preproc_function_def struct_specifier union_specifier enum_specifier type_definition "
    "declaration"
)
_C_TRANSPARENT = "preproc_if preproc_ifdef preproc_else preproc_elif linkage_specification declaration_list"
C = Grammar("tree_sitter_c", leaves=_names(_C_LEAVES), transparent=_names(_C_TRANSPARENT))
CPP = Grammar(
    "tree_sitter_cpp",
    leaves=_names("function_definition preproc_function_def union_specifier enum_specifier type_definition declaration "
                  "alias_declaration concept_definition"),
    containers=_names("class_specifier struct_specifier namespace_definition"),
    transparent=_names(f"{_C_TRANSPARENT} template_declaration field_declaration_list"),
)  # fmt: skip
C_SHARP = Grammar(
    "tree_sitter_c_sharp",
    leaves=_names(
        "method_declaration constructor_declaration destructor_declaration operator_declaration property_declaration "
        "indexer_declaration conversion_operator_declaration delegate_declaration enum_declaration"
    ),
    containers=_names(
        "namespace_declaration class_declaration struct_declaration interface_declaration record_declaration "
        "record_struct_declaration"
    ),
    transparent=_names("declaration_list preproc_if preproc_region"),
    packages=_names("file_scoped_namespace_declaration"),
)
RUBY = Grammar(
    "tree_sitter_ruby",
    leaves=_names("method singleton_method"),
    containers=_names("class module singleton_class"),
    transparent=_names("body_statement"),
)
PHP = Grammar(
    "tree_sitter_php",
    "language_php",
    leaves=_names("function_definition method_declaration"),
    containers=_names("class_declaration interface_declaration trait_declaration enum_declaration"),
    transparent=_names("declaration_list enum_declaration_list compound_statement if_statement"),
    packages=_names("namespace_definition"),
)
KOTLIN = Grammar(
    "tree_sitter_kotlin",
    leaves=_names("function_declaration secondary_constructor type_alias"),
    containers=_names("class_declaration object_declaration companion_object"),
    transparent=_names("class_body enum_class_body"),
    packages=_names("package_header"),
)
SWIFT = Grammar(
    "tree_sitter_swift",
    leaves=_names(
        "function_declaration init_declaration deinit_declaration protocol_function_declaration subscript_declaration "
        "typealias_declaration"
    ),
    containers=_names("class_declaration protocol_declaration"),
    transparent=_names("class_body enum_class_body protocol_body"),
)
BASH = Grammar("tree_sitter_bash", leaves=_names("function_definition"), transparent=_names("if_statement"))
SQL = Grammar(
    "tree_sitter_sql",
    leaves=_names(
        "create_table create_view create_materialized_view create_function create_procedure create_trigger "
        "create_index create_type create_schema create_sequence alter_table create_database create_role"
    ),
    transparent=_names("statement"),
)

GRAMMARS: dict[str, Grammar] = {
    "py": PYTHON, "js": JAVASCRIPT, "jsx": JAVASCRIPT, "ts": TYPESCRIPT, "tsx": TSX, "go": GO, "rs": RUST,
    "java": JAVA, "c": C, "h": C, "cpp": CPP, "cs": C_SHARP, "rb": RUBY, "php": PHP, "kt": KOTLIN, "swift": SWIFT,
    "bash": BASH, "sh": BASH, "zsh": BASH, "sql": SQL,
}  # fmt: skip
"""Grammars by document type."""
SECOND_GRAMMARS: dict[str, Grammar] = {"h": CPP}
"""Tried if a file has syntax errors in the first grammar: headers of C and C++ have the same suffix."""
