"""Two evaluators of binary64 programs: plain Python for one input, NumPy for many.

They share nothing except the steps, so that each checks the other.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from vyre.domain.numerics.f64_program import Branch, F64Program, F64Step, Kind, Op, Region, f64_bits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Values: TypeAlias = NDArray[Any]

_WORD: Final = 0xFFFF_FFFF
_DOUBLE_WORD: Final = 0xFFFF_FFFF_FFFF_FFFF


# ------------------------------------------------------------------------------ one input, plain Python
# Every value is the int of its bit pattern (a predicate 0 or 1).


def _f64(bits: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return value


def _widen(bits: int) -> int:
    value: float = struct.unpack("<f", struct.pack("<I", bits))[0]
    return f64_bits(value)


def _narrow(bits: int) -> int:
    value = _f64(bits)
    try:
        packed = struct.pack("<f", value)
    except OverflowError:  # struct refuses a finite value that rounds beyond f32
        packed = struct.pack("<f", math.copysign(math.inf, value))
    result: int = struct.unpack("<I", packed)[0]
    return result


def _quotient(a: float, b: float) -> float:
    if b != 0.0:
        return a / b
    return math.copysign(math.inf, a) * math.copysign(1.0, b) if a != 0.0 else math.nan


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


_MASK: Final = {Kind.I32: _WORD, Kind.I64: _DOUBLE_WORD}

_RULES: Final[dict[Op, Callable[..., int]]] = {
    Op.BITS: lambda s, x: x,
    Op.FROM_BITS: lambda s, x: x,
    Op.WIDEN: lambda s, x: _widen(x),
    Op.NARROW: lambda s, x: _narrow(x),
    Op.FROM_INT: lambda s, x: f64_bits(float(_signed(x))),
    Op.ADD: lambda s, a, b: f64_bits(_f64(a) + _f64(b)),
    Op.SUB: lambda s, a, b: f64_bits(_f64(a) - _f64(b)),
    Op.MUL: lambda s, a, b: f64_bits(_f64(a) * _f64(b)),
    Op.DIV: lambda s, a, b: f64_bits(_quotient(_f64(a), _f64(b))),
    Op.SQRT: lambda s, x: f64_bits(math.sqrt(_f64(x)) if _f64(x) >= 0.0 else math.nan),
    Op.LO32: lambda s, x: x & _WORD,
    Op.HI32: lambda s, x: x >> 32,
    Op.PACK: lambda s, low, high: high << 32 | low,
    Op.IADD: lambda s, a, b: (a + b) & _MASK[s.kind],
    Op.ISUB: lambda s, a, b: (a - b) & _MASK[s.kind],
    Op.IAND: lambda s, a, b: a & b,
    Op.IOR: lambda s, a, b: a | b,
    Op.IXOR: lambda s, a, b: a ^ b,
    Op.ISHL: lambda s, x: (x << s.immediate) & _MASK[s.kind],
    Op.ISHR: lambda s, x: x >> s.immediate,
    Op.ISAR: lambda s, x: (_signed(x) >> s.immediate) & _WORD,
    Op.FUNNEL: lambda s, high, low, count: ((high << 32 | low) << (count & 31)) >> 32 & _WORD,
    Op.IMUL_WIDE: lambda s, a, b: a * b,
    Op.IEQ: lambda s, a, b: int(a == b),
    Op.ILT: lambda s, a, b: int(a < b),
    Op.SELECT: lambda s, p, a, b: a if p else b,
}


def evaluate_bits(program: F64Program, x: int) -> int:
    """Returns the bits of the result for the f32 with bits ``x``: every step in order, nothing skipped."""
    values: list[int] = []
    for step in program.steps:
        if step.op is Op.INPUT:
            values.append(x)
        elif step.op is Op.CONST:
            values.append(step.immediate)
        elif step.op is Op.TABLE:
            values.append(program.tables[step.immediate].entries[values[step.args[0]]])
        else:
            values.append(_RULES[step.op](step, *(values[arg] for arg in step.args)))
    return values[-1]


# ------------------------------------------------------------------------------ many inputs, NumPy

BLOCK: Final = 4096  # lanes at a time, so that the live values of a program stay in the cache

_DTYPE: Final = {
    Kind.F32: "float32",
    Kind.F64: "float64",
    Kind.I32: "uint32",
    Kind.I64: "uint64",
    Kind.PREDICATE: "bool",
}


class _Instruction(NamedTuple):
    """One step of a plan: ``run(*operands, out)`` on registers by number."""

    run: Callable[..., object]
    registers: tuple[int, ...]


class _Guarded(NamedTuple):
    """A select with both arms; an arm runs only if some lane of the block needs it."""

    predicate: int
    when_true: Code
    when_false: Code
    a: int
    b: int
    out: int


Code: TypeAlias = "tuple[_Instruction | _Guarded, ...]"


class _Plan(NamedTuple):
    """A program with registers assigned: 0 is the input, then come the constants, then the work registers."""

    code: Code
    constants: tuple[Any, ...]
    work_dtypes: tuple[str, ...]
    result: int


def evaluate_lanes(program: F64Program, x: Values | np.generic) -> Values:
    """Returns the results of the program, as a new array, for an array (any shape and layout) or a scalar of float32.

    Lanes that a select discards compute garbage: call this with NumPy's floating-point warnings off
    (``np.errstate(all="ignore")``), as for all rules of the reference engine.
    """
    import numpy as np

    plan = _plan(program)
    flat = np.ascontiguousarray(x, dtype=np.float32).reshape(-1)
    result = np.empty_like(flat)
    width = min(BLOCK, flat.size)
    work = [np.empty(width, dtype) for dtype in plan.work_dtypes]
    for start in range(0, flat.size, BLOCK):
        block = flat[start : start + BLOCK]
        if block.size < width:
            work = [register[: block.size] for register in work]
        registers = [block, *plan.constants, *work]
        _execute(plan.code, registers, block.size)
        result[start : start + BLOCK] = registers[plan.result]
    return result.reshape(np.shape(x))


def _execute(code: Code, registers: list[Any], lanes: int) -> None:
    import numpy as np

    for step in code:
        if isinstance(step, _Instruction):
            step.run(*[registers[number] for number in step.registers])
            continue
        mask, out = registers[step.predicate], registers[step.out]
        count = np.count_nonzero(mask)
        if count:
            _execute(step.when_true, registers, lanes)
        if count < lanes:
            _execute(step.when_false, registers, lanes)
            if step.out != step.b:
                np.copyto(out, registers[step.b])
        if count:
            np.copyto(out, registers[step.a], where=mask)


@lru_cache(maxsize=64)
def _plan(program: F64Program) -> _Plan:
    return _Planner(program).plan()


class _Planner:
    """Assigns registers along the program's structure: linear scan, one pool for each dtype."""

    def __init__(self, program: F64Program) -> None:
        self._program = program
        self._constants: list[Any] = []
        self._work_dtypes: list[str] = []
        self._first_work = 1 + sum(step.op is Op.CONST for step in program.steps)
        self._free: dict[str, list[int]] = {dtype: [] for dtype in _DTYPE.values()}
        self._register: dict[int, int] = {}
        order = list(_linear(program.structure))
        self._last_use = {arg: index for index in order for arg in program.steps[index].args}

    def plan(self) -> _Plan:
        code = self._code(self._program.structure)
        result = self._register[len(self._program.steps) - 1]
        return _Plan(code, tuple(self._constants), tuple(self._work_dtypes), result)

    def _code(self, region: Region) -> Code:
        code: list[_Instruction | _Guarded] = []
        for item in region:
            if isinstance(item, Branch):
                code.append(self._select(item))
            elif self._program.steps[item].op is Op.INPUT:
                self._register[item] = 0
            elif self._program.steps[item].op is Op.CONST:
                self._constant(item)
            else:
                code.append(self._instruction(item))
        return tuple(code)

    def _constant(self, index: int) -> None:
        import numpy as np

        step = self._program.steps[index]
        pattern = np.array(step.immediate, dtype=np.uint32 if step.kind in (Kind.F32, Kind.I32) else np.uint64)
        self._constants.append(pattern.view(_DTYPE[step.kind])[()])
        self._register[index] = len(self._constants)

    def _instruction(self, index: int) -> _Instruction:
        step = self._program.steps[index]
        operands = tuple(self._register[arg] for arg in step.args)
        # A single elementwise pass may overwrite an operand that dies; operations of several passes may not.
        if step.op in _IN_PLACE:
            self._release(index)
            out = self._allocate(index)
        else:
            out = self._allocate(index)
            self._release(index)
        return _Instruction(_runner(self._program, step), (*operands, out))

    def _select(self, branch: Branch) -> _Guarded:
        when_true, when_false = self._code(branch.when_true), self._code(branch.when_false)
        predicate, a, b = self._program.steps[branch.select].args
        registers = self._register[predicate], self._register[a], self._register[b]
        if self._dies(b, branch.select) and a != b:
            self._register[branch.select] = registers[2]
            self._release(branch.select, keep=b)
        else:
            self._allocate(branch.select)
            self._release(branch.select)
        return _Guarded(registers[0], when_true, when_false, registers[1], registers[2], self._register[branch.select])

    def _dies(self, value: int, step: int) -> bool:
        return self._last_use[value] == step and self._register[value] >= self._first_work

    def _allocate(self, index: int) -> int:
        dtype = _DTYPE[self._program.steps[index].kind]
        if not self._free[dtype]:
            self._free[dtype].append(self._first_work + len(self._work_dtypes))
            self._work_dtypes.append(dtype)
        self._register[index] = self._free[dtype].pop()
        return self._register[index]

    def _release(self, index: int, keep: int | None = None) -> None:
        for value in set(self._program.steps[index].args):
            if value != keep and self._dies(value, index):
                self._free[_DTYPE[self._program.steps[value].kind]].append(self._register[value])


