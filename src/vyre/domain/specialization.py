"""Specialization values: constants chosen at launch, and the injective bytes from which executable keys are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from typing import Any, Final, TypeAlias

from vyre.domain.arguments import expect
from vyre.domain.errors import InvalidConfig
from vyre.domain.frozen import frozen
from vyre.domain.ir.bits import argument_bits
from vyre.domain.ir.expr import Literal, SpecConst
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.numpy_scalars import python_number
from vyre.domain.ir.program import Program, kept_with_program
from vyre.domain.ir.types import DataType, ReservedType, ScalarType, TypeArg
from vyre.domain.ir.walk import unique_expressions
from vyre.domain.printable import kind_of, shown


class SpecKind(Enum):
    """The kind of a specialization value; its number is the first byte of ``SpecValue.canonical_bytes``."""

    U32 = 0
    I32 = 1
    F32 = 2
    BOOL = 3
    DTYPE = 4


SPEC_SCALARS: Final[dict[SpecKind, ScalarType]] = {
    SpecKind.U32: ScalarType.U32,
    SpecKind.I32: ScalarType.I32,
    SpecKind.F32: ScalarType.F32,
    SpecKind.BOOL: ScalarType.BOOL,
}
_KIND_OF: Final = {scalar: kind for kind, scalar in SPEC_SCALARS.items()}


@frozen
class SpecValue:
    """One constant: the bit pattern of a scalar, or a data type.  Values are equal when kind and bits are equal.

    The class methods ``u32 i32 f32 bool_ dtype`` construct it; a number that does not fit raises ``InvalidConfig``.
    """

    kind: SpecKind
    bits: int = 0
    data_type: DataType | None = None

    def __post_init__(self) -> None:
        expect("kind", self.kind, SpecKind, "a SpecKind")
        if self.kind is SpecKind.DTYPE:
            expect("data_type", self.data_type, (ScalarType, ReservedType), "a data type")
        elif self.data_type is not None:
            raise InvalidConfig(f"a {self.kind.name.lower()} with a data type", fix="use SpecValue.dtype.")
        _checked(self.bits, 32, "bits")

    @classmethod
    def scalar(cls, dtype: ScalarType, value: int | float | bool) -> SpecValue:
        """Returns ``value`` as ``dtype``, one of u32 i32 f32 bool, by the rules for a parameter of that type."""
        expect("dtype", dtype, ScalarType, "u32, i32, f32 or bool")
        kind = _KIND_OF.get(dtype)
        if kind is None:
            raise _no_constant(dtype)
        try:
            return cls(kind, argument_bits(dtype, value))
        except ValueError as error:
            raise InvalidConfig(str(error)) from None

    @classmethod
    def u32(cls, value: int) -> SpecValue:
        """Returns a u32 constant."""
        return cls.scalar(ScalarType.U32, value)

    @classmethod
    def i32(cls, value: int) -> SpecValue:
        """Returns an i32 constant."""
        return cls.scalar(ScalarType.I32, value)

    @classmethod
    def f32(cls, value: float) -> SpecValue:
        """Returns an f32 constant, rounded to nearest even."""
        return cls.scalar(ScalarType.F32, value)

    @classmethod
    def bool_(cls, value: bool) -> SpecValue:
        """Returns a bool constant."""
        return cls.scalar(ScalarType.BOOL, value)

    @classmethod
    def dtype(cls, value: DataType) -> SpecValue:
        """Returns a constant that is a data type."""
        expect("value", value, (ScalarType, ReservedType), "a data type")
        return cls(SpecKind.DTYPE, data_type=value)

    @classmethod
    def of(cls, value: SpecValue | DataType | int | float | bool) -> SpecValue:
        """Returns a plain Python or NumPy value by the builder's rule: an int is u32, a float f32, a bool bool."""
        if isinstance(value, SpecValue):
            return value
        if isinstance(value, ScalarType | ReservedType):
            return cls.dtype(value)
        number = python_number(value)
        if isinstance(number, bool):
            return cls.bool_(number)
        return cls.u32(number) if isinstance(number, int) else cls.f32(number)

    def as_literal(self) -> Literal:
        """Returns the scalar as an IR literal; raises ``InvalidConfig`` for a data type."""
        if self.data_type is not None:
            raise InvalidConfig("a data type is no value of a SpecConst", fix="pass a u32, i32, f32 or bool.")
        return Literal(SPEC_SCALARS[self.kind], self.bits)

    @classmethod
    def from_literal(cls, literal: Literal) -> SpecValue:
        """Returns the value of a literal, the inverse of ``as_literal``; raises ``InvalidConfig`` for other types."""
        expect("literal", literal, Literal, "a literal")
        kind = _KIND_OF.get(literal.dtype)
        if kind is None:
            raise _no_constant(literal.dtype)
        return cls(kind, literal.bits)

    def canonical_bytes(self) -> bytes:
        """Returns an injective encoding, with the full structure of a data type."""
        payload = self.bits.to_bytes(4, "little") if self.data_type is None else _type_bytes(self.data_type)
        return bytes((self.kind.value,)) + payload


