"""Random programs with grid loops: a part of a random program becomes the body of a loop.

Where a program computes the same bytes in any order, so does it with a part of it repeated behind grid barriers.  A
counter in memory decides how many rounds set the flag.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from vyre.domain.grid_sync import first_lane
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.operators import AtomicOp, BinaryOp, Ordering
from vyre.domain.ir.program import Access, Buffer, MemoryKind
from vyre.domain.ir.types import i32, u32, u64
from vyre.domain.validation.validator import check_rules
from vyre.testing.random_programs.generator import Case, generate
from vyre.testing.random_programs.memory import Order

FLAG: Final = "loop flag"
TURNS: Final = "loop turns"
SEEN: Final = "loop rounds"
LIMIT: Final = "loop limit"
_PARTS: Final = 12
"""The parts of a program that are tried."""


def lit(value: int) -> ir.Literal:
    return ir.Literal.of(u32, value)


def looped(seed: int, *, work: int = 3_000, traps: bool = False, lacking: frozenset[str] = frozenset()) -> Case | None:
    """The case of a seed with one or two grid loops; None if no part of its program can be repeated."""
    source = random.Random(seed)
    case = generate(seed, work=work, traps=traps, lacking=lacking)
    wanted = 1 + source.randrange(2)
    last = None
    for number in range(wanted):
        wrapped = _wrapped(case, source, str(number))
        if wrapped is not None:
            last = case = wrapped
    return last


def _wrapped(case: Case, source: random.Random, suffix: str) -> Case | None:
    program = case.program
    body = program.body
    best: Case | None = None
    most = -1
    for _ in range(_PARTS):
        start = source.randrange(len(body) + 1)
        end = source.randrange(start, len(body) + 1)
        if end - start <= most:
            continue
        candidate = _with_loop(case, source, suffix, start, end)
        if check_rules(candidate.program).ok and not check_rules(candidate.program).order_sensitive:
            best, most = candidate, end - start
    return best


def _with_loop(case: Case, source: random.Random, suffix: str, start: int, end: int) -> Case:
    program = case.program
    flag, turns, seen, limit = (f"{name} {suffix}" for name in (FLAG, TURNS, SEEN, LIMIT))
    first = max((b.binding for b in program.abi_buffers), default=-1) + 1
    elements = source.choice((1, 1, 1, 3))
    count = source.choice((elements, elements, 0))
    rounds = source.choice((0, 1, 2, 3, 5))
    most: ir.Expr
    extra: list[Buffer] = [
        Buffer.make(flag, first, Access.READ_WRITE, u32, count),
        Buffer.make(turns, first + 1, Access.READ_WRITE, u32, 2),
        Buffer.make(seen, first + 2, Access.READ_WRITE, u32, 2),
    ]
    words = {flag: [source.randrange(3)] * elements, turns: [0, 0], seen: [0, 0]}
    match source.randrange(3):
        case 0:
            most = lit(rounds)
        case 1:
            extra.append(Buffer.make(limit, first + 3, Access.UNIFORM, u32, 1, kind=MemoryKind.PUSH))
            most, words[limit] = ir.Load(limit, lit(0)), [rounds]
        case _:
            extra.append(Buffer.make(limit, first + 3, Access.READ_ONLY, u32))
            most, words[limit] = ir.Binary(BinaryOp.SUB, ir.Load(limit, lit(1)), lit(1)), [7, rounds + 1]
    name = f"loop {suffix}"
    loop = ir.GridLoop(name, most, flag, _round(program.body[start:end], source, flag, turns, elements))
    then: tuple[ir.Stmt, ...] = (ir.Store(seen, lit(0), ir.Var(name)), ir.Store(seen, lit(1), ir.Load(flag, lit(0))))
    behind: list[ir.Stmt] = [loop, ir.If(first_lane(), then)]
    match source.randrange(4):
        case 0:
            behind = [ir.Block(tuple(behind))]
        case 1:
            behind = [ir.Region("loop", tuple(behind))]
    body = (*program.body[:start], *behind, *program.body[end:])
    looped_program = replace(program, buffers=(*program.buffers, *extra), body=body)
    inputs = {**case.inputs, **{b: b"".join(w.to_bytes(4, "little") for w in ws) for b, ws in words.items()}}
    return Case(looped_program, inputs, case.config, case.order)


def _round(part: ir.Body, source: random.Random, flag: str, turns: str, elements: int) -> ir.Body:
    """The part with, somewhere in it, one lane that counts the rounds and sets the flag in the first of them."""
    setting = ir.Store(flag, lit(0), lit(1 + source.randrange(3)))
    set_flag: tuple[ir.Stmt, ...] = (setting,)
    match source.randrange(4):
        case 0:
            set_flag = (ir.Let(f"{flag} before", ir.Atomic(AtomicOp.ADD, flag, lit(0), None, lit(2))),)
        case 1 if elements > 1:
            set_flag = (setting, ir.Store(flag, lit(1), lit(9)))
    again = ir.Binary(BinaryOp.LT, ir.Load(turns, lit(0)), lit(source.choice((0, 1, 2, 3, 9))))
    count = ir.Store(turns, lit(0), ir.Binary(BinaryOp.ADD, ir.Load(turns, lit(0)), lit(1)))
    counting: list[ir.Stmt] = [ir.If(first_lane(), (count, ir.If(again, set_flag)))]
    uniform = ir.Binary(BinaryOp.LT, ir.LaunchId(ir.IdKind.NUM_GROUPS, 0), lit(3))
    match source.randrange(6):
        case 0:
            counting.insert(0, ir.Barrier(_GRID))
        case 5:
            return _in_loop(part, counting, source, turns)
        case 1:
            counting = [ir.If(uniform, (ir.Barrier(_GRID), *counting), tuple(counting))]
    return (*part, *counting) if source.randrange(2) else (*counting, *part)


def _in_loop(part: ir.Body, counting: list[ir.Stmt], source: random.Random, turns: str) -> ir.Body:
    """The part in a loop with grid barriers, of which the whole grid runs as many rounds."""
    if any(isinstance(stmt, ir.Break | ir.Continue) for stmt in ir.walk_statements(part)):
        return (*part, *counting)
    var = f"{turns} round"
    start, stop, step = source.choice(((0, 2, 1), (7, 1, -3), (-1, 4, 4), (3, 3, 1)))
    dtype = i32 if min(start, step) < 0 else source.choice((u32, u64))
    first, last, by = (ir.Literal.of(dtype, bound) for bound in (start, stop, step))
    end: ir.Expr = last
    if source.randrange(2):
        groups = ir.Cast(dtype, ir.Binary(BinaryOp.MIN, ir.LaunchId(ir.IdKind.NUM_GROUPS, 0), lit(2)))
        end = ir.Binary(BinaryOp.ADD, last, groups)
    mixed = ir.Binary(BinaryOp.ADD, ir.Load(turns, lit(1)), ir.Cast(u32, ir.Var(var)))
    noted = ir.If(first_lane(), (ir.Store(turns, lit(1), mixed),))
    body = (*part, ir.Barrier(_GRID), noted) if source.randrange(2) else (noted, ir.Barrier(_GRID), *part)
    return (ir.Loop(var, first, end, by, body), *counting)


_GRID: Final = Ordering.GRID_SYNC


def any_program(seed: int, order: Order, *, work: int = 40_000, lacking: frozenset[str] = frozenset()) -> Case:
    """The case of a seed with traps, which has grid loops for some of the seeds; ``lacking`` as for ``generate``."""
    if order is Order.INDEPENDENT and seed % 8 == 5:
        with_loops = looped(seed, work=min(work, 8_000), traps=True, lacking=lacking)
        if with_loops is not None:
            return with_loops
    return generate(seed, order=order, work=work, traps=True, lacking=lacking)
