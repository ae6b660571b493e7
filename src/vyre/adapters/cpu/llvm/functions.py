"""Transcendental functions: the shared binary64 programs, step by step, on one value or on W lanes at once.

Every step is exact or rounds once, so the result has the same bits as that of the other implementations of the program.
A function is written once for a module, as an LLVM function of its own, which a kernel calls.

Several selects by one predicate share their arms, so that what only lanes with that predicate need is skipped as a
whole: the reduction of a large argument, for example, of which both the quadrant and the rest are results.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias

from vyre.adapters.cpu.llvm.context import Kernel
from vyre.adapters.cpu.llvm.instructions import Instructions, lift
from vyre.adapters.cpu.llvm.values import Value, float_text
from vyre.adapters.cpu.llvm.writer import Writer
from vyre.domain.ir.operators import UnaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.f64_program import ROOT, F64Program, F64Step, Kind, Op, Place, Table, innermost
from vyre.domain.numerics.transcendentals import transcendental

Arm: TypeAlias = Place
"""The path from the whole program to an arm: predicates, each with the position (1 or 2) of the operand chosen."""
BRANCH_FROM: Final = 12
"""The number of steps from which on an arm is branched around."""
OTHER_FROM: Final = 4
"""The number of steps that the other arm must have: a choice of a constant is for inputs that are rare."""


class Arms:
    """The arms of a program that are branched around, and the steps that belong to each.

    A step belongs to the innermost such arm that contains all its uses.  Constants belong to no arm: they take no step.
    """

    def __init__(self, program: F64Program) -> None:
        self._steps: Final = program.steps
        self._places: Final = innermost(program.steps, lambda select: program.steps[select].args[0])
        sizes: dict[Arm, int] = {}
        for index, place in enumerate(self._places):
            if self._steps[index].op is not Op.CONST:
                for depth in range(1, len(place) + 1):
                    sizes[place[:depth]] = sizes.get(place[:depth], 0) + 1
        self._branched: Final[set[Arm]] = set()
        for arm, size in sizes.items():
            *outer, (predicate, position) = arm
            other = sizes.get((*outer, (predicate, 3 - position)), 0)
            if size >= BRANCH_FROM and other >= OTHER_FROM and not self._reads_its_own_choice(arm):
                self._branched.add(arm)
        self._regions: Final = [
            next((place[:n] for n in range(len(place), 0, -1) if place[:n] in self._branched), ROOT)
            for place in self._places
        ]

    def members(self, arm: Arm) -> list[int]:
        """Returns the steps of an arm (``ROOT``: of no arm) in order, without those of arms within."""
        return [
            i
            for i, region in enumerate(self._regions)
            if region == arm and (arm == ROOT or self._steps[i].op is not Op.CONST)
        ]

    def of_select(self, index: int) -> Iterator[Arm]:
        """Yields the arms of a step that are branched around; only a select has any."""
        if self._steps[index].op is Op.SELECT:
            for position in (1, 2):
                arm = (*self._places[index], (self._steps[index].args[0], position))
                if arm in self._branched:
                    yield arm

    def reads(self, arm: Arm) -> list[int]:
        """Returns the steps outside of an arm that the arm and the arms within read."""
        inside = self._inside(arm)
        return sorted({arg for index in inside for arg in self._steps[index].args} - inside)

    def results(self, arm: Arm) -> list[int]:
        """Returns the steps of an arm that steps outside of it read."""
        inside = self._inside(arm)
        used = {arg for i, step in enumerate(self._steps) if i not in inside for arg in step.args}
        return sorted(used & inside)

    def _inside(self, arm: Arm) -> set[int]:
        return {
            i for i, place in enumerate(self._places) if place[: len(arm)] == arm and self._steps[i].op is not Op.CONST
        }

    def _reads_its_own_choice(self, arm: Arm) -> bool:
        """Tells whether an arm depends on a select between it and the other arm: it cannot stand before that select."""
        pending, seen = list(self._inside(arm)), set[int]()
        while pending:
            index = pending.pop()
            if index in seen:
                continue
            seen.add(index)
            step = self._steps[index]
            if step.op is Op.SELECT and self._places[index] == arm[:-1] and step.args[0] == arm[-1][0]:
                return True
            pending.extend(step.args)
        return False


_ATTRIBUTES: Final = 'nounwind willreturn memory(none) "frame-pointer"="none" "prefer-vector-width"="512"'
"""Beside the effects, of which there are none: no unwind tables, no frame pointer, the widest registers there are."""
_ELEMENT: Final = {Kind.F32: "float", Kind.F64: "double", Kind.I32: "i32", Kind.I64: "i64", Kind.PREDICATE: "i1"}
_DIRECT: Final[dict[Op, str]] = {
    Op.ADD: "fadd",
    Op.SUB: "fsub",
    Op.MUL: "fmul",
    Op.DIV: "fdiv",
    Op.IADD: "add",
    Op.ISUB: "sub",
    Op.IAND: "and",
    Op.IOR: "or",
    Op.IXOR: "xor",
}
_CONVERSIONS: Final[dict[Op, tuple[str, str, str]]] = {
    Op.BITS: ("bitcast", "float", "i32"),
    Op.FROM_BITS: ("bitcast", "i32", "float"),
    Op.WIDEN: ("fpext", "float", "double"),
    Op.NARROW: ("fptrunc", "double", "float"),
    Op.FROM_INT: ("sitofp", "i32", "double"),
}
_SHIFTS: Final = {Op.ISHL: "shl", Op.ISHR: "lshr", Op.ISAR: "ashr"}
_COMPARISONS: Final = {Op.IEQ: "eq", Op.ILT: "ult"}


class _Definition(NamedTuple):
    """An LLVM function, and the lines outside of it that it needs."""

    name: str
    text: str
    module: tuple[str, ...]


def call(k: Kernel, op: UnaryOp, a: Value) -> Value:
    """Returns a transcendental function of an f32."""
    lifted = lift(k, a)
    definition = _definition(op, lifted.ins.lanes)
    for line in definition.module:
        k.w.declare(line)
    k.w.declare(definition.text)
    kind, x = lifted.ins.type("float"), lifted.operands[0]
    if lifted.ins.lanes is None:
        return lifted.value(ScalarType.F32, k.w.pure(f"call {kind} {definition.name}({kind} {{}})", x))
    active = "-1" if k.mask is None else k.w.pure(f"bitcast {k.vector_type('i1')} {{}} to i{k.lanes}", k.mask)
    form = f"call {kind} {definition.name}({kind} {{}}, i{k.lanes} {{}})"
    return lifted.value(ScalarType.F32, k.w.pure(form, x, active))


@cache
def _definition(op: UnaryOp, lanes: int | None) -> _Definition:
    program = transcendental(op)
    walk = _Walk(program, lanes)
    result = walk.run()
    kind = walk.ins.type("float")
    name, parameters = f"@vyre.{program.name}", f"{kind} %x"
    if lanes is not None:
        name, parameters = f"{name}.v{lanes}", f"{parameters}, i{lanes} %active"
    head = f"define internal {kind} {name}({parameters}) {_ATTRIBUTES} {{\nentry:"
    text = f"{head}\n{walk.ins.w.text()}\n  ret {kind} {result}\n}}"
    return _Definition(name, text, tuple(walk.ins.w.module))


class _Walk:
    """Writes the steps of a program; values of arms that are branched around are computed in their own block."""

    def __init__(self, program: F64Program, lanes: int | None) -> None:
        self.ins: Final = Instructions(Writer(), lanes)
        self._program: Final = program
        self._steps: Final = program.steps
        self._arms: Final = Arms(program)
        self._values: Final[list[str | None]] = [None] * len(program.steps)
        self._done: Final[set[Arm]] = set()

    def run(self) -> str:
        """Writes all steps and returns the result."""
        # What an inactive lane holds may have no value, on which nothing must branch.
        self._values[0] = self.ins.do("freeze", "float", "%x")
        for index in self._arms.members(ROOT):
            self._ensure(index)
        return self._value(len(self._steps) - 1)

    def _value(self, index: int) -> str:
        value = self._values[index]
        assert value is not None, "a step is written after those that it reads"
        return value

    def _ensure(self, index: int) -> None:
        """Writes a step, and before it whatever it reads that is not written yet."""
        if self._values[index] is not None:
            return
        step = self._steps[index]
        for arm in self._arms.of_select(index):
            self._run_arm(arm)
        for arg in step.args:
            self._ensure(arg)
        self._values[index] = self._step(step)

    def _run_arm(self, arm: Arm) -> None:
        """Writes an arm in a block that is skipped if no active lane needs it."""
        if arm in self._done:
            return
        self._done.add(arm)
        for outside in self._arms.reads(arm):
            self._ensure(outside)
        w, predicate, position = self.ins.w, *arm[-1]
        self._ensure(predicate)
        inside, end, before = w.label("arm"), w.label("end"), w.block
        condition = self._needed(self._value(predicate))
        if position == 1:
            w.branch(condition, inside, end)
        elif self.ins.lanes is None:
            w.branch(condition, end, inside)
        else:
            w.branch(self._needed(self.ins.do("xor", "i1", self._value(predicate), self.ins.truth(True))), inside, end)
        w.open_scope()
        w.place(inside)
        for index in self._arms.members(arm):
            self._ensure(index)
        after = w.block
        w.jump(end)
        w.close_scope()
        w.place(end)
        for index in self._arms.results(arm):
            kind = self.ins.type(_ELEMENT[self._steps[index].kind])
            value = self._value(index)
            self._values[index] = w.here(f"phi {kind} [ {value}, %{after} ], [ zeroinitializer, %{before} ]")

    def _needed(self, predicate: str) -> str:
        """Returns an i1 that is true if a predicate holds for an active lane."""
        lanes, w = self.ins.lanes, self.ins.w
        if lanes is None:
            return predicate
        bits = w.pure(f"bitcast {self.ins.type('i1')} {{}} to i{lanes}", predicate)
        return w.pure(f"icmp ne i{lanes} {{}}, 0", w.pure(f"and i{lanes} {{}}, %active", bits))

    def _step(self, step: F64Step) -> str:
        op, kind, args, immediate = step
        ins, element = self.ins, _ELEMENT[kind]
        operands = [self._value(arg) for arg in args]
        if op in _DIRECT:
            return ins.do(_DIRECT[op], element, *operands)
        if op in _CONVERSIONS:
            return ins.convert(*_CONVERSIONS[op], operands[0])
        if op in _SHIFTS:
            return ins.do(_SHIFTS[op], element, operands[0], ins.number(element, immediate))
        if op in _COMPARISONS:
            return ins.compare(_COMPARISONS[op], "i32", *operands)
        match op:
            case Op.CONST:
                return self._constant(kind, immediate)
            case Op.SQRT:
                return ins.call("sqrt", element, operands[0])
            case Op.LO32:
                return ins.convert("trunc", "i64", "i32", self._pattern(args[0]))
            case Op.HI32:
                high = ins.do("lshr", "i64", self._pattern(args[0]), ins.number("i64", 32))
                return ins.convert("trunc", "i64", "i32", high)
            case Op.PACK:
                return ins.from_bits("double", self._packed(*args))
            case Op.FUNNEL:
                return ins.call("fshl", "i32", *operands)
            case Op.IMUL_WIDE:
                return ins.do("mul", "i64", *[ins.convert("zext", "i32", "i64", x) for x in operands])
            case Op.SELECT:
                return ins.select(element, *operands)
            case Op.TABLE:
                return self._entry(self._program.tables[immediate], args[0])
            case _:
                raise AssertionError(f"no instruction for {op}")

    def _constant(self, kind: Kind, bits: int) -> str:
        match kind:
            case Kind.F32:
                text = f"float {float_text(bits)}"
            case Kind.F64:
                text = f"double 0x{bits:016X}"
            case _:
                return self.ins.number(_ELEMENT[kind], bits)
        return text.split()[1] if self.ins.lanes is None else f"splat ({text})"

    def _pattern(self, index: int) -> str:
        """Returns an F64 or I64 as 64 bits."""
        value = self._value(index)
        return self.ins.bits("double", value) if self._steps[index].kind is Kind.F64 else value

    def _packed(self, low: int, high: int) -> str:
        """Returns 64 bits from two words."""
        ins, steps = self.ins, self._steps
        if steps[low].op is Op.LO32 and steps[high].op is Op.IADD:
            # A sum with the high word of a number is a sum with the number, since the low word does not carry.
            whole, (one, other) = steps[low].args[0], steps[high].args
            if steps[one].op is Op.HI32 and steps[one].args == (whole,):
                return ins.do("add", "i64", self._pattern(whole), self._high_word(other))
        lower = ins.convert("zext", "i32", "i64", self._value(low))
        if steps[high].op is Op.CONST:
            return ins.do("or", "i64", lower, ins.number("i64", steps[high].immediate << 32))
        return ins.do("or", "i64", lower, self._high_word(high))

    def _high_word(self, index: int) -> str:
        """Returns 64 bits, of which a word is the high half; the low half is 0."""
        ins, steps = self.ins, self._steps
        step = steps[index]
        if step.op is Op.ISHL and steps[step.args[0]].op is Op.ISAR:
            # A field of the low word of a number is moved at once, without the detour by words.
            field = steps[step.args[0]]
            if steps[field.args[0]].op is Op.LO32 and field.immediate <= step.immediate:
                number = self._pattern(steps[field.args[0]].args[0])
                lowest = ins.do("lshr", "i64", number, ins.number("i64", field.immediate))
                return ins.do("shl", "i64", lowest, ins.number("i64", 32 + step.immediate))
        return ins.do("shl", "i64", ins.convert("zext", "i32", "i64", self._value(index)), ins.number("i64", 32))

    def _index(self, index: int) -> str:
        """Returns a word, extended by zeros to 64 bits."""
        ins, steps = self.ins, self._steps
        step = steps[index]
        if step.op is Op.IAND and steps[step.args[0]].op is Op.LO32 and steps[step.args[1]].op is Op.CONST:
            number = self._pattern(steps[step.args[0]].args[0])
            return ins.do("and", "i64", number, ins.number("i64", steps[step.args[1]].immediate))
        return ins.convert("zext", "i32", "i64", self._value(index))

    def _entry(self, table: Table, index: int) -> str:
        """Returns the entries of a table at indices that are in range whatever the input is."""
        ins, w, element = self.ins, self.ins.w, _ELEMENT[table.kind]
        name = _table_name(table)
        w.declare(_table_text(table))
        offset = self._index(index)
        if ins.lanes is None:
            place = w.pure(f"getelementptr {element}, ptr {name}, i64 {{}}", offset)
            return w.pure(f"load {element}, ptr {{}}", place)
        place = w.pure(f"getelementptr {element}, ptr {name}, {ins.type('i64')} {{}}", offset)
        kind, mask = ins.type(element), ins.type("i1")
        suffix = f"v{ins.lanes}{'f64' if element == 'double' else 'i32'}.v{ins.lanes}p0"
        w.declare(f"declare {kind} @llvm.masked.gather.{suffix}({ins.type('ptr')}, i32, {mask}, {kind})")
        alignment = 8 if element == "double" else 4
        arguments = f"{ins.type('ptr')} {{}}, i32 {alignment}, {mask} splat (i1 true), {kind} zeroinitializer"
        return w.pure(f"call {kind} @llvm.masked.gather.{suffix}({arguments})", place)


def _table_name(table: Table) -> str:
    """Returns a name that tells tables apart by what they hold."""
    return f"@vyre.table.{sha256(repr((table.kind.value, table.entries)).encode()).hexdigest()[:16]}"


@cache
def _table_text(table: Table) -> str:
    element = _ELEMENT[table.kind]
    entries = ", ".join(f"{element} {f'0x{e:016X}' if element == 'double' else e}" for e in table.entries)
    kind = f"[{len(table.entries)} x {element}]"
    return f"{_table_name(table)} = private unnamed_addr constant {kind} [{entries}], align 64"
