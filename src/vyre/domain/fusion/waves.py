"""``join_waves``: launches in waves as one program, with a barrier of the grid between two waves.

Inside a wave the workgroups are divided among its launches.  Waves that repeat become a loop: its body is one round of
them, and what differs from round to round is read from a table.  Therefore hundreds of waves of one program have the
code of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from itertools import chain
from math import prod
from typing import Final, NamedTuple, TypeAlias

from vyre.domain.analysis.lane_facts import lane_facts
from vyre.domain.frozen import frozen
from vyre.domain.fusion.joining import outputs_to_zero
from vyre.domain.fusion.memory import Joined
from vyre.domain.fusion.outputs import zeroing
from vyre.domain.fusion.returns import without_returns
from vyre.domain.fusion.rewriting import Rewriter, View
from vyre.domain.fusion.stages import CannotJoin, Refused, StageCall
from vyre.domain.fusion.wave_rounds import Blocks, Column, Table, Wave, divided, unrolled, without_values
from vyre.domain.fusion.words import StageWords, check_stage
from vyre.domain.grid_sync import first_lane, fresh_names
from vyre.domain.ir.buffers import Access, Buffer
from vyre.domain.ir.expr import Binary, Bitcast, Expr, IdKind, LaunchId, Literal, Load, Var
from vyre.domain.ir.operators import BinaryOp, Ordering
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Barrier, Body, GridLoop, If, Let, Loop, Stmt, Store
from vyre.domain.ir.types import ScalarType
from vyre.domain.names import Dim3
from vyre.domain.record import U32_MAX
from vyre.domain.validation.validator import check_rules

MOST_STAGES: Final = 32
"""The launches whose code a program holds."""
_U32: Final = ScalarType.U32
_GRID_BARRIER: Final = Barrier(Ordering.GRID_SYNC)
_AROUND_LOOP: Final = 3
"""The barriers of a native kernel around a loop of waves: before the flag is used, before the first round, and where
the flag is read.
"""


class WaveArgument(Enum):
    """An argument that no launch has.

    ``FLAG``: a u32 of memory, whose content before and after does not matter.  ``TABLE``: the words of the table.
    """

    FLAG = "flag"
    TABLE = "table"


WaveBinding: TypeAlias = "tuple[int, int] | WaveArgument"


@frozen
class JoinedWaves:
    """A valid program that leaves the bytes of waves of launches run one after the other.

    ``grid``: the workgroups to launch, of ``program.workgroup_size`` lanes.
    ``arguments``: for each binding of the program the launch, counted over all waves, and the position among its
    bindings, whose memory or value it takes, or an argument of the loop.
    ``table``: the words that differ from round to round.
    ``barriers``: how often each workgroup waits for all others, where all of them run at once.
    ``rounds``: how often the loop runs; 1 without one.  ``stages``: the launches whose code the program holds.
    """

    program: Program
    grid: Dim3
    arguments: tuple[WaveBinding, ...]
    table: bytes
    barriers: int
    rounds: int
    stages: int


def join_waves(
    waves: Sequence[Wave], *, times: int = 1, most_groups: int = U32_MAX, most_stages: int = MOST_STAGES
) -> JoinedWaves | CannotJoin:
    """Returns one program for waves that run in this order, all of them ``times`` times, or why there is none.

    The launches of a wave may run at once: none writes bytes that another one of its wave uses.  The program has at
    most ``most_groups`` workgroups, which take more groups of a launch in turns, and the code of at most
    ``most_stages`` launches.  ``CannotJoin.stage`` counts the launches of all waves.  The programs must be valid
    (``InvalidProgram``).
    """
    if not waves or not all(waves):
        return CannotJoin("there is a wave without a launch, or no wave", 0)
    try:
        return _Joining(waves, times, most_groups, most_stages).result()
    except Refused as refused:
        return CannotJoin(refused.reason, refused.stage)


class _Place(NamedTuple):
    """The workgroups of a launch in all rounds.  ``takes_turns``: they are fewer than its groups in some round."""

    first: int | Column
    share: int | Column
    groups: int | Column
    takes_turns: bool


class _Ids:
    """The ids of a launch in the words of the common one; ``group`` is its linear workgroup."""

    def __init__(self, grid: Dim3, groups: Expr, lanes: Dim3, group: Expr | None) -> None:
        self._grid, self._groups, self._lanes, self._group = grid, groups, lanes, group

    def __call__(self, node: LaunchId) -> Expr:
        flat = self._grid[1:] == (1, 1)
        if node.kind is IdKind.NUM_GROUPS:
            return self._groups if flat and node.axis == 0 else _u32(self._grid[node.axis])
        if node.kind is IdKind.LOCAL or (flat and (self._group is None or (node.axis and node.kind is IdKind.GLOBAL))):
            return node
        group = self._of_axis(node.axis, flat)
        if node.kind is IdKind.GROUP:
            return group
        local = LaunchId(IdKind.LOCAL, node.axis)
        if isinstance(group, Literal) and not group.bits:
            return local
        return Binary(BinaryOp.ADD, Binary(BinaryOp.MUL, group, _u32(self._lanes[node.axis])), local)

    def _of_axis(self, axis: int, flat: bool) -> Expr:
        if flat and axis:
            return _u32(0)
        linear: Expr = LaunchId(IdKind.GROUP, 0) if self._group is None else self._group
        if flat:
            return linear
        x, y, _ = self._grid
        if axis == 0:
            return Binary(BinaryOp.MOD, linear, _u32(x))
        return (
            Binary(BinaryOp.MOD, Binary(BinaryOp.DIV, linear, _u32(x)), _u32(y))
            if axis == 1
            else Binary(BinaryOp.DIV, linear, _u32(x * y))
        )


class _Joining:
    def __init__(self, waves: Sequence[Wave], times: int, most_groups: int, most_stages: int) -> None:
        launches = sum(map(len, waves))
        waves, self._round, self._rows, self._times = unrolled(waves, times, most_stages)
        width = self._round.waves
        looped, rest = waves[:width], waves[len(waves) - self._round.rest :] if self._round.rest else ()
        self._waves = [list(wave) for wave in (*looped, *rest)]
        starts = [0]
        for wave in waves:
            starts.append(starts[-1] + len(wave))
        kept = (*range(width), *range(len(waves) - self._round.rest, len(waves)))
        self._numbers = [number % launches for launch in kept for number in range(starts[launch], starts[launch + 1])]
        """The number of each launch whose code is kept among all launches."""
        calls = [call for wave in self._waves for call in wave]
        if len(calls) > most_stages:
            raise Refused(
                f"the code of {len(calls)} launches would be in one program, and that of {most_stages} may be",
                self._numbers[most_stages],
            )
        for number, call in zip(self._numbers, calls, strict=True):
            check_stage(number, call)
        self._workgroup = calls[0].workgroup
        self._groups = self._common_groups(waves, most_groups)
        self._table = Table(self._rows)
        self._places = self._placed(waves)
        self._calls, self._columns = self._without_varying(waves)
        self._to_zero = [self._zeroed(launch, call) for launch, call in enumerate(calls)]
        self._words = StageWords(self._calls)
        self._flag, self._content, self._row, self._index, self._count, self._group = (
            self._words.names.unique(name)
            for name in ("wave_flag", "wave_table", "wave_row", "wave_zeroed", "waves_run", "wave_group")
        )
        self._locals = [self._words.names.unique("wave_word") for _ in range(self._table.columns)]
        self._barriers = 0

    # ---- what differs from round to round
    def _looped(self, waves: Sequence[Wave], launch: int) -> list[StageCall] | None:
        """Returns the launches of all rows for which the code of number ``launch`` stands, or None behind the loop."""
        seen = 0
        for number, wave in enumerate(self._waves):
            if launch < seen + len(wave):
                if number >= self._round.waves:
                    return None
                return [waves[row * self._round.waves + number][launch - seen] for row in range(self._rows)]
            seen += len(wave)
        raise AssertionError("no such launch")

    def _common_groups(self, waves: Sequence[Wave], most: int) -> int:
        lanes = prod(self._workgroup)
        for number, call in enumerate(chain.from_iterable(waves)):
            if call.workgroup != self._workgroup:
                raise Refused(f"it has workgroups of {call.workgroup} lanes beside such of {self._workgroup}", number)
        groups = min(max(sum(prod(call.grid) for call in wave) for wave in waves), most)
        if groups * lanes > U32_MAX:
            raise Refused("the lanes of a wave have no numbers of 32 bits", 0)
        return max(groups, 1)

    def _placed(self, waves: Sequence[Wave]) -> list[_Place]:
        blocks = [divided(wave, self._groups) for wave in waves]
        width = self._round.waves
        places: list[_Place] = []
        for number, wave in enumerate(self._waves):
            if number < width:
                rows = [blocks[row * width + number] for row in range(self._rows)]
            else:
                rows = [blocks[len(blocks) - self._round.rest + number - width]]
            for launch in range(len(wave)):
                places.append(self._place([row[launch] for row in rows], wave[launch], len(places)))
        return places

    def _place(self, rows: Sequence[Blocks], call: StageCall, launch: int) -> _Place:
        takes_turns = any(row.share < row.groups for row in rows)
        if takes_turns:
            facts = lane_facts(call.program)
            if facts.barriers or any(not buffer.is_bound for buffer in call.program.buffers):
                raise Refused(
                    f"its {max(row.groups for row in rows)} workgroups cannot take turns on {self._groups}, because "
                    "they have barriers or memory of their own",
                    self._numbers[launch],
                )
        number = self._table.number
        return _Place(
            number([row.first for row in rows]),
            number([row.share for row in rows]),
            number([row.groups for row in rows]),
            takes_turns,
        )

    def _without_varying(self, waves: Sequence[Wave]) -> tuple[list[StageCall], list[dict[str, Column]]]:
        """Returns the launches without the values of parameters that are in the table, and where they are."""
        calls: list[StageCall] = []
        columns: list[dict[str, Column]] = []
        for launch, call in enumerate(call for wave in self._waves for call in wave):
            columns_of: dict[str, Column] = {}
            for name in call.values:
                rows = self._looped(waves, launch)
                column = None if rows is None else self._table.number([row.values[name].bits for row in rows])
                if isinstance(column, Column):
                    columns_of[name] = column
            calls.append(without_values(call, frozenset(columns_of)))
            columns.append(columns_of)
        return calls, columns

    def _zeroed(self, launch: int, call: StageCall) -> tuple[int, ...]:
        """Returns the outputs of a launch, by position, that are set to zero before it."""
        if self._columns[launch] or isinstance(self._places[launch].groups, Column):
            return tuple(place for place, buffer in enumerate(call.program.abi_buffers) if buffer.is_output)
        return outputs_to_zero(call)

    # ---- the program
    def result(self) -> JoinedWaves:
        """Returns the program.  Raises ``Refused``."""
        bodies = self._bodies()
        looped, rest = bodies[: self._round.waves], bodies[self._round.waves :]
        round_ = _with_barriers(looped)
        repeated = self._times > 1
        if repeated and self._barriers_of(looped) == 0 and not self._words.unbound:
            round_ = (*round_, _GRID_BARRIER)  # else the rounds of a loop are not held apart
        inside = sum(stmt is _GRID_BARRIER for stmt in round_)
        statements: list[Stmt] = self._loop(round_) if repeated else list(round_)
        barriers = self._times * (inside + 1) + _AROUND_LOOP if repeated else inside
        if rest:
            statements += _with_barriers(rest) if repeated else (_GRID_BARRIER, *_with_barriers(rest))
            barriers += self._barriers_of(rest) + (not repeated)
        if repeated and self._words.unbound:
            barriers -= 1  # the rounds are those of the grid loop itself
        program, arguments = self._program(tuple(statements), repeated)
        report = check_rules(program)
        error = next(iter(report.errors), None)
        last = self._numbers[-1]
        if error is not None:
            raise Refused(f"the waves are no valid program: [{error.code}] {error.message}", last)
        if report.order_sensitive:
            raise Refused("together the result of the waves depends on the order of atomics", last)
        content = self._table.content
        return JoinedWaves(program, (self._groups, 1, 1), arguments, content, barriers, self._times, len(self._calls))

    def _bodies(self) -> list[list[Body]]:
        """Returns each wave as one part, or two with a barrier between them where outputs are set to zero first."""
        waves: list[list[Body]] = []
        launch = 0
        for wave in self._waves:
            zeros: list[Stmt] = []
            body: list[Stmt] = []
            for _ in wave:
                views = self._views(launch)
                zeros += self._zeros(launch, views)
                body += self._stage(launch, views)
                launch += 1
            waves.append([tuple(zeros), tuple(body)] if zeros else [tuple(body)])
        return waves

    def _barriers_of(self, waves: Sequence[Sequence[Body]]) -> int:
        return sum(map(len, waves)) - 1

    def _views(self, launch: int) -> dict[str, View]:
        views = self._words.views(launch)
        for name, column in self._columns[launch].items():
            word: Expr = Var(self._locals[column.number])
            element = views[name].element
            views[name] = views[name]._replace(value=word if element is _U32 else Bitcast(element, word))
        return views

    def _zeros(self, launch: int, views: dict[str, View]) -> list[Stmt]:
        outputs: list[tuple[Buffer, Expr]] = []
        for position in self._to_zero[launch]:
            buffer = self._calls[launch].program.abi_buffers[position]
            joined = self._words.memory.of[launch, position]
            outputs.append((joined.declaration(0), views[buffer.name].length))
        return zeroing(outputs, (self._groups, 1, 1), self._workgroup, self._index)

    def _stage(self, launch: int, views: dict[str, View]) -> list[Stmt]:
        """Returns a launch, which the workgroups of its place run."""
        call, place = self._calls[launch], self._places[launch]
        first, share, groups = (self._number(value) for value in (place.first, place.share, place.groups))
        block: Expr = LaunchId(IdKind.GROUP, 0)
        own = block if place.first == 0 else Binary(BinaryOp.SUB, block, first)
        whole = place.first == 0 and place.share == self._groups
        group = None if place.first == 0 else own
        if place.takes_turns:
            group = Var(self._words.names.unique(self._group))
        rewriter = Rewriter(
            self._numbers[launch],
            views,
            self._words.names,
            call.spec,
            None,
            None,
            _Ids(call.grid, groups, call.workgroup, group),
        )
        body = rewriter.body(without_returns(call.program.body, *fresh_names(call.program, "ended")))
        if isinstance(group, Var):
            body = (Loop(group.name, own, groups, share, body),)
        if whole:
            return [*body]
        return [If(Binary(BinaryOp.LT, own, share), body)]

    def _number(self, value: int | Column) -> Expr:
        return Var(self._locals[value.number]) if isinstance(value, Column) else _u32(value)

    def _loop(self, round_: Body) -> list[Stmt]:
        """Returns the rounds.

        A grid loop of one round holds them, as a loop that knows its number; where the waves have memory of workgroups
        or lanes, which such a loop must not use, they are the rounds of the grid loop.
        """
        if self._words.unbound:
            if self._table.columns:
                raise Refused(
                    "waves that differ from round to round have memory of workgroups or lanes", self._numbers[0]
                )
            again = If(first_lane(), (Store(self._flag, _u32(0), _u32(1)),))
            return [GridLoop(self._count, _u32(self._times), self._flag, (again, *round_))]
        row: Expr = Var(self._row)
        if self._rows < self._times:
            row = Binary(BinaryOp.MOD, row, _u32(self._rows))
        columns = self._table.columns
        words = [
            Let(name, Load(self._content, Binary(BinaryOp.ADD, Binary(BinaryOp.MUL, row, _u32(columns)), _u32(number))))
            for number, name in enumerate(self._locals)
        ]
        loop = Loop(self._row, _u32(0), _u32(self._times), _u32(1), (*words, *round_))
        return [GridLoop(self._count, _u32(1), self._flag, (loop,))]

    def _program(self, body: Body, repeated: bool) -> tuple[Program, tuple[WaveBinding, ...]]:
        tabled = {
            id(self._words.memory.of[launch, position])
            for launch, columns in enumerate(self._columns)
            for position, buffer in enumerate(self._calls[launch].program.abi_buffers)
            if buffer.name in columns
        }
        kept: list[Joined] = [
            joined
            for joined in self._words.memory.all
            if id(joined) not in tabled and id(joined) not in self._words.values
        ]
        program = self._words.program(body, kept, self._workgroup)
        arguments: list[WaveBinding] = [(self._numbers[joined.first.stage], joined.first.position) for joined in kept]
        added: list[Buffer] = []
        if self._table.columns:
            content = Buffer.make(
                self._content, len(arguments), Access.READ_ONLY, _U32, self._rows * self._table.columns
            )
            added.append(content)
            arguments.append(WaveArgument.TABLE)
        if repeated:
            added.append(Buffer.make(self._flag, len(arguments), Access.READ_WRITE, _U32, 1))
            arguments.append(WaveArgument.FLAG)
        return replace(program, buffers=(*program.buffers, *added)), tuple(arguments)


def _with_barriers(waves: Sequence[Sequence[Body]]) -> Body:
    statements: list[Stmt] = []
    for part in chain.from_iterable(waves):
        if statements:
            statements.append(_GRID_BARRIER)
        statements += part
    return tuple(statements)


def _u32(value: int) -> Literal:
    return Literal(_U32, value)
