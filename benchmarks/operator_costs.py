"""Measures each operator by type on the engines of this machine: ``python -m benchmarks.operator_costs [--write]``.

A program adds up the results of one operator on values that differ in every round of a loop.  The price of a result is
the time that this takes beyond the same program without the operator, in times of the median of five simple operators
on u32.  The least of several runs counts, since other processes only add to it.  Where LLVM makes one operation of the
operator and the sum around it, as of a negation, the price is 0 and tells nothing.

The record is ``benchmarks/results/operator-costs.json``.  ``tests/unit/domain/egraph/test_costs.py`` compares the table
by which the optimizer chooses forms (``src/vyre/domain/optimize/egraph/heads.py``) with it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

import vyre
from benchmarks.machine import describe
from vyre.adapters.cpu.registration import cpu_catalog
from vyre.adapters.cpu.runtime.options import CpuOptions
from vyre.domain.ir.expr import Binary, Cast, Expr, Fma, IdKind, LaunchId, Literal, Load, Select, Unary, Var
from vyre.domain.ir.operators import BINARY, UNARY, BinaryOp, Result, UnaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Assign, Let, Loop, Stmt, Store
from vyre.domain.ir.types import ScalarType

RECORD: Final = Path(__file__).parent / "results" / "operator-costs.json"
TYPES: Final = (ScalarType.U32, ScalarType.I32, ScalarType.U64, ScalarType.F32, ScalarType.F64)
LANES: Final = 1 << 12
VALUES: Final = 8
RESULTS: Final = 4
"""The values that a lane loads, and the results that it computes of each in every round."""
ROUNDS: Final = {"cpu": 16, "reference": 2}
_U32: Final = ScalarType.U32
_LANE: Final = LaunchId(IdKind.GLOBAL, 0)


class Case(NamedTuple):
    """An operator on a type: its name in the record, and its result for two operands that change in every round."""

    name: str
    dtype: ScalarType
    result: Callable[[Expr, Expr], Expr]


def cases(dtype: ScalarType) -> Iterator[Case]:
    """Yields the operators whose operands and results have a type, and what is made of them otherwise."""
    for op, row in BINARY.items():
        if dtype in row.operands:
            yield Case(row.text, dtype, partial(_binary, op, row.result))
    for unary, row_ in UNARY.items():
        if dtype in row_.operands and row_.result is Result.LEFT:
            yield Case(row_.text, dtype, partial(_unary, unary))
    yield Case("select", dtype, lambda a, b: Select(Binary(BinaryOp.EQ, a, b), b, a))
    if dtype.is_float:
        yield Case("fma", dtype, lambda a, b: Fma(a, b, a))
    for other in TYPES:
        if other is not dtype:
            yield Case(f"cast<{other.text}> and back", dtype, partial(_there_and_back, other, dtype))


def _binary(op: BinaryOp, result: Result, a: Expr, b: Expr) -> Expr:
    made = Binary(op, a, b)
    return Select(made, a, b) if result is Result.BOOL else made


def _unary(op: UnaryOp, a: Expr, _: Expr) -> Expr:
    return Unary(op, a)


def _there_and_back(other: ScalarType, dtype: ScalarType, a: Expr, _: Expr) -> Expr:
    return Cast(dtype, Cast(other, a))


def program_of(case: Case | None, dtype: ScalarType, rounds: int) -> Program:
    """Returns the program that adds up the results of an operator; without one, its operands."""
    text = dtype.text
    declared = Program.from_text(
        f"program costs\nworkgroup_size 64, 1, 1\nbuffer x @0 read {text}[{LANES + VALUES + RESULTS}]\n"
        f"buffer y @1 read_write {text}[{LANES}]\nbody {{\n}}\n"
    )
    body: list[Stmt] = [
        Let(f"v{k}", Load("x", Binary(BinaryOp.ADD, _LANE, Literal.of(_U32, k)))) for k in range(VALUES + RESULTS)
    ]
    body += [Let(f"sum{k}", Var(f"v{k}")) for k in range(VALUES)]
    step: Expr = Cast(dtype, Var("k"))
    inner: list[Stmt] = [Let("t", Binary(BinaryOp.MUL, step, Literal.of(dtype, 1 / 128)) if dtype.is_float else step)]
    for k in range(VALUES):
        inner.append(Let(f"a{k}", Binary(BinaryOp.ADD, Var(f"v{k}"), Var("t"))))
        for j in range(RESULTS):
            name, other = f"r{k}_{j}", Var(f"v{VALUES + j}")
            inner.append(Let(name, Binary(BinaryOp.ADD, Var(f"a{k}"), other)))
            result = Var(name) if case is None else case.result(Var(name), other)
            inner.append(Assign(f"sum{k}", Binary(BinaryOp.ADD, Var(f"sum{k}"), result)))
    zero, one = Literal.of(_U32, 0), Literal.of(_U32, 1)
    body.append(Loop("k", zero, Literal.of(_U32, rounds), one, tuple(inner)))
    total: Expr = Var("sum0")
    for k in range(1, VALUES):
        total = Binary(BinaryOp.ADD, total, Var(f"sum{k}"))
    body.append(Store("y", _LANE, total))
    return Program(
        name=declared.name, workgroup_size=declared.workgroup_size, buffers=declared.buffers, body=tuple(body)
    )


def _inputs(dtype: ScalarType) -> dict[str, bytes]:
    random = np.random.default_rng(1)
    count = LANES + VALUES + RESULTS
    if dtype.is_float:
        values = random.uniform(0.5, 1.0, count).astype(f"f{dtype.bits // 8}")
    else:
        values = random.integers(1, 25, count).astype(f"u{dtype.bits // 8}")
    return {"x": values.tobytes(), "y": bytes(LANES * dtype.bits // 8)}


def _seconds(session: vyre.Session, program: Program, dtype: ScalarType, runs: int) -> float:
    """Returns the least time of a launch, since other processes only add to it."""
    config = vyre.DispatchConfig(grid=LANES // 64, optimize=False)
    launch = session.bind(program, _inputs(dtype), config)
    launch()
    taken = []
    for _ in range(runs):
        started = time.perf_counter()
        launch()
        taken.append(time.perf_counter() - started)
    return min(taken)


def prices(engine: str, runs: int) -> dict[str, dict[str, float]]:
    """Returns what each operator costs on an engine by type, in simple operations on u32 of the same engine."""
    rounds = ROUNDS[engine]
    catalog = {"catalog": cpu_catalog(CpuOptions(threads=1, recompile=False))} if engine == "cpu" else {}
    found: dict[str, dict[str, float]] = {}
    with vyre.open(engine, cache=False, **catalog) as session:  # type: ignore[arg-type]
        for dtype in TYPES:
            base = _seconds(session, program_of(None, dtype, rounds), dtype, runs)
            found[dtype.text] = {
                case.name: _seconds(session, program_of(case, dtype, rounds), dtype, runs) - base
                for case in cases(dtype)
            }
    unit = statistics.median(found["u32"][name] for name in ("+", "-", "&", "|", "^"))
    return {
        text: {name: round(max(taken, 0.0) / unit, 2) for name, taken in by_name.items()}
        for text, by_name in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="prices of operators by type, in simple operations on u32")
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--write", action="store_true", help="write the record")
    options = parser.parse_args()
    record = {
        "machine": describe(),
        "unit": "simple operations on u32",
        "prices": {e: prices(e, options.runs) for e in ROUNDS},
    }
    if options.write:
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record["prices"], indent=1))


if __name__ == "__main__":
    main()
