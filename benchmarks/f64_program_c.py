"""C source of a binary64 program, for the exhaustive runs: scalar, portable, and independent of NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from vyre.domain.numerics.f64_program import Branch, F64Program, F64Step, Kind, Op, Region

# F32 values are kept as bit patterns, so that no move can touch a NaN.
_C_TYPE: Final = {
    Kind.F32: "uint32_t",
    Kind.F64: "double",
    Kind.I32: "uint32_t",
    Kind.I64: "uint64_t",
    Kind.PREDICATE: "int",
}

_PRELUDE: Final = """\
#include <stdint.h>
#include <string.h>

static inline double f64_of(uint64_t b) { double v; memcpy(&v, &b, 8); return v; }
static inline uint64_t bits64(double v) { uint64_t b; memcpy(&b, &v, 8); return b; }
static inline float f32_of(uint32_t b) { float v; memcpy(&v, &b, 4); return v; }
static inline uint32_t bits32(float v) { uint32_t b; memcpy(&b, &v, 4); return b; }
static inline uint64_t word64(uint64_t v) { return v; }
"""

_EXPRESSIONS: Final[dict[Op, Callable[[F64Step, list[str]], str]]] = {
    Op.INPUT: lambda s, v: "x",
    Op.BITS: lambda s, v: v[0],
    Op.FROM_BITS: lambda s, v: v[0],
    Op.WIDEN: lambda s, v: f"(double)f32_of({v[0]})",
    Op.NARROW: lambda s, v: f"bits32((float){v[0]})",
    Op.FROM_INT: lambda s, v: f"(double)(int32_t){v[0]}",
    Op.ADD: lambda s, v: f"{v[0]} + {v[1]}",
    Op.SUB: lambda s, v: f"{v[0]} - {v[1]}",
    Op.MUL: lambda s, v: f"{v[0]} * {v[1]}",
    Op.DIV: lambda s, v: f"{v[0]} / {v[1]}",
    Op.SQRT: lambda s, v: f"__builtin_sqrt({v[0]})",
    Op.PACK: lambda s, v: f"f64_of((uint64_t){v[1]} << 32 | {v[0]})",
    Op.IADD: lambda s, v: f"{v[0]} + {v[1]}",
    Op.ISUB: lambda s, v: f"{v[0]} - {v[1]}",
    Op.IAND: lambda s, v: f"{v[0]} & {v[1]}",
    Op.IOR: lambda s, v: f"{v[0]} | {v[1]}",
    Op.IXOR: lambda s, v: f"{v[0]} ^ {v[1]}",
    Op.ISHL: lambda s, v: f"{v[0]} << {s.immediate}",
    Op.ISHR: lambda s, v: f"{v[0]} >> {s.immediate}",
    Op.ISAR: lambda s, v: f"(uint32_t)((int32_t){v[0]} >> {s.immediate})",
    Op.FUNNEL: lambda s, v: f"(uint32_t)((((uint64_t){v[0]} << 32 | {v[1]}) << ({v[2]} & 31)) >> 32)",
    Op.IMUL_WIDE: lambda s, v: f"(uint64_t){v[0]} * {v[1]}",
    Op.IEQ: lambda s, v: f"{v[0]} == {v[1]}",
    Op.ILT: lambda s, v: f"{v[0]} < {v[1]}",
    Op.TABLE: lambda s, v: f"table{s.immediate}[{v[0]}]",
}


def _expression(program: F64Program, step: F64Step) -> str:
    if step.op is Op.CONST:
        return f"f64_of({step.immediate:#x}ull)" if step.kind is Kind.F64 else f"{step.immediate:#x}u"
    operands = [f"v{arg}" for arg in step.args]
    if step.op in (Op.LO32, Op.HI32):
        pattern = "bits64" if program.steps[step.args[0]].kind is Kind.F64 else "word64"
        return f"(uint32_t)({pattern}({operands[0]}) >> {0 if step.op is Op.LO32 else 32})"
    return _EXPRESSIONS[step.op](step, operands)


def _statements(program: F64Program, region: Region, indent: str) -> Iterator[str]:
    for item in region:
        if isinstance(item, Branch):
            predicate, a, b = program.steps[item.select].args
            yield f"{indent}if (v{predicate}) {{"
            yield from _statements(program, item.when_true, indent + "    ")
            yield f"{indent}    v{item.select} = v{a};"
            yield f"{indent}}} else {{"
            yield from _statements(program, item.when_false, indent + "    ")
            yield f"{indent}    v{item.select} = v{b};"
            yield f"{indent}}}"
        else:
            yield f"{indent}v{item} = {_expression(program, program.steps[item])};"


def c_source(program: F64Program) -> str:
    """``static uint32_t evaluate(uint32_t x)``: the program from the bits of an f32 to the bits of the result.

    Compile with ``-ffp-contract=off`` and without any fast-math option.
    """
    lines = [_PRELUDE]
    for number, table in enumerate(program.tables):
        words = ", ".join(f"{entry:#x}" for entry in table.entries)
        if table.kind is Kind.F64:
            lines.append(f"static const uint64_t bits_of_table{number}[] = {{{words}}};")
            lines.append(f"#define table{number} ((const double *)bits_of_table{number})")
        else:
            lines.append(f"static const uint32_t table{number}[] = {{{words}}};")
    lines.append("static inline uint32_t evaluate(uint32_t x) {")
    lines.extend(f"    {_C_TYPE[step.kind]} v{index};" for index, step in enumerate(program.steps))
    lines.extend(_statements(program, program.structure, "    "))
    lines.append(f"    return v{len(program.steps) - 1};")
    lines.append("}")
    return "\n".join(lines) + "\n"
