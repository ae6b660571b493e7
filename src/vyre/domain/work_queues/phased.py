"""A queue in phases: a program that runs once for each item, as one that drains a queue of them in one launch.

The queue is a ring of u32.  A *level* is what was pushed while the level before was processed; a *phase* processes the
items of a level, or as many of them as the launch may still process.  Lanes stride over the items of a phase, so the
grid may be as small as a device holds at once.  What lanes push goes behind the last item of the ring, at places that
they reserve with an atomic, and a barrier of the grid ends the phase.  Three phases are one round of a grid loop, which
ends when the last of them has pushed nothing and left nothing.

The state of a phase has words of its own, those of its number mod 3.  While all lanes read the state of the phase
before, the first lane stores the new one, and clears the counter of the phase behind; so one barrier a phase suffices.
The state stays in memory, and the next launch goes on where this one has stopped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from vyre.domain.frozen import frozen
from vyre.domain.ir.expr import Atomic, Binary, BufferLength, Expr, Select, Var
from vyre.domain.ir.operators import BinaryOp, Ordering
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Block, If, Let, Stmt, Store
from vyre.domain.work_queues.forms import PENDING, TOTALS, DrainForm, Draining, ItemWork, u32
from vyre.domain.work_queues.roles import QueueRoles

if TYPE_CHECKING:
    from vyre.domain.work_queues.forms import Words

_PHASES: Final = 3
_STATE: Final = 8
"""The first word of the states, and the words of each."""
_CONTROL_WORDS: Final = (_PHASES + 1) * _STATE
_INITIAL_ROOM: Final = _PHASES * _STATE + 3
"""The word with the room that the initial items have, which the first phase takes from the last one."""
_HINTS: Final = (
    *("queue", "control", "totals", "more", "budget", "pushed_0", "pushed_1", "pushed_2", "taken", "head", "rest"),
    *("waiting", "room", "tail", "left", "accepted", "lost", "known", "following", "item", "number", "slot"),
    "rounds",
)
_TEXT: Final = """
workgroup_size 1, 1, 1
buffer {queue} @0 read_write u32[runtime]
buffer {control} @1 read_write u32[{words}]
buffer {totals} @2 read_write u64[{all_totals}]
buffer {more} @3 read_write u32[1]
buffer {pushed_0} @4 read_write u32[1]
buffer {pushed_1} @5 read_write u32[1]
buffer {pushed_2} @6 read_write u32[1]
param {budget} @7 u32
body {{
  if gid.x == 0u {{ {control}[{before_left}u] = {budget} }}
  let {rounds} = grid_loop(0xffffffffu, {more}) {{ {phases} }}
  if gid.x == 0u {{
    let {lost} = {before}[0u] - min({before}[0u], {control}[{before_room}u])
    let {waiting} = {control}[{before_waiting}u] + {before}[0u]
    {control}[0u] = select({lost} == 0u, {control}[{before_rest}u] + {waiting}, 0u)
    {totals}[3u] = {totals}[3u] + cast<u64>({lost})
  }}
}}
"""
_PHASE: Final = """
block {{
  let {known} = {control}[{before_rest}u]
  let {accepted} = min({before}[0u], {control}[{before_room}u])
  let {lost} = {before}[0u] - {accepted}
  let {following} = {control}[{before_waiting}u] + {accepted}
  let {rest} = select({lost} == 0u, select({known} == 0u, {following}, {known}), 0u)
  let {waiting} = select({lost} == 0u, select({known} == 0u, 0u, {following}), 0u)
  let {room} = len({queue}) - {rest} - {waiting}
  let {head} = {control}[{before_head}u]
  let {taken} = min({rest}, {control}[{before_left}u])
  let {left} = {control}[{before_left}u] - {taken}
  let {tail} = {end_of_ring}
  if gid.x == 0u {{
    {control}[{head_word}u] = {next_head}
    {control}[{rest_word}u] = {rest} - {taken}
    {control}[{waiting_word}u] = {waiting}
    {control}[{room_word}u] = {room}
    {control}[{left_word}u] = {left}
    {behind}[0u] = 0u
    {totals}[0u] = {totals}[0u] + cast<u64>({taken})
    {totals}[1u] = {totals}[1u] + cast<u64>({accepted})
    {totals}[2u] = {totals}[2u] + cast<u64>(min({taken}, 1u))
    {totals}[3u] = {totals}[3u] + cast<u64>({lost})
    {goes_on}
  }}
  for {number} in gid.x..{taken} step num_groups.x * {lanes}u {{
    let {item} = {queue}[{slot_of_item}]
    region "{marker}" {{ }}
  }}
}}
"""
_GOES_ON: Final = "if {left} != 0u and {waiting} != 0u {{ {more}[0u] = 1u }}"
_BARRIER: Final = " barrier(grid_sync) "


@frozen
class PhasedForm(DrainForm):
    """A queue in phases: ``others`` are the counters, of which the last holds the number of initial items."""

    slot_bytes: ClassVar[int] = 4
    control_words: ClassVar[int] = _CONTROL_WORDS
    left_over: ClassVar[int] = PENDING

    def _fill(self, arrays: dict[str, Words], items: Words, slots: int, used: int) -> None:
        arrays[self.queue] = items
        arrays[self.control][_INITIAL_ROOM] = slots
        arrays[tuple(self.others)[-1]][0] = items.size


class PhasedDraining(Draining):
    """Makes the program of a queue in phases."""

    def __init__(self, program: Program, roles: QueueRoles) -> None:
        super().__init__(program, roles, _HINTS)

    def form(self) -> PhasedForm:
        """Returns the program, with the work of an item in each of its phases."""
        names = self._names
        parts = ItemWork(number=Var(names["number"]), items=Var(names["taken"]), pushed=Var(names["room"]))
        work = {_marker(phase): self._items_work(Var(names["item"]), parts, phase) for phase in range(_PHASES)}
        queue, control, totals, more, budget = (names[name] for name in _HINTS[:5])
        counters = {self._counter(phase): 1 for phase in range(_PHASES)}
        return PhasedForm(self._filled(self._frame(), work), queue, control, totals, more, budget, counters)

    def _frame(self) -> Program:
        """Returns the program without the work of the items."""
        phases = _BARRIER.join(self._phase(number) for number in range(_PHASES))
        text = _TEXT.format(
            words=_CONTROL_WORDS, all_totals=len(TOTALS), phases=phases, **self._names, **self._before(0)
        )
        return Program.from_text(text)

    def _phase(self, number: int) -> str:
        names, lanes = self._names, self._program.workgroup_size[0]
        ring = {
            "end_of_ring": self._wrapped("{head} + {rest} + {waiting}"),
            "next_head": self._wrapped("{head} + {taken}"),
            "slot_of_item": self._wrapped("{head} + {number}"),
        }
        goes_on = _GOES_ON.format(**names) if number == _PHASES - 1 else ""
        words = {f"{name}_word": place for name, place in _state(number).items()}
        return _PHASE.format(
            lanes=lanes,
            marker=_marker(number),
            goes_on=goes_on,
            behind=self._counter(number + 1),
            **words,
            **ring,
            **names,
            **self._before(number),
        )

    def _counter(self, phase: int) -> str:
        """Returns the buffer that counts what a phase pushes."""
        return self._names[f"pushed_{phase % _PHASES}"]

    def _before(self, phase: int) -> dict[str, str | int]:
        """Returns the words and the counter of the phase before, by the names that the texts have for them."""
        words = {f"before_{name}": place for name, place in _state(phase + _PHASES - 1).items()}
        return {"before": self._counter(phase + _PHASES - 1), **words}

    def _wrapped(self, place: str) -> str:
        """Returns the text of a slot of the ring, for a place below twice its length."""
        slot, length = place.format(**self._names), f"len({self._names['queue']})"
        return f"select({slot} < {length}, {slot}, {slot} - {length})"

    def _reserved(self, node: Atomic, phase: int) -> Expr:
        return replace(node, buffer=self._counter(phase), index=u32(0), ordering=Ordering.RELAXED)

    def _push(self, node: Store, phase: int) -> Stmt:
        """Returns a store to the ring, if there is room, which keeps the loop going after the last phase of a round."""
        names = self._names
        slot, length = Var(names["slot"]), BufferLength(names["queue"])
        index = Binary(BinaryOp.ADD, Var(names["tail"]), slot)
        wrapped = Select(Binary(BinaryOp.LT, index, length), index, Binary(BinaryOp.SUB, index, length))
        then: list[Stmt] = [Store(names["queue"], wrapped, node.value, loc=node.loc)]
        if phase == _PHASES - 1:
            more = Store(names["more"], u32(0), u32(1))
            then.append(If(Binary(BinaryOp.NE, Var(names["left"]), u32(0)), (more,)))
        inside = Binary(BinaryOp.LT, slot, Var(names["room"]))
        return Block((Let(names["slot"], node.index, loc=node.loc), If(inside, tuple(then))))


def _marker(phase: int) -> str:
    """Returns the name of the region that stands for the work of an item."""
    return f"item of phase {phase}"


def _state(phase: int) -> dict[str, int]:
    """Returns the words of the state of a phase, by name."""
    first = _STATE + _STATE * (phase % _PHASES)
    return {name: first + place for place, name in enumerate(("head", "rest", "waiting", "room", "left"))}
