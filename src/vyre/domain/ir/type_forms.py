"""Element types in JSON: a name, or a list of a name and its arguments."""

from __future__ import annotations

from enum import Enum
from typing import Final

from vyre.domain.ir.limits import MAX_TYPE_DEPTH, is_name_too_long
from vyre.domain.ir.types import RESERVED_TAGS, SCALAR_BY_TEXT, DataType, ReservedType, ScalarType, TypeArg


class ArgKind(Enum):
    """The kind of an argument of a reserved type."""

    INT = "an integer in 0..2^32-1"
    TYPE = "an element type"
    DIMS = "a list of integers in 0..2^32-1"
    TEXT = "a string of at most 1 MiB"


_K = ArgKind
_ARGUMENTS: Final[dict[str, tuple[ArgKind, ...]]] = {
    "array": (_K.INT,),
    "handle": (_K.INT,),
    "vec": (_K.TYPE, _K.INT),
    "tensor_shaped": (_K.TYPE, _K.DIMS),
    "sparse_csr": (_K.TYPE,),
    "sparse_coo": (_K.TYPE,),
    "sparse_bsr": (_K.TYPE, _K.INT, _K.INT),
    "device_mesh": (_K.DIMS,),
    "quantized": (_K.TYPE, _K.TEXT, _K.TEXT),
    "opaque": (_K.INT,),
}


def argument_kinds(name: str) -> tuple[ArgKind, ...]:
    """Returns the kinds of the arguments of a reserved type, in order; empty if it takes none."""
    return _ARGUMENTS.get(name, ())


def type_to_json(dtype: DataType, depth: int = 0) -> object:
    """Returns the JSON value of a type; raises ``ValueError`` if its arguments have the wrong shape."""
    if isinstance(dtype, ScalarType):
        return dtype.text
    kinds = argument_kinds(dtype.name)
    _check_depth(depth)
    if len(dtype.args) != len(kinds):
        raise ValueError(f"type {dtype.name} takes {len(kinds)} arguments, not {len(dtype.args)}")
    if not kinds:
        return dtype.name
    return [dtype.name, *(_arg_to_json(kind, arg, depth) for kind, arg in zip(kinds, dtype.args, strict=True))]


def type_from_json(value: object, depth: int = 0) -> DataType:
    """Returns the type that ``type_to_json`` wrote; raises ``ValueError``."""
    _check_depth(depth)
    if isinstance(value, str):
        name, raw_args = value, []
    elif isinstance(value, list) and value and isinstance(value[0], str):
        name, raw_args = value[0], value[1:]
    else:
        raise ValueError("an element type is a name or a list of a name and arguments")
    if name in SCALAR_BY_TEXT and isinstance(value, str):
        return SCALAR_BY_TEXT[name]
    if name not in RESERVED_TAGS:
        raise ValueError(f"unknown element type {name[:40]!r}")
    kinds = argument_kinds(name)
    if len(raw_args) != len(kinds) or (isinstance(value, list) and not kinds):
        raise ValueError(f"type {name} takes {len(kinds)} arguments")
    return ReservedType(name, tuple(_arg_from_json(k, arg, depth) for k, arg in zip(kinds, raw_args, strict=True)))


def _arg_to_json(kind: ArgKind, arg: TypeArg, depth: int) -> object:
    if kind is ArgKind.TYPE and isinstance(arg, ScalarType | ReservedType):
        return type_to_json(arg, depth + 1)
    if kind is ArgKind.DIMS and isinstance(arg, tuple) and all(_is_u32(n) for n in arg):
        return list(arg)
    if (kind is ArgKind.INT and _is_u32(arg)) or (kind is ArgKind.TEXT and _is_text(arg)):
        return arg
    raise ValueError(f"type argument {arg!r} is not {kind.value}")


def _arg_from_json(kind: ArgKind, value: object, depth: int) -> TypeArg:
    if kind is ArgKind.TYPE:
        return type_from_json(value, depth + 1)
    if kind is ArgKind.DIMS and isinstance(value, list) and all(_is_u32(n) for n in value):
        return tuple(value)
    if kind is ArgKind.INT and _is_u32(value):
        assert isinstance(value, int)
        return value
    if kind is ArgKind.TEXT and _is_text(value):
        assert isinstance(value, str)
        return value
    raise ValueError(f"an argument of a type is not {kind.value}")


def _is_u32(value: object) -> bool:
    return type(value) is int and 0 <= value <= 0xFFFF_FFFF


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not is_name_too_long(value)


def _check_depth(depth: int) -> None:
    if depth > MAX_TYPE_DEPTH:
        raise ValueError(f"element types are nested more than {MAX_TYPE_DEPTH} deep")
