"""Programs as JSON values: ``from_json(to_json(p)) == p``.

The format is ``"vyre-program/1"``, or ``/2`` to ``/4`` for what the earlier versions do not hold; docs/json-format.md
describes all of them.  Programs without a ``format`` key are those of vyre-driver, the Rust system;
``upstream.import_upstream`` reads them.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar, assert_never

from vyre.domain.errors import InvalidProgram, MalformedJson
from vyre.domain.ir import expr as x
from vyre.domain.ir import stmt as s
from vyre.domain.ir.bits import bits_value, integer_range
from vyre.domain.ir.buffers import NO_HINTS, Access, Buffer, BufferHints, CacheLocality, MemoryKind
from vyre.domain.ir.definitions import Definition, Parameter, Version
from vyre.domain.ir.expr import Expr, IdKind, Literal
from vyre.domain.ir.form_version import (
    FIRST,
    FOURTH,
    LATER_ACCESSES,
    LATER_EXPRESSIONS,
    LATER_KINDS,
    LATER_OPERATORS,
    LATER_TYPES,
    SECOND,
    THIRD,
    has_later_type,
)
from vyre.domain.ir.json_tree import (
    Child,
    Grammar,
    Leaf,
    NodeCount,
    Production,
    boolean,
    brief,
    choice,
    fold,
    hex_bits,
    integer,
    optional_text,
    record,
    text,
)
from vyre.domain.ir.limits import MAX_BUFFERS, MAX_DEFINITIONS, MAX_PARAMETERS, check_names, form_version
from vyre.domain.ir.operators import AtomicOp, BinaryOp, Ordering, UnaryOp
from vyre.domain.ir.stmt import Stmt
from vyre.domain.ir.type_forms import type_from_json, type_to_json
from vyre.domain.ir.types import SCALAR_BY_TEXT, DataType, ScalarType

if TYPE_CHECKING:
    from vyre.domain.ir.program import Program

FORMATS: Final = {FIRST: "vyre-program/1", SECOND: "vyre-program/2", THIRD: "vyre-program/3", FOURTH: "vyre-program/4"}
"""The name of each version of the format; a program is written in the oldest version that holds it."""

_E = TypeVar("_E", bound=Enum)
_U32: Final = integer(0, 0xFFFF_FFFF)
_U64: Final = integer(0, 0xFFFF_FFFF_FFFF_FFFF)


def camel_case(member: Enum) -> str:
    """Returns the spelling of an enum member in JSON: ``BIT_AND`` becomes ``BitAnd``."""
    return "".join(part.capitalize() for part in member.name.split("_"))


def by_camel_case(members: type[_E]) -> dict[str, _E]:
    """Returns the members of an enum by their spelling in JSON."""
    return {camel_case(member): member for member in members}


ID_TAGS: Final = {"gid": IdKind.GLOBAL, "wgid": IdKind.GROUP, "lid": IdKind.LOCAL, "num_workgroups": IdKind.NUM_GROUPS}
_ID_TAG: Final = {kind: tag for tag, kind in ID_TAGS.items()}
_INTEGER_TYPES: Final = (ScalarType.U32, ScalarType.I32, ScalarType.U64, ScalarType.I64)
_HEX_DIGITS: Final = {ScalarType.F32: 8, ScalarType.F64: 16}


def literal_production(dtype: ScalarType) -> Production:
    """Returns the production of a literal of an executable type: its value, or the bits of a float in hexadecimal."""
    if dtype in _HEX_DIGITS:
        return Production((hex_bits(_HEX_DIGITS[dtype]),), lambda bits: Literal(dtype, bits))
    if dtype is ScalarType.BOOL:
        return Production((boolean,), lambda value: Literal.of(dtype, value))
    return Production((integer(*integer_range(dtype)),), lambda value: Literal.of(dtype, value))


LITERALS: Final = {t.text: literal_production(t) for t in (*_INTEGER_TYPES, *_HEX_DIGITS, ScalarType.BOOL)}


def _spec(name: str, default: Expr) -> x.SpecConst:
    if not isinstance(default, Literal):
        raise ValueError("the default of a spec constant is a literal")
    return x.SpecConst(name, default)


def _id_production(kind: IdKind) -> Production:
    return Production((integer(0, 2),), lambda axis: x.LaunchId(kind, axis))


_EXPR, _BODY = Child.EXPR, Child.BODY
_SCALAR: Final = choice(SCALAR_BY_TEXT, "a scalar type")
_ORDERING: Final = choice(by_camel_case(Ordering), "a memory ordering")

_EXPRESSIONS: Final[dict[str, Production]] = {
    **LITERALS,
    "var": Production((text,), x.Var),
    "load": Production((text, _EXPR), x.Load),
    "buf_len": Production((text,), x.BufferLength),
    **{tag: _id_production(kind) for tag, kind in ID_TAGS.items()},
    "sg_local_id": Production((), x.SubgroupLane),
    "sg_size": Production((), x.SubgroupSize),
    "bin": Production((choice(by_camel_case(BinaryOp), "a binary operator"), _EXPR, _EXPR), x.Binary),
    "un": Production((choice(by_camel_case(UnaryOp), "a unary operator"), _EXPR), x.Unary),
    "select": Production((_EXPR, _EXPR, _EXPR), x.Select),
    "cast": Production((_SCALAR, _EXPR), x.Cast),
    "bitcast": Production((_SCALAR, _EXPR), x.Bitcast),
    "narrow": Production((_SCALAR, _EXPR), x.Narrow),
    "pack": Production((_SCALAR, _EXPR), x.Pack),
    "unpack": Production((_SCALAR, _EXPR), x.Unpack),
    "wrap_cast": Production((_SCALAR, _EXPR), x.WrapCast),
    "fma": Production((_EXPR, _EXPR, _EXPR), x.Fma),
    "atomic": Production(
        (
            choice(by_camel_case(AtomicOp), "an atomic operator"),
            text,
            _EXPR,
            Child.OPTIONAL_EXPR,
            _EXPR,
            _ORDERING,
        ),
        x.Atomic,
    ),
    "sg_add": Production((_EXPR,), x.SubgroupAdd),
    "sg_ballot": Production((_EXPR,), x.SubgroupBallot),
    "sg_shuffle": Production((_EXPR, _EXPR), x.SubgroupShuffle),
    "spec": Production((text, _EXPR), _spec, nodes=0),
    "call": Production((text,), lambda op, *args: x.Call(op, args), repeated=(_EXPR,), repeated_nodes=0),
}


def _loop(var: str, start: Expr, stop: Expr, body: s.Body, step: Expr | None = None) -> s.Loop:
    return s.Loop(var, start, stop, step or _STEP_ONE, body)


def _if_chain(otherwise: s.Body, *links: Any) -> s.If:
    """Returns the chain of ``else if`` with alternating conditions and bodies in ``links``."""
    if not links:
        raise ValueError("a chain has no condition")
    for at in range(len(links) - 2, -1, -2):
        otherwise = (s.If(links[at], links[at + 1], otherwise),)
    (first,) = otherwise
    assert isinstance(first, s.If)
    return first


def _switch(selector: Expr, default: s.Body, *arms: Any) -> s.Switch:
    """Returns the switch with alternating labels and bodies in ``arms``."""
    return s.Switch(selector, tuple(map(s.Arm, arms[::2], arms[1::2])), default)


_STEP_ONE: Final = Literal(ScalarType.U32, 1)
_COPY: Final = (text, text, _EXPR, _EXPR, text)

_STATEMENTS: Final[dict[str, Production]] = {
    "let": Production((text, _EXPR), s.Let),
    "assign": Production((text, _EXPR), s.Assign),
    "store": Production((text, _EXPR, _EXPR), s.Store),
    "if": Production((_EXPR, _BODY, _BODY), s.If),
    "if_chain": Production((_BODY,), _if_chain, repeated=(_EXPR, _BODY), nodes=0),
    "switch": Production((_EXPR, _BODY), _switch, repeated=(Child.LABELS, _BODY)),
    "loop": Production((text, _EXPR, _EXPR, _BODY, _EXPR), _loop, optional=1),
    "grid_loop": Production((text, _EXPR, text, _BODY), s.GridLoop),
    "break": Production((), s.Break),
    "continue": Production((), s.Continue),
    "return": Production((), s.Return),
    "block": Production((_BODY,), s.Block),
    "region": Production(
        (text, optional_text, _BODY), lambda generator, source, body: s.Region(generator, body, source)
    ),
    "barrier": Production((_ORDERING,), s.Barrier),
    "async_load": Production(_COPY, s.AsyncLoad),
    "async_store": Production(_COPY, s.AsyncStore),
    "async_wait": Production((text,), s.AsyncWait),
    "trap": Production((_EXPR, text), s.Trap),
    "indirect_dispatch": Production((text, _U64), s.IndirectDispatch),
}


def _first_expressions() -> dict[str, Production]:
    """Returns the expressions of the first version."""
    later = {tag for tag, production in _EXPRESSIONS.items() if production.build in LATER_EXPRESSIONS}
    later.update(_FOURTH_EXPRESSIONS)
    first_unary = {name: op for name, op in by_camel_case(UnaryOp).items() if op not in LATER_OPERATORS}
    return {
        **{tag: production for tag, production in _EXPRESSIONS.items() if tag not in later},
        "un": Production((choice(first_unary, "a unary operator"), _EXPR), x.Unary),
        **{tag: Production((choice(_FIRST_SCALARS, "a scalar type"), _EXPR), node) for tag, node in _CASTS.items()},
    }


_FOURTH_EXPRESSIONS: Final = ("call",)
_CASTS: Final = {"cast": x.Cast, "bitcast": x.Bitcast}
_FIRST_SCALARS: Final = {name: dtype for name, dtype in SCALAR_BY_TEXT.items() if dtype not in LATER_TYPES}
_THIRD_STATEMENTS: Final = ("grid_loop",)
_LATER_STATEMENTS: Final = ("if_chain", "switch", *_THIRD_STATEMENTS)


def _statements_without(missing: tuple[str, ...]) -> dict[str, Production]:
    return {tag: production for tag, production in _STATEMENTS.items() if tag not in missing}


_THIRD_EXPRESSIONS: Final = {
    tag: production for tag, production in _EXPRESSIONS.items() if tag not in _FOURTH_EXPRESSIONS
}
_GRAMMARS: Final = {
    FIRST: Grammar(_first_expressions(), _statements_without(_LATER_STATEMENTS)),
    SECOND: Grammar(_THIRD_EXPRESSIONS, _statements_without(_THIRD_STATEMENTS), labels=LITERALS),
    THIRD: Grammar(_THIRD_EXPRESSIONS, _STATEMENTS, labels=LITERALS),
    FOURTH: Grammar(_EXPRESSIONS, _STATEMENTS, labels=LITERALS),
}


def to_json(program: Program) -> dict[str, Any]:
    """Returns a JSON value (dicts, lists, strings, integers, booleans, None); ``from_json`` is the inverse.

    Raises ``InvalidProgram`` for a program beyond the structural limits or with fields out of range.
    """
    version = form_version(program)
    check_names(program)
    writer = _Writer(flat_chains=version != FIRST)
    try:
        written = {
            "format": FORMATS[version],
            "entry_op_id": program.name,
            "non_composable_with_self": program.non_composable,
            "workgroup_size": list(program.workgroup_size),
            "buffers": [_buffer_to_json(buffer) for buffer in program.buffers],
        }
        if version >= FOURTH:
            written["definitions"] = [writer.definition(each) for each in program.definitions]
        return {**written, "entry": writer.body(program.body)}
    except ValueError as error:
        raise InvalidProgram(f"the program has no JSON form: {error}") from None


def _buffer_to_json(buffer: Buffer) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "name": buffer.name,
        "binding": buffer.binding,
        "access": camel_case(buffer.access),
        "kind": camel_case(buffer.kind),
        "dtype": type_to_json(buffer.element),
        "count": buffer.count,
        "is_output": buffer.is_output,
    }
    if buffer.like is not None:
        fields["like"] = buffer.like
    if buffer.output_range is not None:
        fields["output_byte_range"] = list(buffer.output_range)
    if buffer.hints != NO_HINTS:
        fields["hints"] = {
            "coalesce_axis": buffer.hints.coalesce_axis,
            "preferred_alignment": buffer.hints.preferred_alignment,
            "cache_locality": camel_case(buffer.hints.locality),
        }
    return fields


class _Writer:
    """Writes statements; recurses once per level of nesting, which ``check_writable`` has bounded.

    ``flat_chains``: the links of an ``else if`` are written side by side, which the first version of the format lacks.
    """

    def __init__(self, *, flat_chains: bool) -> None:
        self._flat_chains = flat_chains

    def definition(self, definition: Definition) -> dict[str, Any]:
        return {
            "id": definition.id,
            "version": str(definition.version),
            "parameters": [[each.name, each.dtype.text] for each in definition.parameters],
            "result_type": definition.result_type.text,
            "body": self.body(definition.body),
            "result": _expr_to_json(definition.result),
        }

    def body(self, body: s.Body) -> list[Any]:
        return [self._statement(stmt) for stmt in body]

    def _statement(self, stmt: Stmt) -> list[Any]:
        match stmt:
            case s.Let(name, value):
                return ["let", name, _expr_to_json(value)]
            case s.Assign(name, value):
                return ["assign", name, _expr_to_json(value)]
            case s.Store(buffer, index, value):
                return ["store", buffer, _expr_to_json(index), _expr_to_json(value)]
            case s.If(_, _, otherwise) if self._flat_chains and s.is_chained(otherwise):
                return self._chain(stmt)
            case s.If(condition, then, otherwise):
                return ["if", _expr_to_json(condition), self.body(then), self.body(otherwise)]
            case s.Switch(selector, arms, default):
                written: list[Any] = ["switch", _expr_to_json(selector), self.body(default)]
                for arm in arms:
                    written += [_literal_to_json(label.dtype, label.bits) for label in arm.labels], self.body(arm.body)
                return written
            case s.Loop(var, start, stop, step, body):
                loop = ["loop", var, _expr_to_json(start), _expr_to_json(stop), self.body(body)]
                return loop if step == _STEP_ONE else [*loop, _expr_to_json(step)]
            case s.GridLoop(name, limit, flag, body):
                return ["grid_loop", name, _expr_to_json(limit), flag, self.body(body)]
            case s.Break():
                return ["break"]
            case s.Continue():
                return ["continue"]
            case s.Return():
                return ["return"]
            case s.Block(body):
                return ["block", self.body(body)]
            case s.Region(generator, body, source):
                return ["region", generator, source, self.body(body)]
            case s.Barrier(ordering):
                return ["barrier", camel_case(ordering)]
            case s.AsyncLoad(source, destination, offset, size, tag):
                return ["async_load", source, destination, _expr_to_json(offset), _expr_to_json(size), tag]
            case s.AsyncStore(source, destination, offset, size, tag):
                return ["async_store", source, destination, _expr_to_json(offset), _expr_to_json(size), tag]
            case s.AsyncWait(tag):
                return ["async_wait", tag]
            case s.Trap(address, tag):
                return ["trap", _expr_to_json(address), tag]
            case s.IndirectDispatch(buffer, offset):
                return ["indirect_dispatch", buffer, offset]
            case _:
                assert_never(stmt)

    def _chain(self, first: s.If) -> list[Any]:
        links, otherwise = s.if_chain(first)
        written: list[Any] = ["if_chain", self.body(otherwise)]
        for link in links:
            written += _expr_to_json(link.condition), self.body(link.then)
        return written


def _expr_to_json(node: Expr) -> list[Any]:
    match node:
        case Literal(dtype, bits):
            return _literal_to_json(dtype, bits)
        case x.Var(name):
            return ["var", name]
        case x.Load(buffer, index):
            return ["load", buffer, _expr_to_json(index)]
        case x.BufferLength(buffer):
            return ["buf_len", buffer]
        case x.LaunchId(kind, axis):
            return [_ID_TAG[kind], axis]
        case x.SubgroupLane():
            return ["sg_local_id"]
        case x.SubgroupSize():
            return ["sg_size"]
        case x.Binary(op, left, right):
            return ["bin", camel_case(op), _expr_to_json(left), _expr_to_json(right)]
        case x.Unary(op, operand):
            return ["un", camel_case(op), _expr_to_json(operand)]
        case x.Select(condition, on_true, on_false):
            return ["select", _expr_to_json(condition), _expr_to_json(on_true), _expr_to_json(on_false)]
        case x.Cast(dtype, operand):
            return ["cast", dtype.text, _expr_to_json(operand)]
        case x.Bitcast(dtype, operand):
            return ["bitcast", dtype.text, _expr_to_json(operand)]
        case x.Narrow(dtype, operand):
            return ["narrow", dtype.text, _expr_to_json(operand)]
        case x.Pack(dtype, operand):
            return ["pack", dtype.text, _expr_to_json(operand)]
        case x.Unpack(dtype, operand):
            return ["unpack", dtype.text, _expr_to_json(operand)]
        case x.WrapCast(dtype, operand):
            return ["wrap_cast", dtype.text, _expr_to_json(operand)]
        case x.Fma(a, b, c):
            return ["fma", _expr_to_json(a), _expr_to_json(b), _expr_to_json(c)]
        case x.Atomic(op, buffer, index, expected, value, ordering):
            comparand = None if expected is None else _expr_to_json(expected)
            operands = [_expr_to_json(index), comparand, _expr_to_json(value)]
            return ["atomic", camel_case(op), buffer, *operands, camel_case(ordering)]
        case x.SubgroupAdd(value):
            return ["sg_add", _expr_to_json(value)]
        case x.SubgroupBallot(condition):
            return ["sg_ballot", _expr_to_json(condition)]
        case x.SubgroupShuffle(value, lane):
            return ["sg_shuffle", _expr_to_json(value), _expr_to_json(lane)]
        case x.SpecConst(name, default):
            return ["spec", name, _expr_to_json(default)]
        case x.Call(op, args):
            return ["call", op, *map(_expr_to_json, args)]
        case _:
            assert_never(node)


def _literal_to_json(dtype: ScalarType, bits: int) -> list[Any]:
    if dtype in _HEX_DIGITS:
        return [dtype.text, f"{bits:0{_HEX_DIGITS[dtype]}x}"]
    return [dtype.text, bits_value(dtype, bits)]


def _axes(value: object) -> tuple[int, int, int]:
    if not isinstance(value, list) or len(value) != 3:
        raise ValueError(f"expected a list of three integers, found {brief(value)}")
    along_x, along_y, along_z = map(_U32, value)
    return along_x, along_y, along_z


def byte_range(value: object) -> tuple[int, int] | None:
    """Reads ``[start, end]`` or null; raises ``ValueError``."""
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"expected [start, end] or null, found {brief(value)}")
    start, end = map(_U64, value)
    return start, end


def hints(value: object) -> BufferHints:
    """Reads the hints of a buffer; raises ``ValueError``."""
    if not isinstance(value, dict) or set(value) != {"coalesce_axis", "preferred_alignment", "cache_locality"}:
        raise ValueError(f"expected coalesce_axis, preferred_alignment and cache_locality, found {brief(value)}")
    axis = value["coalesce_axis"]
    return BufferHints(
        None if axis is None else integer(0, 255)(axis),
        _U32(value["preferred_alignment"]),
        choice(by_camel_case(CacheLocality), "a cache locality")(value["cache_locality"]),
    )


def first_type(value: object) -> DataType:
    """Reads an element type of the first version; raises ``ValueError``."""
    found = type_from_json(value)
    if has_later_type(found):
        raise ValueError(f"expected a type of the first version, found {brief(value)}")
    return found


_ACCESSES: Final = by_camel_case(Access)
_KINDS: Final = by_camel_case(MemoryKind)
_BUFFER_FIELDS: Final[dict[str, Leaf]] = {
    "name": text,
    "binding": _U32,
    "access": choice(_ACCESSES, "an access"),
    "kind": choice(_KINDS, "a memory kind"),
    "dtype": type_from_json,
    "count": _U32,
    "is_output": boolean,
}
FIRST_BUFFER_FIELDS: Final[dict[str, Leaf]] = {
    **_BUFFER_FIELDS,
    "access": choice({name: access for name, access in _ACCESSES.items() if access not in LATER_ACCESSES}, "an access"),
    "kind": choice({name: kind for name, kind in _KINDS.items() if kind not in LATER_KINDS}, "a memory kind"),
    "dtype": first_type,
}
"""The fields of a buffer in the first version of the format."""
_FIELDS_OF_BUFFER: Final = {FIRST: FIRST_BUFFER_FIELDS, **dict.fromkeys((SECOND, THIRD, FOURTH), _BUFFER_FIELDS)}
_BUFFER_OPTIONS: Final[dict[str, Leaf]] = {"like": optional_text, "output_byte_range": byte_range, "hints": hints}
PROGRAM_FIELDS: Final[dict[str, Leaf]] = {
    "workgroup_size": _axes,
    "buffers": lambda value: value,
    "entry": lambda value: value,
}
LABELS: Final[dict[str, Leaf]] = {"entry_op_id": optional_text, "non_composable_with_self": boolean}


def from_json(value: object, make: type[Program]) -> Program:
    """Returns the program that a JSON value describes, as an instance of ``make``.

    Raises ``MalformedJson`` with the path of the first defect, such as a word that its version of the format lacks.
    """
    version = _VERSIONS.get(value["format"]) if isinstance(value, dict) and _is_named(value) else None
    if version is None or not isinstance(value, dict):
        raise MalformedJson(
            f"no program of format {', '.join(map(repr, _VERSIONS))}",
            fix="write it with program.to_json(); import programs of vyre-driver, the Rust system, with "
            "vyre.import_upstream.",
        )
    required = {"format": text, **PROGRAM_FIELDS}
    if version >= FOURTH:
        required["definitions"] = lambda value: value
    fields = record(value, "$", required, LABELS)
    count = NodeCount()
    definitions = _definitions(fields.get("definitions", []), count)
    buffers = enumerate(buffer_list(fields["buffers"]))
    return make(
        tuple(_buffer_from_json(raw, f"$.buffers[{i}]", version) for i, raw in buffers),
        fields["workgroup_size"],
        fold(fields["entry"], _GRAMMARS[version], count=count),
        name=fields.get("entry_op_id"),
        non_composable=fields.get("non_composable_with_self", False),
        definitions=definitions,
    )


def _definitions(raw: object, count: NodeCount) -> tuple[Definition, ...]:
    if not isinstance(raw, list) or len(raw) > MAX_DEFINITIONS:
        raise MalformedJson(
            f"expected a list of at most {MAX_DEFINITIONS} definitions, found {brief(raw)}", path="$.definitions"
        )
    return tuple([_definition(each, f"$.definitions[{i}]", count) for i, each in enumerate(raw)])


def _parameters(value: object) -> tuple[Parameter, ...]:
    if not isinstance(value, list) or len(value) > MAX_PARAMETERS:
        raise ValueError(f"expected a list of at most {MAX_PARAMETERS} parameters, found {brief(value)}")
    found = []
    for each in value:
        if not isinstance(each, list) or len(each) != 2:
            raise ValueError(f"expected a parameter as [name, type], found {brief(each)}")
        found.append(Parameter(text(each[0]), _SCALAR(each[1])))
    return tuple(found)


_DEFINITION_FIELDS: Final[dict[str, Leaf]] = {
    "id": text,
    "version": lambda value: Version.of(text(value)),
    "parameters": _parameters,
    "result_type": _SCALAR,
    "body": lambda value: value,
    "result": lambda value: value,
}


def _definition(raw: object, path: str, count: NodeCount) -> Definition:
    fields = record(raw, path, _DEFINITION_FIELDS, {})
    grammar = _GRAMMARS[FOURTH]
    body = fold(fields["body"], grammar, f"{path}.body", count)
    (result,) = fold([["let", "", fields["result"]]], grammar, f"{path}.result", count)
    count.nodes -= 1  # the statement is not the user's
    assert isinstance(result, s.Let)
    return Definition(fields["id"], fields["version"], fields["parameters"], fields["result_type"], body, result.value)


_VERSIONS: Final = {name: version for version, name in FORMATS.items()}


def _is_named(value: dict[Any, Any]) -> bool:
    return isinstance(value.get("format"), str)


def buffer_list(raw: object) -> list[Any]:
    """Returns the list of buffers if its length is within the limit; else raises ``MalformedJson``."""
    if not isinstance(raw, list) or len(raw) > MAX_BUFFERS:
        raise MalformedJson(f"expected a list of at most {MAX_BUFFERS} buffers, found {brief(raw)}", path="$.buffers")
    return raw


def _buffer_from_json(raw: object, path: str, version: int) -> Buffer:
    fields = record(raw, path, _FIELDS_OF_BUFFER[version], _BUFFER_OPTIONS)
    return Buffer(
        fields["name"],
        fields["binding"],
        fields["access"],
        fields["dtype"],
        fields["count"],
        fields["is_output"],
        fields["kind"],
        fields.get("like"),
        fields.get("output_byte_range"),
        fields.get("hints", NO_HINTS),
    )
