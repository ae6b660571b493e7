"""Functions such as ``exp``: the steps that every backend of vyre runs, as one C function each.

Every step is exact or rounds once in binary64, so the result has the reference's bits on every device with fp64.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from vyre.ir import UnaryOp
from vyre.lowering import Branch, F64Program, Kind, Op, Region, Table, transcendental

_TYPE: Final = {Kind.F32: "float", Kind.F64: "double", Kind.I32: "uint", Kind.I64: "ulong", Kind.PREDICATE: "bool"}
_FORMS: Final[dict[Op, str]] = {
    Op.BITS: "as_uint({0})",
    Op.FROM_BITS: "as_float({0})",
    Op.WIDEN: "(double){0}",
    Op.NARROW: "(float){0}",
    Op.FROM_INT: "(double)(int){0}",
    Op.ADD: "{0} + {1}",
    Op.SUB: "{0} - {1}",
    Op.MUL: "{0} * {1}",
    Op.DIV: "{0} / {1}",
    Op.SQRT: "sqrt({0})",
    Op.PACK: "as_double((ulong){1} << 32 | {0})",
    Op.IADD: "{0} + {1}",
    Op.ISUB: "{0} - {1}",
    Op.IAND: "{0} & {1}",
    Op.IOR: "{0} | {1}",
    Op.IXOR: "{0} ^ {1}",
    Op.ISHL: "{0} << {i}",
    Op.ISHR: "{0} >> {i}",
    Op.ISAR: "(uint)((int){0} >> {i})",
    Op.FUNNEL: "(uint)((((ulong){0} << 32 | {1}) << ({2} & 31u)) >> 32)",
    Op.IMUL_WIDE: "(ulong){0} * (ulong){1}",
    Op.IEQ: "{0} == {1}",
    Op.ILT: "{0} < {1}",
}


def function_name(op: UnaryOp) -> str:
    """Returns the name of the C function."""
    return f"vy_{transcendental(op).name}"


@cache
def definition(op: UnaryOp) -> str:
    """Returns the C function with its tables."""
    program = transcendental(op)
    name = function_name(op)
    lines = [_table(f"{name}_table{number}", table) for number, table in enumerate(program.tables)]
    lines.append(f"static float {name}(float v0) {{")
    _write(program, name, program.structure, lines)
    return "\n".join([*lines, f"return v{len(program.steps) - 1};", "}"]) + "\n"


def _table(name: str, table: Table) -> str:
    kind, suffix = ("ulong", "ul") if table.kind is Kind.F64 else ("uint", "u")
    entries = ", ".join(f"{entry:#x}{suffix}" for entry in table.entries)
    return f"__constant {kind} {name}[{len(table.entries)}] = {{ {entries} }};"


def _write(program: F64Program, name: str, region: Region, lines: list[str]) -> None:
    """Writes the steps of a region; the arms of a select are computed only where it takes them."""
    for place in region:
        if isinstance(place, Branch):
            step = program.steps[place.select]
            condition, on_true, on_false = step.args
            lines += [f"{_TYPE[step.kind]} v{place.select};", f"if (v{condition}) {{"]
            _write(program, name, place.when_true, lines)
            lines += [f"v{place.select} = v{on_true};", "} else {"]
            _write(program, name, place.when_false, lines)
            lines += [f"v{place.select} = v{on_false};", "}"]
        elif program.steps[place].op is not Op.INPUT:
            lines.append(f"{_TYPE[program.steps[place].kind]} v{place} = {_value(program, name, place)};")


def _value(program: F64Program, name: str, place: int) -> str:
    op, kind, args, immediate = program.steps[place]
    operands = [f"v{arg}" for arg in args]
    match op:
        case Op.CONST:
            suffix = "ul" if kind in (Kind.F64, Kind.I64) else "u"
            bits = f"{immediate:#x}{suffix}"
            return f"as_{_TYPE[kind]}({bits})" if kind in (Kind.F32, Kind.F64) else bits
        case Op.LO32 | Op.HI32:
            word = f"as_ulong({operands[0]})" if program.steps[args[0]].kind is Kind.F64 else operands[0]
            return f"(uint){word}" if op is Op.LO32 else f"(uint)({word} >> 32)"
        case Op.TABLE:
            entry = f"{name}_table{immediate}[{operands[0]}]"
            return f"as_double({entry})" if kind is Kind.F64 else entry
        case _:
            return _FORMS[op].format(*operands, i=immediate)
