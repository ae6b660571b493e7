"""A queue as a ring: items are processed as soon as a warp comes for them, also in the round in which they are pushed.

A slot is a word of 64 bits, the item in its low half and a sequence number in its high half.  An item that is pushed
gets a *place*, a number that counts up modulo 2^32 and comes from adding to ``tail``.  It lies in the slot of this
number modulo that of the slots, a power of two, and one atomic stores it there with the sequence number *place + 1*.  A
subgroup looks at the slots from ``head`` on, one for each lane, and claims as many as hold items by one
compare-and-exchange of ``head``.  So each item is claimed once, whatever lies between looking and claiming: ``head``
has the value that was looked at only if nobody has claimed since, because a launch claims fewer than 2^32 items.

No lane waits for another.  A subgroup that finds no item, or finds that the next one is reserved and not stored yet,
ends its round, and a barrier of the grid ends the round of all.  Behind the barrier everything is stored, and another
round follows if anything was pushed in the last one.  A subgroup that has processed items also ends its round when more
items wait than it can take, so that subgroups which came too early get their share.

All words that lanes share inside a round are atomics.  A place whose slot is still taken, by what ``head`` says, is
counted as lost; then nothing claims beyond it, the rounds end, and the next launch claims nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from vyre.domain.frozen import frozen
from vyre.domain.ir.expr import Atomic, Binary, Cast, Expr, Literal, Var
from vyre.domain.ir.operators import BinaryOp, Ordering
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.stmt import Block, Let, Region, Stmt, Store
from vyre.domain.ir.types import ScalarType
from vyre.domain.work_queues.forms import TOTALS, DrainForm, Draining, ItemWork, u32
from vyre.domain.work_queues.roles import QueueRoles

if TYPE_CHECKING:
    from vyre.domain.work_queues.forms import Words

_LEFT_OVER: Final = 1
_BEGUN: Final = 2
_ALLOWED: Final = 3
_CONTROL_WORDS: Final = 4
"""The control words: whether another launch has items to process, the items left, ``head`` when the launch began, and
the most items that it processes.
"""
_LINE: Final = 32
_HEAD, _TAIL, _LOST = 0, _LINE, 2 * _LINE
_PLACE_WORDS: Final = 3 * _LINE
"""The words that all subgroups update, each on a line of 128 bytes of its own."""
_HINTS: Final = (
    *("queue", "control", "totals", "more", "budget", "places", "head", "tail", "first", "waiting", "worked", "turn"),
    *("lane", "word", "there", "claimed", "won", "taken", "slot", "item", "seen", "filled", "old", "done", "lost"),
    *("rest", "ahead", "rounds"),
)
_ITEM: Final = "item of a ring"
_TEXT: Final = """
workgroup_size 1, 1, 1
buffer {queue} @0 read_write u64[runtime]
buffer {control} @1 read_write u32[{words}]
buffer {totals} @2 read_write u64[{all_totals}]
buffer {more} @3 read_write u32[1]
buffer {places} @4 read_write u32[{place_words}]
param {budget} @5 u32
body {{
  if gid.x == 0u {{
    {control}[{begun}u] = {places}[{head_word}u]
    {control}[{allowed}u] = select({places}[{lost_word}u] == 0u, {budget}, 0u)
  }}
  let {rounds} = grid_loop(0xffffffffu, {more}) {{
    let {lane} = subgroup_lane()
    let {worked} = 0u
    for {turn} in 0u..0xffffffffu {{
      let {head} = 0u
      let {waiting} = 0u
      if {lane} == 0u {{
        {head} := atomic_or.relaxed({places}, {head_word}u, 0u)
        let {tail} = atomic_or.relaxed({places}, {tail_word}u, 0u)
        {waiting} := min({tail} - {head}, {control}[{allowed}u] - ({head} - {control}[{begun}u]))
      }}
      let {ahead} = subgroup_add({waiting})
      if {ahead} == 0u {{ break }}
      if {worked} != 0u and {ahead} > subgroup_size() {{
        {more}[0u] = 1u
        break
      }}
      let {first} = subgroup_add({head})
      let {word} = 0u64
      if {lane} < {ahead} {{ {word} := atomic_or.relaxed({queue}, ({first} + {lane}) & (len({queue}) - 1u), 0u64) }}
      let {there} = {lane} < {ahead} and cast<u32>({word} >> 32u) == {first} + {lane} + 1u
      let {claimed} = ctz(bitnot(subgroup_ballot({there})))
      if {claimed} == 0u {{ break }}
      let {won} = 0u
      if {lane} == 0u {{
        if atomic_compare_exchange.relaxed({places}, {head_word}u, {first}, {first} + {claimed}) == {first} {{
          {won} := {claimed}
        }}
      }}
      let {taken} = subgroup_add({won})
      {worked} := {worked} + {taken}
      if {lane} < {taken} {{ region "{marker}" {{ }} }}
    }}
  }}
  if gid.x == 0u {{
    let {done} = {places}[{head_word}u] - {control}[{begun}u]
    let {lost} = {places}[{lost_word}u]
    let {rest} = select({lost} == 0u, {places}[{tail_word}u] - {places}[{head_word}u], 0u)
    {control}[0u] = select({done} == 0u, 0u, {rest})
    {control}[{left_over}u] = {rest}
    {totals}[0u] = {totals}[0u] + cast<u64>({done})
    {totals}[1u] = {totals}[0u] + cast<u64>({rest})
    {totals}[2u] = {totals}[2u] + cast<u64>({rounds})
    {totals}[3u] = cast<u64>({lost})
  }}
}}
"""
_PUSH: Final = """
workgroup_size 1, 1, 1
buffer {queue} @0 read_write u64[runtime]
buffer {more} @1 read_write u32[1]
buffer {places} @2 read_write u32[{place_words}]
body {{
  let {first} = 0u
  let {slot} = 0u
  let {item} = 0u
  region "{marker}" {{
    let {seen} = {first}
    if {slot} - {seen} >= len({queue}) {{ {seen} := atomic_or.relaxed({places}, {head_word}u, 0u) }}
    if {slot} - {seen} < len({queue}) {{
      let {filled} = (cast<u64>({slot} + 1u) << 32u) | cast<u64>({item})
      let {old} = atomic_exchange.relaxed({queue}, {slot} & (len({queue}) - 1u), {filled})
      {more}[0u] = 1u
    }} else {{
      let {old} = atomic_add.relaxed({places}, {lost_word}u, 1u)
    }}
  }}
}}
"""
_ANY_ROOM: Final = Literal(ScalarType.U32, 0xFFFFFFFF)
"""The expression for the length of the pushed items; by identity, a comparison with it says that there is room."""
_MORE_THAN: Final = (BinaryOp.GT, BinaryOp.GE)
_LESS_THAN: Final = (BinaryOp.LT, BinaryOp.LE)


@frozen
class RingForm(DrainForm):
    """A queue as a ring, whose slots are u64; ``others`` are the words that all subgroups update."""

    slot_bytes: ClassVar[int] = 8
    control_words: ClassVar[int] = _CONTROL_WORDS
    left_over: ClassVar[int] = _LEFT_OVER

    def _fill(self, arrays: dict[str, Words], items: Words, slots: int, used: int) -> None:
        import numpy as np

        words = np.zeros(min(max(used, items.size), slots), np.uint64)
        places = np.arange(1, items.size + 1, dtype=np.uint64)
        words[: items.size] = (places << np.uint64(32)) | items
        arrays[self.queue] = words
        (places_name,) = self.others
        arrays[places_name][_TAIL] = items.size


class RingDraining(Draining):
    """Makes the program of a queue as a ring."""

    def __init__(self, program: Program, roles: QueueRoles) -> None:
        super().__init__(program, roles, _HINTS)
        self._numbers = {"head_word": _HEAD, "tail_word": _TAIL, "lost_word": _LOST, "place_words": _PLACE_WORDS}
        self._push_text = Program.from_text(_PUSH.format(marker=_ITEM, **self._numbers, **self._names))

    def form(self) -> RingForm:
        """Returns the program, with the work of an item in its loop."""
        names = self._names
        item = Cast(ScalarType.U32, Var(names["word"]))
        parts = ItemWork(number=u32(0), items=u32(1), pushed=_ANY_ROOM)
        work = rebuilt(self._items_work(item, parts), _with_room)
        text = _TEXT.format(
            marker=_ITEM,
            words=_CONTROL_WORDS,
            all_totals=len(TOTALS),
            begun=_BEGUN,
            allowed=_ALLOWED,
            left_over=_LEFT_OVER,
            **self._numbers,
            **names,
        )
        program = self._filled(Program.from_text(text), {_ITEM: work})
        queue, control, totals, more, budget = (names[name] for name in _HINTS[:5])
        return RingForm(program, queue, control, totals, more, budget, {names["places"]: _PLACE_WORDS})

    def _reserved(self, node: Atomic, phase: int) -> Expr:
        return replace(node, buffer=self._names["places"], index=u32(_TAIL), ordering=Ordering.RELAXED)

    def _push(self, node: Store, phase: int) -> Stmt:
        """Returns what stores an item with its number, if its slot is free, and keeps the rounds going."""
        names = self._names
        (region,) = (stmt for stmt in self._push_text.body if isinstance(stmt, Region))
        lets = (Let(names["slot"], node.index, loc=node.loc), Let(names["item"], node.value, loc=node.loc))
        return Block((*lets, *region.body))


def _with_room(node: Any) -> Any:
    """Returns a node, or what a comparison of a place with the length of the pushed items says: that there is room."""
    if isinstance(node, Binary) and (node.left is _ANY_ROOM or node.right is _ANY_ROOM):
        holds = _LESS_THAN if node.right is _ANY_ROOM else _MORE_THAN
        if node.op in (*_LESS_THAN, *_MORE_THAN):
            return Literal(ScalarType.BOOL, int(node.op in holds))
    return node
