"""Statements: structured C, one block for each body."""

from __future__ import annotations

from typing import Final

from vyre.ir import (
    Assign,
    AsyncLoad,
    AsyncStore,
    AsyncWait,
    Barrier,
    Block,
    Body,
    Break,
    Continue,
    If,
    Let,
    Loop,
    Region,
    Return,
    Stmt,
    Store,
    Switch,
    Trap,
    if_chain,
    operands,
)
from vyre_opencl import memory
from vyre_opencl.expressions import evaluate
from vyre_opencl.types import UNSIGNED, VALUE, Value, literal
from vyre_opencl.writer import Writer, unsupported

LINEAR: Final = "vy_linear"
"""The C variable with the linear global id of the lane."""
STEPS: Final = "vy_steps"
"""The C name of the words that count the back-edges of each lane."""
BARRIER: Final = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"


def body(w: Writer, statements: Body) -> None:
    """Writes a scope."""
    mark = w.locals.mark
    w.line("{")
    for stmt in statements:
        _statement(w, stmt)
    w.line("}")
    w.locals.leave(mark)


def _statement(w: Writer, stmt: Stmt) -> None:
    match stmt:
        case If():
            _if(w, stmt)
        case Block(inner) | Region(_, inner):
            body(w, inner)
        case Break():
            w.line("break;")
        case Continue():
            w.line("continue;")
        case Return():
            w.line("return;")
        case Barrier():
            w.line(BARRIER)
        case AsyncWait():
            memory.wait(w, stmt)
        case _:
            _with_operands(w, stmt, evaluate(w, operands(stmt)))


def _with_operands(w: Writer, stmt: Stmt, values: list[Value]) -> None:
    match stmt:
        case Let(name):
            (value,) = values
            variable = Value(w.name("v"), value.dtype)
            w.line(f"{VALUE[value.dtype]} {variable.text} = {value.text};")
            w.locals.declare(name, variable)
        case Assign(name):
            w.line(f"{w.locals[name].text} = {values[0].text};")
        case Store(buffer):
            memory.store(w, w.places[buffer], *values)
        case Switch():
            _switch(w, stmt, values[0])
        case Loop():
            _loop(w, stmt, *values)
        case AsyncLoad() | AsyncStore():
            memory.issue(w, stmt, *values)
        case Trap(_, tag):
            w.line(f"atom_min(&vy_status[{1 + len(w.traps)}], {LINEAR} << 32 | {values[0].text}); return;")
            w.traps.append(tag)
        case _:
            raise unsupported(type(stmt).__name__)


def _if(w: Writer, stmt: If) -> None:
    links, otherwise = if_chain(stmt)
    if len(links) == 1:
        (condition,) = evaluate(w, (stmt.condition,))
        w.line(f"if ({condition.text})")
        body(w, stmt.then)
    else:
        # Chains of any length: first the number of the link that is taken, then its body, without nesting.
        taken = w.name("c")
        w.line(f"int {taken} = -1; do {{")
        for number, link in enumerate(links):
            (condition,) = evaluate(w, (link.condition,))
            w.line(f"if ({condition.text}) {{ {taken} = {number}; break; }}")
        w.line("} while (0);")
        for number, link in enumerate(links):
            w.line(f"{'else ' if number else ''}if ({taken} == {number})")
            body(w, link.then)
    if otherwise:
        w.line("else")
        body(w, otherwise)


def _switch(w: Writer, stmt: Switch, selector: Value) -> None:
    w.line("if (false) {}")
    for arm in stmt.arms:
        tests = " || ".join(f"{selector.text} == {literal(label)}" for label in arm.labels)
        w.line(f"else if ({tests or 'false'})")
        body(w, arm.body)
    w.line("else")
    body(w, stmt.default)


def _loop(w: Writer, stmt: Loop, start: Value, stop: Value, step: Value) -> None:
    dtype = start.dtype
    kind, unsigned = VALUE[dtype], UNSIGNED[dtype]
    i, go, last, by = (w.name(letter) for letter in "igsd")
    up, first = f"{by} > 0", w.name("f")
    runs, down, backwards = f"{i} < {last}", "false", "0"
    # The next value is in range if the distance to the bound exceeds the step; unsigned differences cannot wrap.
    forwards = f"({unsigned}){last} - ({unsigned}){i} > ({unsigned}){by}"
    if dtype.is_signed:
        down = f"{by} < 0 && {i} > {last}"
        backwards = f"({unsigned}){i} - ({unsigned}){last} > ({unsigned})0 - ({unsigned}){by}"
    w.line("{")
    w.line(f"{kind} {i} = {start.text}, {last} = {stop.text}, {by} = {step.text};")
    w.line(f"bool {go} = {up} ? {runs} : {down}, {first} = true;")
    advance = f"{go} = {up} ? {forwards} : {backwards}, {i} = ({kind})(({unsigned}){i} + ({unsigned}){by})"
    w.line(f"for (; {go}; {advance}) {{")
    if w.counts_steps:
        w.line(f"if (!{first} && ++{STEPS}[{LINEAR}] > vy_budget) {{ atom_min(&vy_status[0], {LINEAR}); return; }}")
    w.line(f"{first} = false;")
    mark = w.locals.mark
    w.locals.declare(stmt.var, Value(i, dtype))
    body(w, stmt.body)
    w.locals.leave(mark)
    w.line("}")
    w.line("}")