def _no_constant(dtype: ScalarType) -> InvalidConfig:
    return InvalidConfig(f"{dtype.text} is no type of a specialization constant", fix="use u32, i32, f32 or bool.")


SpecInput: TypeAlias = SpecValue | DataType | int | float | bool


class SpecMap(Mapping[str, SpecValue]):
    """Constants by name, ordered by name, immutable and hashable.

    It is built from a mapping or pairs; a later pair replaces an earlier one of the same name.
    """

    __slots__ = ("_entries", "_hash")

    def __init__(self, entries: Mapping[str, SpecInput] | Iterable[tuple[str, SpecInput]] = (), /) -> None:
        values = _entries_of(entries)
        self._entries: Final = {name: _value_of(name, SpecValue.of, values[name]) for name in sorted(values)}
        self._hash: Final = hash(tuple(self._entries.items()))

    def with_value(self, name: str, value: SpecInput) -> SpecMap:
        """Returns a map with ``name`` inserted or replaced."""
        expect("name", name, str, "the name of a constant")
        return SpecMap({**self._entries, name: value})

    def __getitem__(self, name: str) -> SpecValue:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        return self._entries == other._entries if isinstance(other, SpecMap) else NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[SpecMap], tuple[dict[str, SpecValue]]]:
        return SpecMap, (self._entries,)

    def __repr__(self) -> str:
        return f"SpecMap({self._entries!r})"

    def canonical_bytes(self) -> bytes:
        """Returns an injective encoding: the count, then each name and value in a length frame."""
        entries = [(name.encode("utf-8", "surrogatepass"), value) for name, value in self._entries.items()]  # any str
        frames = [_frame(name) + _frame(value.canonical_bytes()) for name, value in entries]
        return len(frames).to_bytes(8, "little") + b"".join(frames)


def _value_of(name: str, make: Callable[[Any], SpecValue], value: SpecInput) -> SpecValue:
    try:
        return make(value)
    except InvalidConfig as error:
        raise InvalidConfig(f"specialization constant {name!r}: {error.message}", fix=error.fix) from None


def _entries_of(entries: object) -> dict[str, SpecInput]:
    try:
        values: dict[str, SpecInput] = dict(entries)  # type: ignore[call-overload]  # anything else is refused
    except (TypeError, ValueError):
        raise InvalidConfig(
            f"spec={shown(entries)} is {kind_of(entries)}, not values by name",
            fix="pass a mapping from names to values, or pairs.",
        ) from None
    for name in values:
        expect("the name of a constant", name, str, "a string")
    return values


def written_spec(canonical: bytes) -> dict[str, str]:
    """Returns the content of ``SpecMap.canonical_bytes`` for people: ``u32 0x10`` by name, and a data type's
    encoding.

    Raises ``ValueError`` for other bytes.
    """
    offset, spec = 8, {}
    for _ in range(int.from_bytes(canonical[:8], "little")):
        name, offset = _unframe(canonical, offset)
        value, offset = _unframe(canonical, offset)
        kind = SpecKind(value[0]) if value else None
        if kind is None or (kind is not SpecKind.DTYPE and len(value) != 5):
            raise ValueError("no value of a specialization constant")
        bits = value[1:].hex() if kind is SpecKind.DTYPE else f"{int.from_bytes(value[1:], 'little'):#x}"
        spec[name.decode("utf-8", "surrogatepass")] = f"{kind.name.lower()} {bits}"
    if offset != len(canonical):
        raise ValueError("bytes follow the last constant")
    return spec


