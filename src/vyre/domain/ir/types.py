"""Element and value types of the IR.

Fourteen scalar types can be stored in buffers; expressions can have seven of them (``ScalarType.is_executable``).
Every other type of vyre-driver, the Rust system, is a ``ReservedType``: it has a stable tag, so that specialization
keys and imported programs can name it, and no meaning in vyre.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, Union

from vyre.domain.frozen import frozen
from vyre.domain.identity_enum import IdentityEnum
from vyre.domain.lazy_names import FunctionAbove

if TYPE_CHECKING:
    from vyre.domain.ir.typed_values import TypeOfValues
else:
    TypeOfValues = IdentityEnum


class ValueOfKernel:
    """The base of values of a kernel under construction, by which a type knows them."""

    __slots__ = ()


class TypeKind(Enum):
    """The family of arithmetic to which a scalar type belongs."""

    UNSIGNED = "unsigned"
    SIGNED = "signed"
    FLOAT = "float"
    BOOL = "bool"


class ScalarType(TypeOfValues):
    """A scalar type; the value is its stable tag on the wire and in specialization keys."""

    U32 = 0x01
    I32 = 0x02
    U64 = 0x03
    BOOL = 0x06
    F16 = 0x09
    BF16 = 0x0A
    F32 = 0x0B
    F64 = 0x0C
    U8 = 0x0E
    U16 = 0x0F
    I8 = 0x10
    I16 = 0x11
    I64 = 0x12
    BOOL8 = 0x20

    @property
    def tag(self) -> int:
        """Returns the stable numeric tag (wire, specialization keys)."""
        return int(self.value)

    @property
    def text(self) -> str:
        """Returns the spelling in ``.vyre`` text, e.g. ``"u32"``."""
        return _FACTS[self].text

    @property
    def size(self) -> int:
        """Returns the number of bytes of one element in a buffer (``bool`` is a 4-byte word, ``bool8`` a byte)."""
        return _FACTS[self].size

    @property
    def bits(self) -> int:
        """Returns the width of the value in bits (``bool`` occupies a 32-bit word)."""
        return _FACTS[self].size * 8

    @property
    def kind(self) -> TypeKind:
        """Returns the family of arithmetic."""
        return _FACTS[self].kind

    @property
    def numpy_name(self) -> str:
        """Returns the NumPy type string of a host array of this element, little-endian (bf16 is raw ``<u2``)."""
        return _FACTS[self].numpy_name

    @property
    def widened(self) -> ScalarType:
        """Returns the executable type of a loaded element: narrow types widen, others stay as they are."""
        return _FACTS[self].widened or self

    @property
    def is_executable(self) -> bool:
        """Whether expressions can have this type."""
        return _FACTS[self].widened is None

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer type."""
        return _FACTS[self].kind in (TypeKind.UNSIGNED, TypeKind.SIGNED)

    @property
    def is_signed(self) -> bool:
        """Whether it is a signed integer type."""
        return _FACTS[self].kind is TypeKind.SIGNED

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return _FACTS[self].kind is TypeKind.FLOAT

    if not TYPE_CHECKING:  # for type checkers these are methods of a metaclass, ``TypeOfValues``

        def __call__(self, value: object) -> ValueOfKernel:
            """Returns a literal of this type for the builder: ``i32(4)``.  Raises ``BuildError`` out of range."""
            return _literal(self, value)

        def __or__(self, other: object) -> object:
            """Returns the union for an annotation that is evaluated, such as ``f32 | None``."""
            # The operator of a value refuses a type.
            return NotImplemented if isinstance(other, ValueOfKernel) else Union[self, other]  # noqa: UP007

        def __ror__(self, other: object) -> object:
            return NotImplemented if isinstance(other, ValueOfKernel) else Union[other, self]  # noqa: UP007

    def __repr__(self) -> str:
        return _FACTS[self].text

    __str__ = __repr__


_literal: Final[FunctionAbove[[ScalarType, object], ValueOfKernel]] = FunctionAbove("ScalarType.__call__")


class _Facts(NamedTuple):
    text: str
    size: int
    kind: TypeKind
    numpy_name: str
    widened: ScalarType | None = None


_S = ScalarType
_FACTS: Final[dict[ScalarType, _Facts]] = {
    _S.U32: _Facts("u32", 4, TypeKind.UNSIGNED, "<u4"),
    _S.I32: _Facts("i32", 4, TypeKind.SIGNED, "<i4"),
    _S.U64: _Facts("u64", 8, TypeKind.UNSIGNED, "<u8"),
    _S.I64: _Facts("i64", 8, TypeKind.SIGNED, "<i8"),
    _S.F32: _Facts("f32", 4, TypeKind.FLOAT, "<f4"),
    _S.F64: _Facts("f64", 8, TypeKind.FLOAT, "<f8"),
    _S.BOOL: _Facts("bool", 4, TypeKind.BOOL, "<u4"),
    _S.U8: _Facts("u8", 1, TypeKind.UNSIGNED, "|u1", _S.U32),
    _S.U16: _Facts("u16", 2, TypeKind.UNSIGNED, "<u2", _S.U32),
    _S.I8: _Facts("i8", 1, TypeKind.SIGNED, "|i1", _S.I32),
    _S.I16: _Facts("i16", 2, TypeKind.SIGNED, "<i2", _S.I32),
    _S.F16: _Facts("f16", 2, TypeKind.FLOAT, "<f2", _S.F32),
    _S.BF16: _Facts("bf16", 2, TypeKind.FLOAT, "<u2", _S.F32),
    _S.BOOL8: _Facts("bool8", 1, TypeKind.BOOL, "|b1", _S.BOOL),
}

