"""Many rows as one parameter: JSON that the database itself reads, so that a statement is the same for any number.

Bytes travel as text, and have to be UTF-8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Float,
    Integer,
    LargeBinary,
    Subquery,
    Text,
    bindparam,
    cast,
    column,
    func,
    select,
)
from sqlalchemy.dialects.postgresql import JSON

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy.types import TypeEngine

_PARAMETER = "given_rows"
_NUMBERS = (Integer, BigInteger, Float)


def as_given(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the parameter of a statement with `given` in it."""
    return {_PARAMETER: orjson.dumps(list(rows), default=bytes.decode).decode()}


def given(dialect: str, **columns: TypeEngine[Any]) -> Subquery:
    """Return the rows that `as_given` is to bring, as a table of these columns. dialect: sqlite or postgresql."""
    text = bindparam(_PARAMETER, type_=Text())
    fields: list[ColumnElement[Any]]
    if dialect == "sqlite":
        each = func.json_each(text).table_valued("value", name="each_given")
        fields = [_of_sqlite(func.json_extract(each.c.value, f"$.{name}"), kind) for name, kind in columns.items()]
    else:
        told = [column(name, kind if isinstance(kind, _NUMBERS) else Text()) for name, kind in columns.items()]
        each = func.json_to_recordset(cast(text, JSON)).table_valued(*told, name="each_given")
        each = each.render_derived(with_types=True)
        fields = [_of_postgresql(each.c[name], kind) for name, kind in columns.items()]
    return select(*(field.label(name) for field, name in zip(fields, columns, strict=True))).subquery("given")


def _of_sqlite(value: ColumnElement[Any], kind: TypeEngine[Any]) -> ColumnElement[Any]:
    return cast(value, kind) if isinstance(kind, LargeBinary) else value


def _of_postgresql(value: ColumnElement[Any], kind: TypeEngine[Any]) -> ColumnElement[Any]:
    return func.convert_to(value, "UTF8") if isinstance(kind, LargeBinary) else value