def _linear(region: Region) -> Iterator[int]:
    for item in region:
        if isinstance(item, Branch):
            yield from _linear(item.when_true)
            yield from _linear(item.when_false)
            yield item.select
        else:
            yield item


_IN_PLACE: Final = frozenset(
    {Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.SQRT, Op.IADD, Op.ISUB, Op.IAND, Op.IOR, Op.IXOR, Op.ISHL, Op.ISHR, Op.ISAR}
)
# Index of the low and of the high 32-bit half of a 64-bit value in memory.
_LOW, _HIGH = (0, 1) if sys.byteorder == "little" else (1, 0)


def _runner(program: F64Program, step: F64Step) -> Callable[..., object]:
    """Returns ``run(*operands, out)`` for one step."""
    import numpy as np

    u32, i32, u64 = np.uint32, np.int32, np.uint64
    count = u64(step.immediate) if step.kind is Kind.I64 else u32(step.immediate)

    def pack(low: Values, high: Values, out: Values) -> None:
        halves = out.view(u32)
        halves[_LOW::2] = low
        halves[_HIGH::2] = high

    def funnel(high: Values, low: Values, distance: Values, out: Values) -> None:
        both = high.astype(u64) << u64(32) | low
        np.copyto(out, (both << (distance & u32(31))) >> u64(32), casting="unsafe")

    def lookup() -> Callable[[Values, Values], object]:
        table = program.tables[step.immediate]
        narrow = table.kind is Kind.I32
        entries = np.array(table.entries, dtype=u32 if narrow else u64).view(u32 if narrow else np.float64)
        return lambda index, out: entries.take(index, out=out, mode="clip")

    table_of_runners: dict[Op, Callable[[], Callable[..., object]]] = {
        Op.BITS: lambda: lambda x, out: np.copyto(out, x.view(u32)),
        Op.FROM_BITS: lambda: lambda x, out: np.copyto(out, x.view(np.float32)),
        Op.WIDEN: lambda: lambda x, out: np.copyto(out, x),
        Op.NARROW: lambda: lambda x, out: np.copyto(out, x, casting="same_kind"),
        Op.FROM_INT: lambda: lambda x, out: np.copyto(out, x.view(i32)),
        Op.ADD: lambda: np.add,
        Op.SUB: lambda: np.subtract,
        Op.MUL: lambda: np.multiply,
        Op.DIV: lambda: np.divide,
        Op.SQRT: lambda: np.sqrt,
        Op.LO32: lambda: lambda x, out: np.copyto(out, x.view(u32)[_LOW::2]),
        Op.HI32: lambda: lambda x, out: np.copyto(out, x.view(u32)[_HIGH::2]),
        Op.PACK: lambda: pack,
        Op.IADD: lambda: np.add,
        Op.ISUB: lambda: np.subtract,
        Op.IAND: lambda: np.bitwise_and,
        Op.IOR: lambda: np.bitwise_or,
        Op.IXOR: lambda: np.bitwise_xor,
        Op.ISHL: lambda: lambda x, out: np.left_shift(x, count, out),
        Op.ISHR: lambda: lambda x, out: np.right_shift(x, count, out),
        Op.ISAR: lambda: lambda x, out: np.right_shift(x.view(i32), i32(step.immediate), out.view(i32)),
        Op.FUNNEL: lambda: funnel,
        Op.IMUL_WIDE: lambda: lambda a, b, out: np.multiply(a, b, out, dtype=u64),
        Op.IEQ: lambda: np.equal,
        Op.ILT: lambda: np.less,
        Op.TABLE: lookup,
    }
    return table_of_runners[step.op]()