SCALAR_BY_TEXT: Final[dict[str, ScalarType]] = {facts.text: t for t, facts in _FACTS.items()}
"""The scalar type of each spelling in ``.vyre`` text."""
SCALAR_BY_TAG: Final[dict[int, ScalarType]] = {t.value: t for t in ScalarType}
EXECUTABLE_TYPES: Final[tuple[ScalarType, ...]] = tuple(t for t in ScalarType if t.is_executable)
"""The types that expressions can have."""
USUAL_TYPES: Final = frozenset(ScalarType) - {ScalarType.F16, ScalarType.BF16}
"""The types that every backend has, unless its profile says otherwise."""
NARROW_TYPES: Final[tuple[ScalarType, ...]] = tuple(
    t for t in ScalarType if not t.is_executable and t.kind is not TypeKind.BOOL
)
"""The types of elements that hold fewer bits than the values that loads of them give: u8 u16 i8 i16 f16 bf16."""

RESERVED_TAGS: Final[dict[str, int]] = {
    "vec2u32": 0x04,
    "vec4u32": 0x05,
    "bytes": 0x07,
    "array": 0x08,
    "tensor": 0x0D,
    "handle": 0x13,
    "vec": 0x14,
    "tensor_shaped": 0x15,
    "sparse_csr": 0x16,
    "sparse_coo": 0x17,
    "sparse_bsr": 0x18,
    "f8e4m3": 0x19,
    "f8e5m2": 0x1A,
    "i4": 0x1B,
    "fp4": 0x1C,
    "nf4": 0x1D,
    "device_mesh": 0x1E,
    "quantized": 0x1F,
    "opaque": 0x80,
}


@frozen
class ReservedType:
    """A named type without meaning in vyre; ``args`` holds its parameters in declaration order.

    Raises ``ValueError`` for a name that is not in ``RESERVED_TAGS``.
    """

    name: str
    args: tuple[TypeArg, ...] = ()

    def __post_init__(self) -> None:
        if self.name not in RESERVED_TAGS:
            raise ValueError(f"unknown reserved type {self.name!r}. Fix: use one of {sorted(RESERVED_TAGS)}")

    @property
    def tag(self) -> int:
        """Returns the stable numeric tag."""
        return RESERVED_TAGS[self.name]

    @property
    def text(self) -> str:
        """Returns the name, with its arguments in angle brackets."""
        return f"{self.name}<{';'.join(map(_arg_text, self.args))}>" if self.args else self.name


DataType: TypeAlias = ScalarType | ReservedType
"""The element type of a buffer."""
TypeArg: TypeAlias = int | str | ScalarType | ReservedType | tuple[int, ...]
"""A parameter of a reserved type."""


def _arg_text(arg: TypeArg) -> str:
    if isinstance(arg, ScalarType | ReservedType):
        return arg.text
    return "x".join(map(str, arg)) if isinstance(arg, tuple) else str(arg)


# At run time ``f32`` is the member ``ScalarType.F32``.  To type checkers it is a class, so that it can annotate
# (``def scaled(x: f32)``: x is a value of that type, which is a float, too), and ``ScalarType`` is the class of that
# class, so that it can be passed where a member is wanted (``p.input("x", f32)``).  A dict keyed by several of them is
# annotated by its user: ``bits: dict[ScalarType, int] = {f16: 16, f32: 32}``.
if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from vyre.domain.ir.typed_values import (
        bf16 as bf16, bool8 as bool8, bool_ as bool_, f16 as f16, f32 as f32, f64 as f64, i8 as i8, i16 as i16,
        i32 as i32, i64 as i64, u8 as u8, u16 as u16, u32 as u32, u64 as u64,
    )
    # fmt: on
    # isort: on
else:
    u32 = ScalarType.U32
    i32 = ScalarType.I32
    u64 = ScalarType.U64
    i64 = ScalarType.I64
    f32 = ScalarType.F32
    f64 = ScalarType.F64
    bool_ = ScalarType.BOOL
    u8 = ScalarType.U8
    u16 = ScalarType.U16
    i8 = ScalarType.I8
    i16 = ScalarType.I16
    f16 = ScalarType.F16
    bf16 = ScalarType.BF16
    bool8 = ScalarType.BOOL8