def resolve_spec(program: Program, values: Mapping[str, SpecInput]) -> SpecMap:
    """Returns ``values`` typed by the program's constants: a plain number takes the type of the default.

    Raises ``InvalidConfig`` for an unknown name, a wrong type, or a number that does not fit.
    """
    expect("spec", values, Mapping, "a mapping from names to values")
    constants = spec_constants(program)
    resolved: dict[str, SpecValue] = {}
    for name, value in values.items():
        default = constants.get(name)
        if default is None:
            known = ", ".join(map(repr, sorted(constants))) or "none"
            raise InvalidConfig(
                f"the program has no specialization constant {shown(name)} (it has: {known})", fix="drop or rename it."
            )
        is_typed = isinstance(value, SpecValue | ScalarType | ReservedType)
        make = SpecValue.of if is_typed else partial(SpecValue.scalar, default.dtype)
        typed = _value_of(name, make, value)
        if typed.data_type is not None or SPEC_SCALARS[typed.kind] is not default.dtype:
            raise InvalidConfig(
                f"specialization constant {name!r} is {default.dtype.text}, got {typed.kind.name.lower()}",
                fix=f"pass SpecValue.{'bool_' if default.dtype is ScalarType.BOOL else default.dtype.text}(...).",
            )
        resolved[name] = typed
    return SpecMap(resolved)


@kept_with_program("spec_constants")
def spec_constants(program: Program) -> Mapping[str, Literal]:
    """Returns the program's specialization constants and their defaults, in order of first use."""
    if SpecConst not in node_facts(program).types:
        return {}
    return {node.name: node.default for node in unique_expressions(program) if isinstance(node, SpecConst)}


def spec_literals(program: Program, spec: Mapping[str, SpecInput] | None) -> dict[str, Literal]:
    """Returns a value for every constant of the program: the default unless ``spec`` gives another.

    Raises ``InvalidConfig`` as ``resolve_spec`` does.
    """
    literals = dict(spec_constants(program))
    if spec is not None:
        literals |= {name: value.as_literal() for name, value in resolve_spec(program, spec).items()}
    return literals


def complete_spec(program: Program, spec: Mapping[str, SpecInput] | None) -> SpecMap:
    """Returns ``spec_literals`` as a map for keys, in which an omitted constant equals one given as its default."""
    return spec_of(spec_literals(program, spec))


def spec_of(literals: Mapping[str, Literal]) -> SpecMap:
    """Returns the map of these literals."""
    return SpecMap({name: SpecValue.from_literal(value) for name, value in literals.items()})


def _checked(value: int, bits: int, name: str) -> int:
    expect(name, value, int, "an int")
    if not 0 <= value < 1 << bits:
        raise InvalidConfig(f"{name}={shown(value)} does not fit {bits} unsigned bits", fix=f"use 0..2**{bits}-1.")
    return value


def _frame(data: bytes) -> bytes:
    return len(data).to_bytes(8, "little") + data


def _unframe(data: bytes, offset: int) -> tuple[bytes, int]:
    """Returns the framed item at ``offset``, and the offset of its end."""
    start = offset + 8
    end = start + int.from_bytes(data[offset:start], "little")
    if end > len(data):
        raise ValueError("it ends early")
    return data[start:end], end


def _type_bytes(dtype: DataType) -> bytes:
    args = dtype.args if isinstance(dtype, ReservedType) else ()
    return dtype.tag.to_bytes(4, "little") + len(args).to_bytes(4, "little") + b"".join(map(_arg_bytes, args))


def _arg_bytes(arg: TypeArg) -> bytes:
    match arg:
        case ScalarType() | ReservedType():
            return b"t" + _frame(_type_bytes(arg))
        case tuple():
            return b"s" + _frame(b"".join(_arg_bytes(item) for item in arg))
        case int():
            return b"i" + _frame(str(arg).encode())
        case str():
            return b"n" + _frame(arg.encode())
