"""Grid barriers as launch boundaries: a program is split at them, and its parts run one after the other.

Each part keeps the name, the buffers and the workgroup size of the whole program and the scopes that enclose it.  A
local that an earlier part declared is computed again where a later part needs it; validation has ensured that this
gives the same value.

A grid loop becomes ``Rounds``, as does a loop in it that has grid barriers.  What its parts have to know is kept in a
hidden u32 buffer, the last one of every part: whether another round runs, the number of rounds run, and the limit.
Each part is an ordinary program, so every backend runs grid loops that runs programs and reads one word between two of
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from vyre.domain.frozen import frozen
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.branches import branches
from vyre.domain.ir.buffers import Access, Buffer
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Program, kept_with_program
from vyre.domain.ir.rebuilding import with_branches
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import containers, declared_names, unique_nodes
from vyre.domain.validation.grid_barriers import is_grid_barrier, splits_grid
from vyre.domain.validation.typing import static_type
from vyre.domain.validation.validator import check_rules

WORDS_PER_LOOP: Final = 3
"""The words of the hidden buffer for one loop: whether another round runs, the rounds run, and the limit."""
_CONTROL: Final = "grid_control"
_HIDDEN: Final = "hidden_control"


@frozen
class Rounds:
    """A grid loop: run ``enter``; then, while the u32 ``word`` of the hidden buffer is not 0, ``body`` and ``advance``.

    ``enter`` and ``advance`` do all their work in the first lane of workgroup (0, 0, 0), so launching that workgroup
    alone, with the grid's numbers of workgroups, suffices.  ``most``: the most rounds there may be; None if the program
    does not say so.
    """

    enter: Program
    body: tuple[Step, ...]
    advance: Program
    word: int
    most: int | None = None


Step: TypeAlias = Program | Rounds
"""One step of a plan: a launch of a program without grid barriers, or rounds of steps."""


@kept_with_program("grid_sync_plan")
def plan_grid_sync(program: Program) -> tuple[Step, ...]:
    """Returns the launches of ``program`` in order: one more than it has grid barriers.

    Without a grid barrier or a grid loop the result is the program itself.  With a grid loop, the programs of the plan
    have the buffer ``grid_control(program)`` besides those of ``program``; parts that only declare locals are left out.
    Raises ``InvalidProgram`` with the report if a program with grid barriers is not valid.  The plan is cached on the
    program.
    """
    if not has_grid_barriers(program):
        return (program,)
    check_rules(program).raise_if_invalid()
    control = grid_control(program)
    parts = _Splitter(program, "" if control is None else control.name).split(program.body)
    if control is None:
        return tuple(replace(program, body=tuple(part)) for part in parts if isinstance(part, list))
    whole = replace(program, buffers=(*program.buffers, control))
    return _steps(whole, parts)


def plan_programs(steps: Sequence[Step]) -> Iterator[Program]:
    """Yields the programs of a plan in program order; the enter of a loop precedes its body, the advance follows it."""
    for step in steps:
        if isinstance(step, Rounds):
            yield step.enter
            yield from plan_programs(step.body)
            yield step.advance
        else:
            yield step


def has_grid_barriers(program: Program) -> bool:
    """Returns whether the program contains a grid barrier or a grid loop."""
    return any(map(splits_grid, ir.walk_statements(program.body)))


def has_grid_loops(program: Program) -> bool:
    """Returns whether the program contains a grid loop."""
    return grid_control(program) is not None


@kept_with_program("grid_control")
def grid_control(program: Program) -> Buffer | None:
    """Returns the hidden buffer of a plan with grid loops, bound behind all others; None without grid loops.

    It has ``WORDS_PER_LOOP`` u32 for each grid loop and each loop with grid barriers, which need no initial values.
    Cached on the program.
    """
    statements = tuple(ir.walk_statements(program.body))
    if not any(type(stmt) is ir.GridLoop for stmt in statements):
        return None
    split = containers(program.body, is_grid_barrier)
    loops = sum(type(stmt) is ir.GridLoop or (type(stmt) is ir.Loop and id(stmt) in split) for stmt in statements)
    name = _CONTROL
    while name in program.buffers_by_name:
        name += "_"
    binding = max((buffer.binding for buffer in program.abi_buffers), default=-1) + 1
    return Buffer.make(name, binding, Access.READ_WRITE, ScalarType.U32, WORDS_PER_LOOP * loops)


def hide_control(part: Program, control: Buffer) -> Program:
    """Returns the program, of which ``hidden_control`` knows from now on that callers do not bind ``control``."""
    part._cache[_HIDDEN] = control
    return part


def hidden_control(part: Program) -> Buffer | None:
    """Returns the hidden buffer of a part of a program with grid loops, which has it among its buffers; else None."""
    return part._cache.get(_HIDDEN)  # type: ignore[return-value]


def fresh_names(program: Program, *hints: str) -> tuple[str, ...]:
    """Returns a name for each hint, the hint itself where it is free, that no local or buffer of the program has."""
    taken = set(declared_names(program.body))
    names: list[str] = []
    for hint in hints:
        name = hint
        while name in taken or name in program.buffers_by_name:
            name += "_"
        names.append(name)
    return tuple(names)


def _steps(whole: Program, parts: Sequence[_Part]) -> tuple[Step, ...]:
    steps: list[Step] = []
    for part in parts:
        if isinstance(part, _LoopParts):
            enter, advance = (_made(whole, body) for body in (part.enter, part.advance))
            steps.append(Rounds(enter, _steps(whole, part.body), advance, part.word, part.most))
        elif _has_effect(part):
            steps.append(_made(whole, part))
    return tuple(steps)


def _made(whole: Program, body: Sequence[ir.Stmt]) -> Program:
    return hide_control(replace(whole, body=tuple(body)), whole.buffers[-1])


def _has_effect(part: list[ir.Stmt]) -> bool:
    """Returns whether a part does more than declare locals."""
    for stmt in ir.walk_statements(tuple(part)):
        if not isinstance(stmt, ir.Let | ir.Block | ir.Region):
            return True
        if any(isinstance(node, ir.Atomic) for node in unique_nodes(ir.operands(stmt))):
            return True
    return False


@dataclass(slots=True)
class _LoopParts:
    """The parts of a grid loop; those of its body may be split further."""

    enter: list[ir.Stmt]
    body: list[_Part]
    advance: list[ir.Stmt]
    word: int
    most: int | None


_Part: TypeAlias = "list[ir.Stmt] | _LoopParts"


class _Splitter:
    """Splits the bodies of one program; ``control`` is the name of its hidden buffer."""

    def __init__(self, program: Program, control: str) -> None:
        self._split = containers(program.body, splits_grid)
        self._control = control
        self._loops = 0
        self._buffers = program.buffers_by_name
        self._types: dict[str, ScalarType] = {}
        """The types of the locals that are visible."""
        (self._local,) = fresh_names(program, "grid_limit")

    def split(self, body: ir.Body) -> list[_Part]:
        """Returns the parts of a body between its grid barriers, including those in blocks and regions."""
        parts: list[_Part] = []
        current: list[ir.Stmt] = []
        lets: list[tuple[int, ir.Let]] = []
        for stmt in body:
            if is_grid_barrier(stmt):
                parts.append(current)
                current = []
            elif isinstance(stmt, ir.GridLoop):
                parts += (current, self._grid_loop(stmt))
                current = []
                number = parts[-1].word // WORDS_PER_LOOP  # type: ignore[union-attr]
                lets.append((len(parts) - 1, ir.Let(stmt.name, self._word(number, 1), loc=stmt.loc)))
                self._types[stmt.name] = ScalarType.U32
            elif isinstance(stmt, ir.Loop) and id(stmt) in self._split:
                parts += (current, self._loop(stmt))
                current = []
            elif isinstance(stmt, ir.Block | ir.Region | ir.If | ir.Switch) and id(stmt) in self._split:
                first, *others = self._nested(stmt)
                assert isinstance(first, list)
                current += first
                if others:
                    parts += (current, *others[:-1])
                    current = others[-1]  # type: ignore[assignment]
            else:
                if isinstance(stmt, ir.Let):
                    lets.append((len(parts), stmt))
                    self._note_type(stmt.name, stmt.value)
                current.append(stmt)
        parts.append(current)
        return [
            _mapped(part, lambda leaf, n=number: _with_locals(leaf, [let for home, let in lets if home < n]))  # type: ignore[misc]
            for number, part in enumerate(parts)
        ]

    def _nested(self, stmt: ir.Block | ir.Region | ir.If | ir.Switch) -> list[_Part]:
        """Returns the parts of a statement; the first and the last one are no loops."""
        if isinstance(stmt, ir.Block | ir.Region):
            return [_mapped(part, lambda leaf: _wrapped(stmt, tuple(leaf))) for part in self.split(stmt.body)]
        of_branch = [self.split(branch.body) for branch in branches(stmt)]
        return [
            _branching(stmt, [_plain(parts[k]) if k < len(parts) else () for parts in of_branch])
            for k in range(max(map(len, of_branch)))
        ]

    def _grid_loop(self, stmt: ir.GridLoop) -> _LoopParts:
        number = self._loops
        self._loops += 1
        flag = stmt.flag
        enter: list[ir.Stmt] = [
            ir.Let(self._local, stmt.limit, loc=stmt.loc),
            ir.If(
                first_lane(),
                (
                    self._set(number, 0, ir.Binary(BinaryOp.MIN, self._var, _u32(1))),
                    self._set(number, 1, _u32(0)),
                    self._set(number, 2, self._var),
                    ir.If(ir.Binary(BinaryOp.NE, self._var, _u32(0)), (ir.Store(flag, _u32(0), _u32(0)),)),
                ),
            ),
        ]
        again = ir.Binary(
            BinaryOp.AND,
            ir.Binary(BinaryOp.NE, ir.Load(flag, _u32(0)), _u32(0)),
            ir.Binary(BinaryOp.LT, self._var, self._word(number, 2)),
        )
        advance: list[ir.Stmt] = [
            ir.If(
                first_lane(),
                (
                    ir.Let(self._local, ir.Binary(BinaryOp.ADD, self._word(number, 1), _u32(1))),
                    self._set(number, 1, self._var),
                    ir.If(again, (ir.Store(flag, _u32(0), _u32(0)),), (self._set(number, 0, _u32(0)),)),
                ),
            )
        ]
        return _LoopParts(enter, self.split(stmt.body), advance, WORDS_PER_LOOP * number, _value(stmt.limit))

    def _loop(self, stmt: ir.Loop) -> _LoopParts:
        """Returns the parts of a loop with grid barriers, of which the whole grid runs the same rounds.

        The loop itself, from the first round on or from the last one that has run, tells whether another one follows.
        """
        number = self._loops
        self._loops += 1
        dtype = self._note_type(stmt.var, stmt.start)
        run = ir.Binary(BinaryOp.MUL, ir.Cast(dtype, self._word(number, 1)), stmt.step)
        start = ir.Binary(BinaryOp.ADD, stmt.start, run)
        go = self._set(number, 0, _u32(1))
        enter: list[ir.Stmt] = [
            ir.If(
                first_lane(),
                (
                    self._set(number, 0, _u32(0)),
                    self._set(number, 1, _u32(0)),
                    ir.Loop(self._local, stmt.start, stmt.stop, stmt.step, (go, ir.Break())),
                ),
            )
        ]
        is_next = ir.Binary(BinaryOp.NE, self._var, start)
        advance: list[ir.Stmt] = [
            ir.If(
                first_lane(),
                (
                    self._set(number, 0, _u32(0)),
                    ir.Loop(self._local, start, stmt.stop, stmt.step, (ir.If(is_next, (go, ir.Break())),)),
                    self._set(number, 1, ir.Binary(BinaryOp.ADD, self._word(number, 1), _u32(1))),
                ),
            )
        ]
        variable = ir.Let(stmt.var, start, loc=stmt.loc)
        body = [_mapped(part, lambda leaf: _with_locals(leaf, [variable])) for part in self.split(stmt.body)]
        return _LoopParts(enter, body, advance, WORDS_PER_LOOP * number, _most_rounds(stmt))

    def _note_type(self, name: str, value: ir.Expr) -> ScalarType:
        dtype = static_type(value, self._types, self._buffers)
        assert dtype is not None, "validated"
        self._types[name] = dtype
        return dtype

    @property
    def _var(self) -> ir.Var:
        return ir.Var(self._local)

    def _word(self, loop: int, word: int) -> ir.Load:
        return ir.Load(self._control, _u32(WORDS_PER_LOOP * loop + word))

    def _set(self, loop: int, word: int, value: ir.Expr) -> ir.Store:
        return ir.Store(self._control, _u32(WORDS_PER_LOOP * loop + word), value)


def _u32(value: int) -> ir.Literal:
    return ir.Literal(ScalarType.U32, value)


def _value(bound: ir.Expr) -> int | None:
    return int(bound.value) if isinstance(bound, ir.Literal) else None


def _most_rounds(loop: ir.Loop) -> int | None:
    """Returns the rounds of a loop that counts up between literals, or None."""
    start, stop, step = _value(loop.start), _value(loop.stop), _value(loop.step)
    if start is None or stop is None or step is None or step <= 0:
        return None
    return -(-max(stop - start, 0) // step)


def first_lane() -> ir.Expr:
    """Returns the condition that holds in the first lane of workgroup (0, 0, 0) only."""
    on_axis = [ir.Binary(BinaryOp.EQ, ir.LaunchId(ir.IdKind.GLOBAL, axis), _u32(0)) for axis in range(3)]
    return ir.Binary(BinaryOp.AND, ir.Binary(BinaryOp.AND, on_axis[0], on_axis[1]), on_axis[2])


def _mapped(part: _Part, change: Callable[[list[ir.Stmt]], Sequence[ir.Stmt]]) -> _Part:
    """Returns the part with each of its bodies changed."""
    if isinstance(part, _LoopParts):
        body = [_mapped(inner, change) for inner in part.body]
        return _LoopParts(list(change(part.enter)), body, list(change(part.advance)), part.word, part.most)
    return list(change(part))


def _plain(part: _Part) -> ir.Body:
    assert isinstance(part, list)
    return tuple(part)


def _wrapped(scope: ir.Block | ir.Region, part: ir.Body) -> list[ir.Stmt]:
    return [replace(scope, body=part)] if part else []


def _branching(stmt: ir.If | ir.Switch, bodies: list[ir.Body]) -> list[ir.Stmt]:
    """Returns the statement with other bodies, in the order of ``branches``; nothing if all are empty."""
    if not any(bodies):
        return []
    if isinstance(stmt, ir.Switch):
        return [with_branches(stmt, bodies[:-1], bodies[-1])]
    links = [stmt, *(branch.link for branch in branches(stmt) if branch.link is not None)]
    otherwise = bodies[-1]
    for link, body in zip(reversed(links), reversed(bodies[:-1]), strict=True):
        otherwise = (replace(link, then=body, otherwise=otherwise),)
    return list(otherwise)


def _with_locals(part: Sequence[ir.Stmt], earlier: list[ir.Let]) -> ir.Body:
    """Returns the part, preceded by the earlier declarations of its scope that it needs, in source order.

    A name visible in the scope is declared once, so names identify declarations.
    """
    if not earlier:
        return tuple(part)
    needed = {name for stmt in ir.walk_statements(tuple(part)) for name in _names(stmt)}
    again: list[ir.Stmt] = []
    for let in reversed(earlier):
        if let.name in needed:
            needed.update(_names(let))
            again.append(let)
    return (*reversed(again), *part)


def _names(stmt: ir.Stmt) -> set[str]:
    return {node.name for node in unique_nodes(ir.operands(stmt)) if isinstance(node, ir.Var)}
