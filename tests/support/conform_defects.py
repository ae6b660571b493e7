"""Backends that are wrong in one place each: what ``vyre conform`` must find.

``PYTHONPATH=tests python -m support.conform_defects --out benchmarks/results/conform-defects.json`` checks each of them
as a user would and records when its first wrong result was found.

A defect rewrites the program before the reference runs it, so that exactly one rule of the language is another one.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from vyre.domain.dispatch import DispatchTiming
from vyre.domain.ir.expr import (
    Atomic,
    Binary,
    Cast,
    Expr,
    Fma,
    IdKind,
    LaunchId,
    Literal,
    Load,
    Narrow,
    Pack,
    Select,
    SubgroupBallot,
    SubgroupReduce,
    SubgroupShuffle,
    Unary,
    Unpack,
    Var,
    WrapCast,
)
from vyre.domain.ir.operators import AtomicOp, BinaryOp, UnaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.stmt import (
    STMT_TYPES,
    Arm,
    AsyncStore,
    Block,
    Break,
    Continue,
    GridLoop,
    If,
    Let,
    Loop,
    Return,
    Store,
    Switch,
    Trap,
    walk_statements,
)
from vyre.domain.ir.types import ScalarType, bf16, bool_, f16, f32, f64, i8, i32, i64, u8, u32, u64
from vyre.domain.optimize.static_types import StaticTypes
from vyre.domain.optimize.walking import with_unique_locals
from vyre.ports.backend import Backend
from vyre.ports.execution import ProgramExecutor
from vyre.ports.requests import DispatchRequest, OutputStorage
from vyre.testing.conform.certificate import Subject
from vyre.testing.conform.checking import Opened, check
from vyre.testing.execution import open_backend

Change = Callable[[Any, StaticTypes], Any]


def _flat(body: Any) -> Any:
    """A tree in which a statement may have become a tuple of them."""
    if isinstance(body, tuple):
        return tuple(part for each in body for part in (_flat(each) if type(each) is tuple else (_flat(each),)))
    if type(body) in (*STMT_TYPES, Arm):
        changed = {
            name: _flat(getattr(body, name)) for name in body.__match_args__ if type(getattr(body, name)) is tuple
        }
        return replace(body, **changed) if changed else body
    return body


def _types(program: Program) -> StaticTypes:
    types = StaticTypes(program)
    types.declare_all(walk_statements(program.body))
    return types


@dataclass(frozen=True, slots=True)
class Defect:
    """A wrong rule: nodes of a kind that become others."""

    name: str
    change: Change

    def of(self, program: Program) -> Program:
        """Returns the program that a backend with this defect runs."""
        program = with_unique_locals(program)
        types = _types(program)
        return replace(program, body=_flat(rebuilt(program.body, lambda node: self.change(node, types))))


def _binary(op: BinaryOp, dtype: ScalarType | None, wrong: Callable[[Expr, Expr], Expr]) -> Change:
    def change(node: Any, types: StaticTypes) -> Any:
        if isinstance(node, Binary) and node.op is op and dtype in (None, types.of(node.left)):
            return wrong(node.left, node.right)
        return node

    return change


def _unary(op: UnaryOp, dtype: ScalarType | None, wrong: Callable[[Expr], Expr]) -> Change:
    def change(node: Any, types: StaticTypes) -> Any:
        if isinstance(node, Unary) and node.op is op and dtype in (None, types.of(node.operand)):
            return wrong(node.operand)
        return node

    return change


def _node(kind: type[Any], wrong: Callable[[Any], Any]) -> Change:
    return lambda node, types: wrong(node) if type(node) is kind else node


def _b(op: BinaryOp, left: Expr, right: Expr) -> Expr:
    return Binary(op, left, right)


def _if_equal(left: Expr, bits: int, dtype: ScalarType, then: Expr, otherwise: Expr) -> Expr:
    return Select(Binary(BinaryOp.EQ, left, Literal(dtype, bits)), then, otherwise)


def _next_float(value: Expr, dtype: ScalarType) -> Expr:
    """The float one unit in the last place further from 0."""
    from vyre.domain.ir.expr import Bitcast

    word = u32 if dtype is f32 else u64
    return Bitcast(dtype, Binary(BinaryOp.ADD, Bitcast(word, value), Literal(word, 1)))


def _unmasked(op: BinaryOp, dtype: ScalarType) -> Change:
    """A shift by the width or more gives 0."""

    def wrong(left: Expr, right: Expr) -> Expr:
        far = Binary(BinaryOp.GE, Cast(u64, right), Literal(u64, dtype.bits))
        return Select(far, Literal(dtype, 0), Binary(op, left, right))

    return _binary(op, dtype, wrong)


def _by_zero(op: BinaryOp, dtype: ScalarType, bits: int) -> Change:
    return _binary(op, dtype, lambda a, b: _if_equal(b, 0, dtype, Literal(dtype, bits), Binary(op, a, b)))


def _atomic(op: AtomicOp, wrong: AtomicOp, dtype_of: ScalarType | None = None) -> Change:
    return lambda node, types: (
        replace(node, op=wrong)
        if isinstance(node, Atomic) and node.op is op and dtype_of in (None, types.of(node))
        else node
    )


def _loads(change: Callable[[Load], Expr]) -> Change:
    return lambda node, types: change(node) if type(node) is Load else node


def _only(dtype: ScalarType, kind: type[Any], wrong: Callable[[Any], Any]) -> Change:
    return lambda node, types: wrong(node) if type(node) is kind and node.dtype is dtype else node


def _cast(target: ScalarType, source: ScalarType, wrong: Callable[[Cast], Expr]) -> Change:
    return lambda node, types: (
        wrong(node) if type(node) is Cast and node.dtype is target and types.of(node.operand) is source else node
    )


def _first_arm_gone(node: Switch) -> Any:
    return replace(node, arms=node.arms[1:]) if len(node.arms) > 1 else node


def _one_round_less(node: Loop) -> Any:
    if isinstance(node.start, Literal) and isinstance(node.stop, Literal) and node.start.bits == 0 == node.stop.bits:
        return node
    return replace(node, start=Binary(BinaryOp.ADD, node.start, node.step))


def _loaded_and_stored(node: Let) -> Any:
    """The update of an atomic whose old value has a name: lanes that meet on an element lose updates."""
    update = node.value
    if not isinstance(update, Atomic) or update.op is not AtomicOp.ADD:
        return node
    total = Binary(BinaryOp.ADD, Var(node.name), update.value)
    return Let(node.name, Load(update.buffer, update.index)), Store(update.buffer, update.index, total)


DEFECTS: Final = tuple(
    Defect(name, change)
    for name, change in {
        # Rules of integers
        "u32 addition saturates": _binary(BinaryOp.ADD, u32, lambda a, b: _b(BinaryOp.SATURATING_ADD, a, b)),
        "i32 subtraction saturates": _binary(BinaryOp.SUB, i32, lambda a, b: _b(BinaryOp.SATURATING_SUB, a, b)),
        "u32 / 0 is 0": _by_zero(BinaryOp.DIV, u32, 0),
        "i32 / 0 is all ones": _by_zero(BinaryOp.DIV, i32, 0xFFFF_FFFF),
        "u64 % 0 is the dividend": _binary(
            BinaryOp.MOD, u64, lambda a, b: _if_equal(b, 0, u64, a, _b(BinaryOp.MOD, a, b))
        ),
        "i64 % -1 of the least value is the value": _binary(
            BinaryOp.MOD,
            i64,
            lambda a, b: _if_equal(
                b, (1 << 64) - 1, i64, _if_equal(a, 1 << 63, i64, a, Literal(i64, 0)), _b(BinaryOp.MOD, a, b)
            ),
        ),
        "u32 << 32 is 0": _unmasked(BinaryOp.SHL, u32),
        "u64 >> 64 is 0": _unmasked(BinaryOp.SHR, u64),
        "i32 >> is logical": _binary(
            BinaryOp.SHR, i32, lambda a, b: Cast(i32, _b(BinaryOp.SHR, Cast(u32, a), Cast(u32, b)))
        ),
        "i32 < is unsigned": _binary(BinaryOp.LT, i32, lambda a, b: _b(BinaryOp.LT, Cast(u32, a), Cast(u32, b))),
        "u64 > compares the low halves": _binary(
            BinaryOp.GT, u64, lambda a, b: _b(BinaryOp.GT, Cast(u32, a), Cast(u32, b))
        ),
        "u32 rotate_left turns right": _binary(BinaryOp.ROTATE_LEFT, u32, lambda a, b: _b(BinaryOp.ROTATE_RIGHT, a, b)),
        "i32 min is that of unsigned numbers": _binary(
            BinaryOp.MIN, i32, lambda a, b: Cast(i32, _b(BinaryOp.MIN, Cast(u32, a), Cast(u32, b)))
        ),
        "u32 clz of 0 is 31": _unary(
            UnaryOp.CLZ, u32, lambda a: _if_equal(a, 0, u32, Literal(u32, 31), Unary(UnaryOp.CLZ, a))
        ),
        "i32 abs of the least value is the greatest": _unary(
            UnaryOp.ABS,
            i32,
            lambda a: _if_equal(a, 1 << 31, i32, Literal(i32, 0x7FFF_FFFF), Unary(UnaryOp.ABS, a)),
        ),
        "u64 popcount counts the low half": _unary(
            UnaryOp.POPCOUNT, u64, lambda a: Unary(UnaryOp.POPCOUNT, _b(BinaryOp.BIT_AND, a, Literal(u64, 0xFFFF_FFFF)))
        ),
        # Rules of floats
        "f32 sqrt is one unit off": _unary(UnaryOp.SQRT, f32, lambda a: _next_float(Unary(UnaryOp.SQRT, a), f32)),
        "f64 division is one unit off": _binary(
            BinaryOp.DIV, f64, lambda a, b: _next_float(_b(BinaryOp.DIV, a, b), f64)
        ),
        "f32 division multiplies by the reciprocal": _binary(
            BinaryOp.DIV, f32, lambda a, b: _b(BinaryOp.MUL, a, Unary(UnaryOp.RECIPROCAL, b))
        ),
        "f32 sin is one unit off at one number": _unary(
            UnaryOp.SIN,
            f32,
            lambda a: _if_equal(a, 0x3F80_0000, f32, _next_float(Unary(UnaryOp.SIN, a), f32), Unary(UnaryOp.SIN, a)),
        ),
        "f32 min takes the first of two zeros": _binary(
            BinaryOp.MIN, f32, lambda a, b: Select(_b(BinaryOp.EQ, a, b), a, _b(BinaryOp.MIN, a, b))
        ),
        "f32 max with NaN is NaN": _binary(
            BinaryOp.MAX,
            f32,
            lambda a, b: Select(_b(BinaryOp.NE, a, a), a, Select(_b(BinaryOp.NE, b, b), b, _b(BinaryOp.MAX, a, b))),
        ),
        "f32 round goes to even": _unary(UnaryOp.ROUND, f32, lambda a: Unary(UnaryOp.ROUND_EVEN, a)),
        "f32 products and sums are fused": lambda node, types: (
            Fma(node.left.left, node.left.right, node.right)
            if isinstance(node, Binary)
            and node.op is BinaryOp.ADD
            and isinstance(node.left, Binary)
            and node.left.op is BinaryOp.MUL
            and types.of(node.left) is f32
            else node
        ),
        "f64 fma rounds twice": lambda node, types: (
            Binary(BinaryOp.ADD, Binary(BinaryOp.MUL, node.a, node.b), node.c)
            if isinstance(node, Fma) and types.of(node) is f64
            else node
        ),
        "f32 addition flushes subnormal sums": _binary(
            BinaryOp.ADD,
            f32,
            lambda a, b: Select(
                _b(BinaryOp.LT, Unary(UnaryOp.ABS, _b(BinaryOp.ADD, a, b)), Literal(f32, 0x0080_0000)),
                Literal(f32, 0),
                _b(BinaryOp.ADD, a, b),
            ),
        ),
        "f32 negate is a subtraction from 0": _unary(
            UnaryOp.NEGATE, f32, lambda a: _b(BinaryOp.SUB, Literal(f32, 0), a)
        ),
        # Conversions and memory
        "f32 to i32 wraps": _cast(i32, f32, lambda node: WrapCast(i32, node.operand)),
        "f64 to f32 goes by way of truncated bits": _cast(f32, f64, lambda node: Cast(f32, _truncated(node.operand))),
        "u64 to f32 goes by way of f64": _cast(f32, u64, lambda node: Cast(f32, Cast(f64, node.operand))),
        "i32 to i64 extends with zeros": _cast(i64, i32, lambda node: Cast(i64, Cast(u32, node.operand))),
        "u32 to bool takes the low bit": _cast(
            bool_, u32, lambda node: Cast(bool_, Binary(BinaryOp.BIT_AND, node.operand, Literal(u32, 1)))
        ),
        "f16 is packed without subnormals": _only(f16, Pack, lambda node: Pack(f16, _without_subnormals(node.operand))),
        "bf16 is narrowed twice through f16": _only(bf16, Narrow, lambda node: Narrow(bf16, Narrow(f16, node.operand))),
        "i8 is unpacked without its sign": _only(i8, Unpack, lambda node: Cast(i32, Unpack(u8, node.operand))),
        "loads are one element behind": _loads(
            lambda node: (
                replace(node, index=Binary(BinaryOp.ADD, node.index, Literal(u32, 1)))
                if isinstance(node.index, LaunchId)
                else node
            )
        ),
        "atomic_add forgets: the last one wins": _atomic(AtomicOp.ADD, AtomicOp.EXCHANGE),
        "atomic_add is a load and a store": _node(Let, _loaded_and_stored),
        "atomic_min of i32 is atomic_max": _atomic(AtomicOp.MIN, AtomicOp.MAX, i32),
        "atomic_xor is atomic_or": _atomic(AtomicOp.XOR, AtomicOp.OR),
        # Lanes and flow
        "subgroups add their own value": _node(SubgroupReduce, lambda node: node.value),
        "ballots are complemented": _node(SubgroupBallot, lambda node: Unary(UnaryOp.BIT_NOT, node)),
        "shuffles read the next lane": _node(
            SubgroupShuffle, lambda node: replace(node, lane=Binary(BinaryOp.ADD, node.lane, Literal(u32, 1)))
        ),
        "else branches are dropped": _node(If, lambda node: replace(node, otherwise=())),
        "the first arm of a switch is dropped": _node(Switch, _first_arm_gone),
        "default arms are dropped": _node(Switch, lambda node: replace(node, default=())),
        "loops leave out a round": _node(Loop, _one_round_less),
        "continue leaves the loop": _node(Continue, lambda node: Break()),
        "break goes on": _node(Break, lambda node: Continue()),
        "return does nothing": _node(Return, lambda node: Block(())),
        "traps are ignored": _node(Trap, lambda node: Return()),
        "asynchronous stores copy nothing": _node(AsyncStore, lambda node: replace(node, size=Literal(u32, 0))),
        "grid loops run one round": _node(GridLoop, lambda node: replace(node, limit=_at_most_one(node.limit))),
        "axis y counts as x": lambda node, types: (
            replace(node, axis=0)
            if isinstance(node, LaunchId) and node.kind is IdKind.LOCAL and node.axis == 1
            else node
        ),
        "select takes the other value for equal operands of i64": lambda node, types: (
            Select(node.condition, node.on_false, node.on_true)
            if isinstance(node, Select) and types.of(node) is i64
            else node
        ),
    }.items()
)


def _at_most_one(limit: Expr) -> Expr:
    return Binary(BinaryOp.MIN, limit, Literal(u32, 1))


def _truncated(value: Expr) -> Expr:
    from vyre.domain.ir.expr import Bitcast

    kept = Literal(u64, ((1 << 64) - 1) ^ ((1 << 29) - 1))
    return Bitcast(f64, Binary(BinaryOp.BIT_AND, Bitcast(u64, value), kept))


def _without_subnormals(value: Expr) -> Expr:
    small = Binary(BinaryOp.LT, Unary(UnaryOp.ABS, value), Literal.of(f32, 2.0**-14))
    return Select(small, Binary(BinaryOp.MUL, value, Literal.of(f32, 0.0)), value)


_ENDLESS: Final = 2_000
"""The rounds of a lane after which a defective backend gives up what its defect made endless."""


@dataclass(frozen=True, slots=True)
class _DefectiveExecutor:
    inner: ProgramExecutor
    defect: Defect

    def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
        budget = _ENDLESS if request.config.step_budget is None else request.config.step_budget
        wrong = replace(
            request,
            program=self.defect.of(request.program),
            config=replace(request.config, step_budget=budget, chunk_workgroups=1),
        )
        return self.inner.execute(wrong, outputs)


def defective(defect: Defect) -> Backend:
    """The reference with a defect."""
    backend = open_backend("reference")
    return replace(backend, executor=_DefectiveExecutor(backend.executor, defect), compiler=None)


def found_in(defect: Defect, budget_s: float) -> dict[str, Any]:
    """When and where a check finds a defect, in cases and seconds of its run."""
    subject = Subject("reference", "defective", {}, None, canonical_order=True, counts_steps=True)
    start = time.monotonic()
    first: dict[str, Any] = {"defect": defect.name, "case": None, "seconds": None, "cases": 0}

    class Found(Exception):
        pass

    def told(case: Any, judged: Any) -> None:
        first["cases"] += 1
        if judged.failed:
            first["case"], first["seconds"] = case.name, round(time.monotonic() - start, 1)
            raise Found

    with suppress(Found):
        check(Opened(defective(defect), subject), seed=0, budget_s=budget_s, told=told)
    return first


def main() -> int:
    parser = argparse.ArgumentParser(description="how soon `vyre conform` finds seeded defects")
    parser.add_argument("--budget", type=float, default=120.0, help="seconds for each")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows: list[Mapping[str, Any]] = []
    for defect in DEFECTS:
        rows.append(found_in(defect, options.budget))
        print(f"{defect.name}: {rows[-1]['case']} after {rows[-1]['seconds']} s", flush=True)
    missed = [row["defect"] for row in rows if row["case"] is None]
    if options.out is not None:
        record = {"budget_s": options.budget, "python": platform.python_version(), "missed": missed, "defects": rows}
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"{len(rows) - len(missed)} of {len(rows)} defects were found")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
