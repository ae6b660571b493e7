"""All 2^32 pairs of operands of f16 and of bf16: their own instructions against an f32 that is narrowed on the device.

A program computes each sum, difference and product twice: as it is, and behind a bit cast, which keeps an f32.  It
counts the pairs whose stored bits differ.  That narrowing is right is a matter of the operator matrix.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import vyre
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from vyre import Program, ProgramBuilder, ScalarType, Value, bf16, f16, f32, pack, u32, unpack
from vyre.testing.outcomes import Outcome, Verdict

_WORKGROUP: Final = 256
PATTERNS: Final = 1 << 16
OPERATORS: Final = ("+", "-", "*")


REHEARSAL: Final = 331
"""Of so many operands one takes part where the device is emulated."""


def program_of(element: ScalarType, operator: str, step: int) -> Program:
    """``wrong[0]`` := the number of pairs; ``wrong[1]`` := the greatest one, plus 1, as left * 2^16 + right.

    The pairs are those of every ``step``-th operand.
    """
    rights = -(-PATTERNS // step)
    with ProgramBuilder(f"{element.text} {operator}", workgroup=_WORKGROUP) as p:
        wrong = p.output("wrong", u32, 2)
        right = p.let(p.global_id() * step)
        b = p.let(unpack(element, right))
        count, last = p.var(u32(0)), p.var(u32(0))
        with p.if_(p.global_id() < rights), p.for_(0, PATTERNS, step) as left:
            result = p.let(_applied(operator, unpack(element, left), b))
            kept = p.let(result.bitcast(u32).bitcast(f32))
            with p.if_(pack(element, result) != pack(element, kept)):
                count.assign(count + 1)
                last.assign((left << 16 | right) + 1)
        wrong.atomic_add(0, count)
        wrong.atomic_max(1, last)
    return p.build()


def _applied(operator: str, a: Value, b: Value) -> Value:
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case _:
            return a * b


def check_operator(session: vyre.Session, element: ScalarType, operator: str, step: int) -> Outcome:
    rights = -(-PATTERNS // step)
    found = session.dispatch(program_of(element, operator, step), {}, grid=-(-rights // _WORKGROUP))["wrong"]
    count, last = (int(word) for word in found)
    name = f"{element.text} {operator}"
    if not count:
        return Outcome(name, Verdict.PASSED)
    a, b = divmod(last - 1, PATTERNS)
    return Outcome(name, Verdict.FAILED, f"{count} pairs differ, such as {a:#06x} {operator} {b:#06x}")


def halves(context: Context) -> Iterator[Finding]:
    step = REHEARSAL if context.emulated else 1
    seconds: dict[str, float] = {}
    with vyre.open(context.backend) as session:
        claimed = {f16: session.profile.supports_f16, bf16: session.profile.supports_bf16}
        for element, claims in claimed.items():
            for operator in OPERATORS:
                started = time.perf_counter()
                outcome = check_operator(session, element, operator, step)
                seconds[outcome.name] = round(time.perf_counter() - started, 3)
                yield outcome
            yield Fact(f"{element.text}_is_native", claims)
    yield Fact("seconds", seconds)
    yield Fact("pairs", (-(-PATTERNS // step)) ** 2)
