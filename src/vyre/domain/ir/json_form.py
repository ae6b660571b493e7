"""Programs as JSON values: ``from_json(to_json(p)) == p``.

The format is ``"vyre-program/5"``; docs/json-format.md describes it.  Programs without a ``format`` key are those of
vyre-driver, the Rust system; ``upstream.import_upstream`` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from vyre.domain.errors import MalformedJson
from vyre.domain.ir import expr as x
from vyre.domain.ir import stmt as s
from vyre.domain.ir.bits import bits_value, integer_range
from vyre.domain.ir.buffers import NO_HINTS, Access, Buffer, BufferHints, CacheLocality, MemoryKind
from vyre.domain.ir.definitions import Definition, Parameter, Version
from vyre.domain.ir.expr import Expr, IdKind, Literal
from vyre.domain.ir.forms import FORMS, OPERANDS
from vyre.domain.ir.json_tree import (
    Child,
    Field,
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
from vyre.domain.ir.limits import MAX_BUFFERS, MAX_DEFINITIONS, MAX_PARAMETERS, check_names, check_writable
from vyre.domain.ir.location_table import LocationTable, table_of, with_table
from vyre.domain.ir.node import Node, fields_getter
from vyre.domain.ir.operators import AtomicOp, BinaryOp, Ordering, SubgroupOp, SubgroupRow, UnaryOp
from vyre.domain.ir.size_parameters import SIZE_NAMES, SizeParameter, written_sizes
from vyre.domain.ir.stmt import Stmt
from vyre.domain.ir.type_forms import type_from_json, type_to_json
from vyre.domain.ir.types import SCALAR_BY_TEXT, ScalarType
from vyre.domain.program_report import InvalidProgram
from vyre.domain.recursion import telling_of_depth

if TYPE_CHECKING:
    from vyre.domain.ir.program import Program

FORMAT: Final = "vyre-program/5"
"""The name of the format with its version.  Those below it were never released."""

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
_KIND_OF_FIELD: Final[dict[str, Field]] = {
    "str": text,
    "int": _U64,
    "Expr": _EXPR,
    "Expr | None": Child.OPTIONAL_EXPR,
    "tuple[Stmt, ...]": _BODY,
    "ScalarType": _SCALAR,
    "BinaryOp": choice(by_camel_case(BinaryOp), "a binary operator"),
    "UnaryOp": choice(by_camel_case(UnaryOp), "a unary operator"),
    "AtomicOp": choice(by_camel_case(AtomicOp), "an atomic operator"),
    "Ordering": choice(by_camel_case(Ordering), "a memory ordering"),
}
"""How a field is read, by its annotation."""


def _production(cls: Any) -> Production:
    """Returns the production of a node that is written as its fields in their order."""
    return Production(tuple([_KIND_OF_FIELD[cls.__annotations__[name]] for name in cls.__match_args__]), cls)


_REGULAR: Final = {
    cls: form.tag for cls, form in FORMS.items() if form.tag is not None and cls not in (x.SpecConst, x.Call)
}
"""Expressions that are written as a tag and their fields."""
_EXPRESSIONS: Final[dict[str, Production]] = {
    **LITERALS,
    **{tag: _id_production(kind) for tag, kind in ID_TAGS.items()},
    **{tag: _production(cls) for cls, tag in _REGULAR.items()},
    **{each.tag: Production((_EXPR,) * each.arity, each.node) for each in x.FUNCTIONS.values() if each.tag},
    "spec": Production((text, _EXPR), _spec, nodes=0),
    "call": Production((text,), lambda op, *args: x.Call(op, args), repeated=(_EXPR,), repeated_nodes=0),
}


def _loop(var: str, start: Expr, stop: Expr, body: s.Body, step: Expr | None = None) -> s.Loop:
    return s.Loop(var, start, stop, step or _STEP_ONE, body)


def _if_chain(otherwise: s.Body, *links: Any) -> s.If:
    """Returns the chain of ``else if`` with alternating conditions and bodies in ``links``."""
    if not links:
        raise ValueError("a chain has no condition")
    for link in range(len(links) - 2, -1, -2):
        otherwise = (s.If(links[link], links[link + 1], otherwise),)
    (first,) = otherwise
    assert isinstance(first, s.If)
    return first


def _switch(selector: Expr, default: s.Body, *arms: Any) -> s.Switch:
    """Returns the switch with alternating labels and bodies in ``arms``."""
    return s.Switch(selector, tuple(map(s.Arm, arms[::2], arms[1::2])), default)


_STEP_ONE: Final = Literal(ScalarType.U32, 1)
_REGULAR_STATEMENTS: Final[dict[type[Node], str]] = {
    s.Let: "let",
    s.Assign: "assign",
    s.Store: "store",
    s.If: "if",
    s.GridLoop: "grid_loop",
    s.Break: "break",
    s.Continue: "continue",
    s.Return: "return",
    s.Block: "block",
    s.Barrier: "barrier",
    s.AsyncLoad: "async_load",
    s.AsyncStore: "async_store",
    s.AsyncWait: "async_wait",
    s.Trap: "trap",
    s.IndirectDispatch: "indirect_dispatch",
}
"""Statements that are written as a tag and their fields."""
_STATEMENTS: Final[dict[str, Production]] = {
    **{tag: _production(cls) for cls, tag in _REGULAR_STATEMENTS.items()},
    "if_chain": Production((_BODY,), _if_chain, repeated=(_EXPR, _BODY), nodes=0),
    "switch": Production((_EXPR, _BODY), _switch, repeated=(Child.LABELS, _BODY)),
    "loop": Production((text, _EXPR, _EXPR, _BODY, _EXPR), _loop, optional=1),
    "region": Production(
        (text, optional_text, _BODY), lambda generator, source, body: s.Region(generator, body, source)
    ),
}


_GRAMMAR: Final = Grammar(_EXPRESSIONS, _STATEMENTS, labels=LITERALS)


@telling_of_depth
def to_json(program: Program, locations: bool = False) -> dict[str, Any]:
    """Returns a JSON value (dicts, lists, strings, integers, booleans, None), with or without the locations of nodes;
    ``from_json`` is the inverse.

    Raises ``InvalidProgram`` for a program beyond the structural limits or with fields out of range.
    """
    check_writable(program)
    check_names(program)
    try:
        written: dict[str, Any] = {
            "format": FORMAT,
            "entry_op_id": program.name,
            "non_composable_with_self": program.non_composable,
            "workgroup_size": list(program.workgroup_size),
            "buffers": [_buffer_to_json(buffer) for buffer in program.buffers],
        }
        if sizes := written_sizes(program.sizes, program.buffers):
            written["sizes"] = list(map(list, sizes))
        if program.definitions:
            written["definitions"] = [_definition_to_json(each) for each in program.definitions]
        if locations and (table := table_of(program)) is not None:
            written["locations"] = {
                "strings": list(table.strings),
                "places": list(map(list, table.places)),
                "nodes": list(map(list, table.nodes)),
            }
        return {**written, "entry": _body_to_json(program.body)}
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


def _definition_to_json(definition: Definition) -> dict[str, Any]:
    return {
        "id": definition.id,
        "version": str(definition.version),
        "parameters": [[p.name, p.dtype.text, *["const"] * p.is_attribute] for p in definition.parameters],
        "result_type": definition.result_type.text,
        "body": _body_to_json(definition.body),
        "result": _expr_to_json(definition.result),
    }


def _body_to_json(body: s.Body) -> list[Any]:
    """Recurses once per level of nesting, which ``check_writable`` has bounded."""
    return [_statement_to_json(stmt) for stmt in body]


def _statement_to_json(stmt: Stmt) -> list[Any]:
    match stmt:
        case s.If(_, _, otherwise) if s.is_chained(otherwise):
            return _chain_to_json(stmt)
        case s.Switch(selector, arms, default):
            written: list[Any] = ["switch", _expr_to_json(selector), _body_to_json(default)]
            for arm in arms:
                written += [_literal_to_json(label) for label in arm.labels], _body_to_json(arm.body)
            return written
        case s.Loop(var, start, stop, step, body):
            loop = ["loop", var, _expr_to_json(start), _expr_to_json(stop), _body_to_json(body)]
            return loop if step == _STEP_ONE else [*loop, _expr_to_json(step)]
        case s.Region(generator, body, source):
            return ["region", generator, source, _body_to_json(body)]
        case _:
            fields = [getattr(stmt, name) for name in stmt.__match_args__]
            written = [_body_to_json(f) if type(f) is tuple else _field_to_json(f) for f in fields]
            return [_REGULAR_STATEMENTS[type(stmt)], *written]


def _chain_to_json(first: s.If) -> list[Any]:
    links, otherwise = s.if_chain(first)
    written: list[Any] = ["if_chain", _body_to_json(otherwise)]
    for link in links:
        written += _expr_to_json(link.condition), _body_to_json(link.then)
    return written


def _field_to_json(value: object) -> object:
    if isinstance(value, Node):
        return _WRITERS[type(value)](value)
    if isinstance(value, ScalarType):
        return value.text
    return camel_case(value) if isinstance(value, Enum) else value


def _expr_to_json(node: Expr) -> list[Any]:
    return _WRITERS[type(node)](node)


def _writer(cls: type[Node], tag: str) -> Callable[[Any], list[Any]]:
    of = fields_getter(cls.__match_args__)
    return lambda node: [tag, *map(_field_to_json, of(node))]


def _operator_writer(cls: type[Node], tags: Mapping[SubgroupOp, SubgroupRow]) -> Callable[[Any], list[Any]]:
    of = OPERANDS[cls].of
    return lambda node: [tags[node.op].tag, *map(_expr_to_json, of(node))]


def _literal_to_json(node: Literal) -> list[Any]:
    dtype, bits = node.dtype, node.bits
    if dtype in _HEX_DIGITS:
        return [dtype.text, f"{bits:0{_HEX_DIGITS[dtype]}x}"]
    return [dtype.text, bits_value(dtype, bits)]


_WRITERS: Final[dict[type[Node], Callable[[Any], list[Any]]]] = {
    **{cls: _writer(cls, tag) for cls, tag in _REGULAR.items()},
    **{cls: _operator_writer(cls, form.operators) for cls, form in FORMS.items() if form.operators},
    Literal: _literal_to_json,
    x.LaunchId: lambda node: [_ID_TAG[node.kind], node.axis],
    x.SpecConst: lambda node: ["spec", node.name, _literal_to_json(node.default)],
    x.Call: lambda node: ["call", node.op, *map(_expr_to_json, node.args)],
    x.Native: lambda node: ["native", node.language, node.text, node.dtype.text, *map(_expr_to_json, node.args)],
}


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


BUFFER_FIELDS: Final[dict[str, Leaf]] = {
    "name": text,
    "binding": _U32,
    "access": choice(by_camel_case(Access), "an access"),
    "kind": choice(by_camel_case(MemoryKind), "a memory kind"),
    "dtype": type_from_json,
    "count": _U32,
    "is_output": boolean,
}
_BUFFER_OPTIONS: Final[dict[str, Leaf]] = {"like": optional_text, "output_byte_range": byte_range, "hints": hints}
PROGRAM_FIELDS: Final[dict[str, Leaf]] = {
    "workgroup_size": _axes,
    "buffers": lambda value: value,
    "entry": lambda value: value,
}
LABELS: Final[dict[str, Leaf]] = {"entry_op_id": optional_text, "non_composable_with_self": boolean}


def from_json(value: object, make: type[Program]) -> Program:
    """Returns the program that a JSON value describes, as an instance of ``make``.

    Raises ``MalformedJson`` with the path of the first defect.
    """
    written = value.get("format") if isinstance(value, dict) else None
    if type(written) is not str or written != FORMAT:  # an array of NumPy compares with its elements
        raise MalformedJson(
            f"it has the format {brief(written)}, this vyre reads {FORMAT!r}"
            if written is not None
            else f"no program of format {FORMAT!r}",
            fix="write it with program.to_json() of this release; import programs of vyre-driver, the Rust system, "
            "with vyre.import_upstream.",
        )
    fields = record(value, "$", {"format": text, **PROGRAM_FIELDS}, _OPTIONS)
    count = NodeCount()
    definitions = _definitions(fields.get("definitions", []), count)
    raw_buffers = enumerate(buffer_list(fields["buffers"]))
    buffers = tuple(_buffer_from_json(raw, f"$.buffers[{i}]") for i, raw in raw_buffers)
    sizes = fields.get("sizes", ())
    if written_sizes(sizes, buffers) != sizes:
        raise MalformedJson("a parameter holds no size of an axis", path="$.sizes")
    program = make(
        buffers,
        fields["workgroup_size"],
        fold(fields["entry"], _GRAMMAR, count=count),
        name=fields.get("entry_op_id"),
        non_composable=fields.get("non_composable_with_self", False),
        definitions=definitions,
        sizes=sizes,
    )
    if "locations" not in fields:
        return program
    try:
        return with_table(program, fields["locations"])
    except ValueError as error:
        raise MalformedJson(str(error), path="$.locations") from None


def _locations(value: object) -> LocationTable:
    fields = record(value, "$.locations", {"strings": _strings, "places": _rows(4), "nodes": _rows(2)}, {})
    return LocationTable(**fields)


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list of strings, found {brief(value)}")
    return tuple(map(text, value))


def _rows(least: int) -> Leaf:
    def rows(value: object) -> tuple[tuple[int, ...], ...]:
        if not isinstance(value, list) or not all(isinstance(row, list) and len(row) >= least for row in value):
            raise ValueError(f"expected lists of at least {least} numbers, found {brief(value)}")
        return tuple([tuple(map(_U32, row)) for row in value])

    return rows


def _sizes(value: object) -> tuple[SizeParameter, ...]:
    if not isinstance(value, list) or not all(isinstance(each, list) and len(each) == 3 for each in value):
        raise ValueError(f"expected a list of [parameter, buffer, axis], found {brief(value)}")
    return tuple([(text(name), text(array), _AXIS(axis)) for name, array, axis in value])


_AXIS: Final = integer(-len(SIZE_NAMES), -1)


def _definitions(raw: object, count: NodeCount) -> tuple[Definition, ...]:
    if not isinstance(raw, list) or len(raw) > MAX_DEFINITIONS:
        raise MalformedJson(
            f"expected a list of at most {MAX_DEFINITIONS} definitions, found {brief(raw)}", path="$.definitions"
        )
    return tuple([_definition(each, f"$.definitions[{i}]", count) for i, each in enumerate(raw)])


def _parameters(value: object) -> tuple[Parameter, ...]:
    if not isinstance(value, list) or len(value) > MAX_PARAMETERS:
        raise ValueError(f"expected a list of at most {MAX_PARAMETERS} parameters, found {brief(value)}")
    parameters = []
    for each in value:
        if not isinstance(each, list) or len(each) < 2 or each[2:] not in ([], ["const"]):
            raise ValueError(f'expected a parameter as [name, type] or [name, type, "const"], found {brief(each)}')
        parameters.append(Parameter(text(each[0]), _SCALAR(each[1]), len(each) > 2))
    return tuple(parameters)


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
    body = fold(fields["body"], _GRAMMAR, f"{path}.body", count)
    (result,) = fold([["let", "", fields["result"]]], _GRAMMAR, f"{path}.result", count)
    count.nodes -= 1  # the statement is not the user's
    assert isinstance(result, s.Let)
    return Definition(fields["id"], fields["version"], fields["parameters"], fields["result_type"], body, result.value)


_OPTIONS: Final[dict[str, Leaf]] = {
    **LABELS,
    "sizes": _sizes,
    "locations": _locations,
    "definitions": lambda value: value,
}


def buffer_list(raw: object) -> list[Any]:
    """Returns the list of buffers if its length is within the limit; else raises ``MalformedJson``."""
    if not isinstance(raw, list) or len(raw) > MAX_BUFFERS:
        raise MalformedJson(f"expected a list of at most {MAX_BUFFERS} buffers, found {brief(raw)}", path="$.buffers")
    return raw


def _buffer_from_json(raw: object, path: str) -> Buffer:
    fields = record(raw, path, BUFFER_FIELDS, _BUFFER_OPTIONS)
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
