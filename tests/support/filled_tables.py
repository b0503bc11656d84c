"""Fills every table of a schema with made-up rows, whatever tables and columns it has."""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import JSON, Boolean, Column, Connection, Float, Integer, LargeBinary, Uuid, insert

from knowledge.store import schema

FIRST_ID = 1000
HARD_TEXTS = ("plain", "Ünïcode 漢字 \U0001f600", "tab\tline\nback\\slash 'quote' \"double\"", "\\N", "", "zz")


def fill_tables(connection: Connection, rows: int = 3) -> dict[str, int]:
    """Insert rows into every table, with valid references, and return their number by table."""
    for table in schema.metadata.sorted_tables:
        connection.execute(table.delete())
    for table in schema.metadata.sorted_tables:
        made = [{column.name: make_value(column, number) for column in table.columns} for number in range(rows)]
        connection.execute(insert(table), made)
    return {table.name: rows for table in schema.metadata.sorted_tables}


def make_value(column: Column[Any], number: int) -> Any:
    """Return a value that is unique in its column, and the same for columns that refer to each other."""
    if column.foreign_keys or (column.primary_key and isinstance(column.type, Integer)):
        return FIRST_ID + number
    match column.type:
        case Boolean():
            return number % 2 == 1
        case Integer():
            return FIRST_ID + number
        case Float():
            return number / 3
        case Uuid():
            return uuid.UUID(int=number + 1)
        case LargeBinary():
            return bytes([number]) * 16 + b"\x00\\x\n"
        case JSON():
            return [None, {"text": HARD_TEXTS[number % len(HARD_TEXTS)]}, []][number % 3]
        case _:
            return f"{number}{HARD_TEXTS[number % len(HARD_TEXTS)]}"
