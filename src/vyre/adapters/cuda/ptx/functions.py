"""Transcendental functions: the shared binary64 programs, step by step.

Every step is one instruction that is exact or rounds once, so the result has the same bits as that of the other
implementations of the program.  A long arm of a select is branched around; other arms are computed and selected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vyre.adapters.cuda.ptx.operands import Address, Elements, Immediate, Operand, Register, Symbol
from vyre.adapters.cuda.ptx.values import Value, in_register
from vyre.adapters.cuda.ptx.writer import MOVE, Writer
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.f64_program import Branch, F64Program, F64Step, Kind, Op, Region

_CLASS: Final = {Kind.F32: "f", Kind.F64: "fd", Kind.I32: "r", Kind.I64: "rd", Kind.PREDICATE: "p"}
_DIRECT: Final[dict[Op, str]] = {
    Op.BITS: "mov.b32",
    Op.FROM_BITS: "mov.b32",
    Op.WIDEN: "cvt.f64.f32",
    Op.NARROW: "cvt.rn.f32.f64",
    Op.FROM_INT: "cvt.rn.f64.s32",
    Op.ADD: "add.rn.f64",
    Op.SUB: "sub.rn.f64",
    Op.MUL: "mul.rn.f64",
    Op.DIV: "div.rn.f64",
    Op.SQRT: "sqrt.rn.f64",
    Op.ISUB: "sub.u32",
    Op.IAND: "and.b32",
    Op.IOR: "or.b32",
    Op.IXOR: "xor.b32",
    Op.IMUL_WIDE: "mul.wide.u32",
    Op.IEQ: "setp.eq.u32",
    Op.ILT: "setp.lt.u32",
}
BRANCH_FROM: Final = 12
"""The number of steps from which on an arm is branched around."""


class FunctionWriter:
    """Writes calls of functions; their tables are shared by all calls in a kernel."""

    def __init__(self, w: Writer, zero: Callable[[], Register]) -> None:
        self._w, self._zero = w, zero
        self._tables: dict[tuple[Kind, tuple[int, ...]], Symbol] = {}

    def call(self, program: F64Program, x: Value) -> Value:
        """Writes a function of ``x`` and returns its f32 result."""
        walk = _Walk(self._w, self, program, in_register(self._w, x), self._zero)
        walk.region(program.structure)
        return Value(walk.result(), ScalarType.F32)

    def table(self, kind: Kind, entries: tuple[int, ...]) -> Register:
        """Returns a register with the address of a table of the kernel."""
        key = (kind, entries)
        name = self._tables.get(key)
        if name is None:
            name = self._tables[key] = Symbol(f"{self._w.entry}_t{len(self._tables)}")
            size = 8 if kind is Kind.F64 else 4
            values = ", ".join(f"0x{entry:0{2 * size}X}" for entry in entries)
            self._w.module_scope.append(f".global .align {size} .b{8 * size} {name}[{len(entries)}] = {{{values}}};")
        return self._w.once(name, lambda: self._w.emit("rd", "mov.u64", name))


class _Walk:
    def __init__(
        self, w: Writer, owner: FunctionWriter, program: F64Program, x: Register, zero: Callable[[], Register]
    ) -> None:
        self._w, self._owner, self._program, self._zero = w, owner, program, zero
        self._values: list[Operand] = [x] * len(program.steps)  # of steps that were written; the others hold x

    def result(self) -> Register:
        return self._register(len(self._values) - 1)

    def region(self, region: Region) -> None:
        steps = self._program.steps
        for item in region:
            if isinstance(item, Branch):
                self._branch(item, steps[item.select])
            elif item:
                self._values[item] = self._step(steps[item])

    def _branch(self, branch: Branch, step: F64Step) -> None:
        w, kind = self._w, _CLASS[step.kind]
        predicate, when_true, when_false = step.args
        if max(_size(branch.when_true), _size(branch.when_false)) < BRANCH_FROM:
            self.region(branch.when_true)
            self.region(branch.when_false)
            a, b = self._values[when_true], self._values[when_false]
            suffix = {"f": "f32", "fd": "f64", "r": "b32", "rd": "b64"}[kind]
            self._values[branch.select] = w.emit(kind, f"selp.{suffix}", a, b, self._values[predicate])
            return
        result, otherwise, end = w.register(kind), w.label(), w.label()
        w.line(f"@!{self._values[predicate]} bra {otherwise};")
        self.region(branch.when_true)
        w.line(f"{MOVE[kind]} {result}, {self._values[when_true]};")
        w.line(f"bra {end};")
        w.place(otherwise)
        self.region(branch.when_false)
        w.line(f"{MOVE[kind]} {result}, {self._values[when_false]};")
        w.place(end)
        self._values[branch.select] = result

    def _register(self, index: int) -> Register:
        """Returns the value in a register: constants are immediates until an instruction needs a register."""
        value = self._values[index]
        if isinstance(value, Register):
            return value
        kind = _CLASS[self._program.steps[index].kind]
        return self._w.emit(kind, MOVE[kind], value)

    def _step(self, step: F64Step) -> Register | Immediate:
        op, kind, args, immediate = step
        w, values = self._w, self._values
        direct = _DIRECT.get(op)
        if direct is not None:
            first = self._register(args[0])
            return w.emit(_CLASS[kind], direct, first, *[values[arg] for arg in args[1:]])
        match op:
            case Op.CONST:
                return _constant(kind, immediate)
            case Op.IADD:
                return w.emit(_CLASS[kind], f"add.u{_bits(kind)}", self._register(args[0]), values[args[1]])
            case Op.LO32:
                return w.emit("r", "cvt.u32.u64", self._pattern(args[0]))
            case Op.HI32:
                return w.emit("r", "cvt.u32.u64", w.emit("rd", "shr.u64", self._pattern(args[0]), 32))
            case Op.PACK:
                low, high = self._register(args[0]), self._register(args[1])
                return w.emit("fd", "mov.b64", Elements(low, high))
            case Op.ISHL:
                return w.emit(_CLASS[kind], f"shl.b{_bits(kind)}", self._register(args[0]), immediate)
            case Op.ISHR:
                return w.emit(_CLASS[kind], f"shr.u{_bits(kind)}", self._register(args[0]), immediate)
            case Op.ISAR:
                return w.emit("r", "bfe.s32", self._register(args[0]), immediate, 32 - immediate)
            case Op.FUNNEL:
                count = w.emit("r", "add.u32", self._zero(), values[args[2]])
                high, low = self._register(args[0]), self._register(args[1])
                return w.emit("r", "shf.l.wrap.b32", low, high, count)
            case Op.TABLE:
                table = self._program.tables[immediate]
                size, suffix = (8, "f64") if table.kind is Kind.F64 else (4, "b32")
                base = self._owner.table(table.kind, table.entries)
                address = w.emit("rd", "mad.wide.u32", self._register(args[0]), size, base)
                return w.emit(_CLASS[kind], f"ld.global.nc.{suffix}", Address(address))
            case _:
                raise AssertionError(f"no instruction for {op}")

    def _pattern(self, index: int) -> Register:
        """Returns an F64 or I64 as 64 bits."""
        register = self._register(index)
        if self._program.steps[index].kind is Kind.F64:
            return self._w.emit("rd", "mov.b64", register)
        return register


def _bits(kind: Kind) -> int:
    return 64 if kind is Kind.I64 else 32


def _constant(kind: Kind, bits: int) -> Immediate:
    match kind:
        case Kind.F32:
            return Immediate(f"0f{bits:08X}")
        case Kind.F64:
            return Immediate(f"0d{bits:016X}")
        case _:
            return Immediate(bits)


def _size(region: Region) -> int:
    return sum(1 + _size(r.when_true) + _size(r.when_false) if isinstance(r, Branch) else 1 for r in region)
