"""The two JSON schemas of vyre-driver, the Rust system: their keys, tags and leaf spellings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from vyre.domain.errors import UnsupportedFeature
from vyre.domain.ir.json_form import BUFFER_FIELDS, by_camel_case, byte_range, hints
from vyre.domain.ir.json_tree import Leaf, boolean, brief, choice, hex_bits, integer
from vyre.domain.ir.operators import FIRST_OWN_TAG, AtomicOp, BinaryOp, Ordering, UnaryOp
from vyre.domain.ir.program import Access, BufferHints, CacheLocality, MemoryKind
from vyre.domain.ir.type_forms import argument_kinds, type_from_json
from vyre.domain.ir.types import RESERVED_TAGS, SCALAR_BY_TAG, DataType, ReservedType, ScalarType


def unsupported(feature: str) -> UnsupportedFeature:
    """Returns the error for a construct of vyre-driver that has no counterpart in vyre."""
    return UnsupportedFeature(
        feature=feature, backend="import", fix="lower it in the front end before the program is exported."
    )


class UpstreamBinary(Enum):
    """Binary operators of vyre-driver that are no operators in vyre."""

    SHUFFLE = 0x19
    BALLOT = 0x1A
    WAVE_REDUCE = 0x1B
    WAVE_BROADCAST = 0x1C
    WRAPPING_ADD = 0x1F
    WRAPPING_SUB = 0x20


class UpstreamUnary(Enum):
    """Unary operators of vyre-driver that are no operators in vyre."""

    UNPACK4_LOW = 0x20
    UNPACK4_HIGH = 0x21
    UNPACK8_LOW = 0x22
    UNPACK8_HIGH = 0x23


class UpstreamAtomic(Enum):
    """Atomic operators of vyre-driver that are no operators in vyre."""

    COMPARE_EXCHANGE_WEAK = 9
    LRU_UPDATE = 11


class Schema(NamedTuple):
    """One JSON schema.  ``keys`` and ``tags`` map its words to those of the named schema where they differ."""

    keys: Mapping[str, str]
    tags: Mapping[str, str]
    buffer_fields: Mapping[str, Leaf]
    hints: Leaf
    binary: Leaf
    unary: Leaf
    atomic: Leaf
    ordering: Leaf
    dtype: Leaf
    float_bits: Callable[[int], Leaf]
    ordering_precedes_buffer: bool
    """Whether the ordering of an atomic is written before its buffer."""


_OWN: Final[frozenset[Enum]] = frozenset(
    {
        ScalarType.BOOL8,
        Access.PRIVATE,
        MemoryKind.PRIVATE,
        *(op for op in (*BinaryOp, *UnaryOp) if op.value >= FIRST_OWN_TAG),
    }
)
"""The parts that vyre-driver does not have."""


def _named_type(value: object) -> DataType:
    dtype = type_from_json(value)
    if _is_own(dtype):
        raise ValueError(f"expected a type of vyre-driver, found {brief(value)}")
    return dtype


def _is_own(dtype: object) -> bool:
    """Returns whether vyre-driver lacks a type or one inside it; ``MAX_TYPE_DEPTH`` bounds the nesting."""
    if isinstance(dtype, ReservedType):
        return any(map(_is_own, dtype.args))
    return isinstance(dtype, ScalarType) and dtype in _OWN


def _tagged_type(value: object) -> DataType:
    if type(value) is int:
        if value in SCALAR_BY_TAG and SCALAR_BY_TAG[value] not in _OWN:
            return SCALAR_BY_TAG[value]
        for name, tag in RESERVED_TAGS.items():
            if tag == value and not argument_kinds(name):
                return ReservedType(name)
    if isinstance(value, list) and value:
        raise unsupported(f"element type {brief(value[0])}")
    raise ValueError(f"expected the tag of an element type, found {brief(value)}")


def _tagged_hints(value: object) -> BufferHints:
    match value:
        case [axis, alignment, locality]:
            return BufferHints(
                None if axis is None else integer(0, 255)(axis),
                integer(0, 0xFFFF_FFFF)(alignment),
                _by_value(CacheLocality)(locality),
            )
        case _:
            raise ValueError(f"expected [coalesce axis, alignment, locality], found {brief(value)}")


def _by_name(*families: type[Enum]) -> Leaf:
    table: dict[str, Enum] = {}
    for family in families:
        table |= {name: member for name, member in by_camel_case(family).items() if member not in _OWN}
    return choice(table, f"the name of {families[0].__name__}")


def _by_value(*families: type[Enum]) -> Leaf:
    table = {member.value: member for family in families for member in family if member not in _OWN}
    return choice(table, f"the tag of {families[0].__name__}")


def _float_tag(digits: int) -> Leaf:
    return integer(0, (1 << 4 * digits) - 1)


NAMED: Final = Schema(
    keys={},
    tags={},
    buffer_fields={**BUFFER_FIELDS, "access": _by_name(Access), "kind": _by_name(MemoryKind), "dtype": _named_type},
    hints=hints,
    binary=_by_name(BinaryOp, UpstreamBinary),
    unary=_by_name(UnaryOp, UpstreamUnary),
    atomic=_by_name(AtomicOp, UpstreamAtomic),
    ordering=_by_name(Ordering),
    dtype=_named_type,
    float_bits=hex_bits,
    ordering_precedes_buffer=False,
)
TAGGED: Final = Schema(
    keys={
        "wg": "workgroup_size",
        "op": "entry_op_id",
        "nonself": "non_composable_with_self",
        "element": "dtype",
        "live": "pipeline_live_out",
        "range": "output_byte_range",
    },
    tags={
        "buf_len": "buflen",
        "wgid": "wid",
        "select": "sel",
        "sg_add": "sadd",
        "sg_shuffle": "sshuf",
        "sg_ballot": "sballot",
        "sg_local_id": "slid",
        "sg_size": "ssize",
        "return": "ret",
        "indirect_dispatch": "indirect",
        "async_load": "aload",
        "async_store": "astore",
        "async_wait": "await",
        "all_reduce": "allreduce",
        "all_gather": "allgather",
        "reduce_scatter": "rscatter",
        "broadcast": "bcast",
    },
    buffer_fields={**BUFFER_FIELDS, "access": _by_value(Access), "kind": _by_value(MemoryKind), "dtype": _tagged_type},
    hints=_tagged_hints,
    binary=_by_value(BinaryOp, UpstreamBinary),
    unary=_by_value(UnaryOp, UpstreamUnary),
    atomic=_by_value(AtomicOp, UpstreamAtomic),
    ordering=_by_value(Ordering),
    dtype=_tagged_type,
    float_bits=_float_tag,
    ordering_precedes_buffer=True,
)


class Predicate(NamedTuple):
    """A condition on the declared number of elements."""

    text: str
    holds: Callable[[int], bool]


_COMPARISONS: Final[dict[str, tuple[int, str, Callable[..., bool]]]] = {
    "at_least": (1, "count >= {0}", lambda count, n: count >= n),
    "at_most": (1, "count <= {0}", lambda count, n: count <= n),
    "exactly": (1, "count == {0}", lambda count, n: count == n),
    "multiple_of": (1, "count % {0} == 0", lambda count, n: n != 0 and count % n == 0),
    "mod_equals": (2, "count % {0} == {1}", lambda count, m, r: m != 0 and r < m and count % m == r),
    "affine_range": (
        4,
        "{2} <= count * {0} + {1} <= {3}",
        lambda count, scale, offset, low, high: low <= count * scale + offset <= high,
    ),
}
_MAX_PREDICATE_DEPTH: Final = 32
_I64: Final = integer(-(1 << 63), (1 << 63) - 1)


def shape_predicate(value: object) -> Predicate | None:
    """Reads a shape predicate or null; raises ``ValueError``."""
    return None if value is None else _predicate(value, 0)


def _predicate(value: object, depth: int) -> Predicate:
    if depth > _MAX_PREDICATE_DEPTH:
        raise ValueError(f"shape predicates are nested more than {_MAX_PREDICATE_DEPTH} deep")
    match value:
        case [str(tag), *arguments] if tag in _COMPARISONS and len(arguments) == _COMPARISONS[tag][0]:
            _, form, test = _COMPARISONS[tag]
            numbers: list[Any] = [_I64(argument) for argument in arguments]
            return Predicate(form.format(*numbers), lambda count: test(count, *numbers))
        case ["not", raw]:
            inner = _predicate(raw, depth + 1)
            return Predicate(f"!({inner.text})", lambda count: not inner.holds(count))
        case ["and" | "or" as joint, raw_left, raw_right]:
            left, right = _predicate(raw_left, depth + 1), _predicate(raw_right, depth + 1)
            if joint == "and":
                return Predicate(
                    f"({left.text}) && ({right.text})", lambda count: left.holds(count) and right.holds(count)
                )
            return Predicate(f"({left.text}) || ({right.text})", lambda count: left.holds(count) or right.holds(count))
        case _:
            raise ValueError(f"expected a shape predicate, found {brief(value)}")


BUFFER_OPTIONS: Final[dict[str, Leaf]] = {
    "output_byte_range": byte_range,
    "pipeline_live_out": boolean,
    "bytes_extraction": boolean,
    "linear_type": choice({n: n for n in ("Linear", "Affine", "Relevant", "Unrestricted")}, "a linear type"),
    "shape_predicate": shape_predicate,
}
