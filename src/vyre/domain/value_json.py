"""Frozen values as JSON and back, by reflection over their types.

Records and named tuples are objects whose ``$type`` is the name of their class, tuples and sets are lists (those of
sets sorted), mappings are lists of pairs, enums names, bytes hexadecimal digits, and a ``Reason`` or an ``OperatorAt``
is its text.
Floats are numbers, or ``"nan"``, ``"inf"`` and ``"-inf"``.

Writing needs only a value.  Reading needs its type, and refuses everything that is not written for that type.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Annotated, Any, Final, NewType, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from vyre.domain.errors import InvalidField, MalformedJson, VyreError
from vyre.domain.ir.operators import ATOMIC, BINARY, SUBGROUP, UNARY, OperatorAt
from vyre.domain.ir.types import ScalarType
from vyre.domain.record import Reason
from vyre.domain.strict_json import MAX_DEPTH, MAX_DIGITS, canonical

Json: TypeAlias = Any
TYPE: Final = "$type"
MAX_VALUE_DEPTH: Final = MAX_DEPTH - 2
"""The largest number of records and collections that may enclose a value; the document around it adds its own."""


# ---- writing
def to_json(value: object) -> Json:
    """Returns ``value`` as JSON.

    Raises ``InvalidField`` for values without a written form, such as state or a function, and for values nested
    beyond the depth that can be read.
    """
    return _document(value, 0)


def _document(value: object, depth: int) -> Json:
    if value is None or type(value) in (bool, str) or (type(value) is int and abs(value) <= _LARGEST):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Reason | OperatorAt):
        return str(value)
    if depth >= MAX_VALUE_DEPTH - isinstance(value, Mapping):  # a mapping is a list of lists
        raise InvalidField(
            record=type(value).__name__, field="value", value="...", expected=f"nested at most {MAX_VALUE_DEPTH} deep"
        )
    below = depth + 1
    if _is_record(type(value)):
        cls: Any = type(value)
        return {TYPE: cls.__name__} | {name: _document(getattr(value, name), below) for name in _written(cls)}
    if isinstance(value, tuple | list):
        return [_document(item, below) for item in value]
    if isinstance(value, Set):
        return sorted((_document(item, below) for item in value), key=canonical)
    if isinstance(value, Mapping):
        items = ([_document(name, below + 1), _document(item, below + 1)] for name, item in value.items())
        return sorted(items, key=canonical)
    raise InvalidField(
        record=type(value).__name__, field="value", value=value, expected="a record, a number, a text or made of them"
    )


def _is_record(cls: Any) -> bool:
    return isinstance(cls, type) and (is_dataclass(cls) or hasattr(cls, "_fields"))


@cache
def _written(cls: Any) -> tuple[str, ...]:
    """Returns the names of the fields that determine a value, in order."""
    return tuple(f.name for f in fields(cls) if f.init) if is_dataclass(cls) else cls._fields


# ---- reading
def from_json(hint: Any, document: Json, path: str = "$") -> Any:
    """Returns the value of type ``hint`` that is written as ``document``; raises ``MalformedJson`` if there is none.

    Missing fields take their defaults, so that records written before a field was added can be read.
    """
    if isinstance(hint, NewType):
        hint = hint.__supertype__
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return from_json(args[0], document, path)
    if origin in (Union, types.UnionType):
        return _one_of(args, document, path)
    if hint is Any or hint is object or isinstance(hint, TypeVar):
        return _plain(document, path)
    if hint is None or hint is types.NoneType:
        return _checked(document is None, document, None, "null", path)
    reader = _SCALARS.get(hint)
    if reader is not None:
        return reader(document, path)
    cls = origin or hint
    if _is_record(cls):
        return _record(cls, document, path)
    if isinstance(cls, type) and issubclass(cls, Enum):
        names = cls.__members__
        known = isinstance(document, str) and document in names
        return names[document] if known else _refuse(document, f"one of {', '.join(names)}", path)
    return _collection(cls, args, document, path)


def _collection(cls: Any, args: tuple[Any, ...], document: Json, path: str) -> Any:
    if not isinstance(cls, type) or not issubclass(cls, Iterable):
        raise InvalidField(record="from_json", field="hint", value=cls, expected="a type with a written form")
    if not isinstance(document, list):
        return _refuse(document, "a list", path)
    if issubclass(cls, Mapping):
        pairs = (from_json(tuple[args], item, f"{path}[{place}]") for place, item in enumerate(document))  # type: ignore[valid-type]
        return _unique(dict(pairs), document, path)
    if cls is tuple and args[-1:] != (...,):
        if len(document) != len(args):
            return _refuse(document, f"a list of {len(args)}", path)
        return tuple(from_json(hint, document[place], f"{path}[{place}]") for place, hint in enumerate(args))
    items = (from_json(args[0], item, f"{path}[{place}]") for place, item in enumerate(document))
    return _unique(frozenset(items), document, path) if issubclass(cls, Set) else tuple(items)


def _unique(values: Any, document: list[Json], path: str) -> Any:
    return _checked(len(values) == len(document), document, values, "a list without duplicates", path)


def _record(cls: Any, document: Json, path: str) -> Any:
    if not isinstance(document, dict) or document.get(TYPE) != cls.__name__:
        return _refuse(document, f"an object whose {TYPE} is {cls.__name__}", path)
    hints, names = _hints(cls), _written(cls)
    if unknown := sorted(document.keys() - {TYPE, *names}):
        raise MalformedJson(f"{cls.__name__} has no field `{unknown[0]}`", fix=_FIX, path=path)
    if missing := sorted(_required(cls) - document.keys()):
        raise MalformedJson(f"{cls.__name__} needs the field `{missing[0]}`", fix=_FIX, path=path)
    values = {n: from_json(hints[n], document[n], f"{path}.{n}") for n in names if n in document}
    try:
        return cls(**values)
    except VyreError as error:  # a value outside its domain
        raise MalformedJson(error.message, fix=error.fix, path=path) from None


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


@cache
def _required(cls: Any) -> frozenset[str]:
    """Returns the names of the fields without a default."""
    if is_dataclass(cls):
        optional = {f.name for f in fields(cls) if f.default is not MISSING or f.default_factory is not MISSING}
    else:
        optional = set(cls._field_defaults)
    return frozenset(_written(cls)) - optional


def _one_of(hints: tuple[Any, ...], document: Json, path: str) -> Any:
    """Returns the value by the first hint that accepts it.

    An object is read as the type that it names, so that the error is about that type.
    """
    if isinstance(document, dict):
        named = [hint for hint in hints if getattr(get_origin(hint) or hint, "__name__", "") == document.get(TYPE)]
        hints = tuple(named or hints)
    for hint in hints[:-1]:
        try:
            return from_json(hint, document, path)
        except MalformedJson:
            continue
    return from_json(hints[-1], document, path)


def _plain(document: Json, path: str) -> Any:
    """Returns a value that can be read without a type."""
    if isinstance(document, list):
        return tuple(_plain(item, f"{path}[{place}]") for place, item in enumerate(document))
    return _checked(not isinstance(document, dict), document, document, "a number, a text or a list", path)


def _exactly(cls: type, name: str) -> Callable[[Json, str], Any]:
    return lambda document, path: _checked(type(document) is cls, document, document, name, path)


def _float(document: Json, path: str) -> float:
    if type(document) is str and document in _NOT_FINITE:
        return float(document)
    value: float = _checked(type(document) in (float, int), document, document, "a number", path)
    return value


def _bytes(document: Json, path: str) -> bytes:
    try:
        data = bytes.fromhex(document)
    except (TypeError, ValueError):
        data = None
    value: bytes = _checked(data is not None and data.hex() == document, document, data, "hexadecimal digits", path)
    return value


def _reason(document: Json, path: str) -> Reason:
    return Reason("{}", (_checked(type(document) is str, document, document, "a text", path),))


@cache
def _operator_of() -> dict[str, OperatorAt]:
    every = (OperatorAt(op, dtype) for rows in (BINARY, UNARY, SUBGROUP, ATOMIC) for op in rows for dtype in ScalarType)
    return {str(operator): operator for operator in every}


def _operator(document: Json, path: str) -> OperatorAt:
    operator = _operator_of().get(document) if type(document) is str else None
    operator_at: OperatorAt = _checked(operator is not None, document, operator, "an operator with a type", path)
    return operator_at


def _checked(holds: bool, document: Json, value: Any, expected: str, path: str) -> Any:
    return value if holds else _refuse(document, expected, path)


def _refuse(document: Json, expected: str, path: str) -> Any:
    shown = canonical(document)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
    raise MalformedJson(f"{shown} is not {expected}", fix=_FIX, path=path)


_FIX: Final = "use the text as it was written."
_LARGEST: Final = 10**MAX_DIGITS - 1
_SHOWN: Final = 60
_NOT_FINITE: Final = ("nan", "inf", "-inf")
_SCALARS: Final[dict[Any, Callable[[Json, str], Any]]] = {
    bool: _exactly(bool, "true or false"),
    int: _exactly(int, "an integer"),
    str: _exactly(str, "a text"),
    float: _float,
    bytes: _bytes,
    Reason: _reason,
    OperatorAt: _operator,
}
