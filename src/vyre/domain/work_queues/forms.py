"""The parts that all programs share that drain a work queue: their buffers, and the work of one item in them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from vyre.domain.frozen import frozen
from vyre.domain.fusion.returns import without_returns
from vyre.domain.grid_sync import fresh_names
from vyre.domain.ir.expr import Atomic, BufferLength, Expr, Literal, Load
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.stmt import Block, Body, Region, Stmt, Store
from vyre.domain.ir.types import ScalarType
from vyre.domain.validation.validator import check_rules
from vyre.domain.work_queues.roles import QueueRoles, is_item_number

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Words: TypeAlias = "npt.NDArray[np.uint32] | npt.NDArray[np.uint64]"

MOST_SLOTS: Final = 2**31 - 1
"""The most slots of a queue: the sum of two places has 32 bits."""
PENDING: Final = 0
"""The word of the control buffer that is not 0 while another launch has items to process."""
TOTALS: Final = ("processed", "pushed", "phases", "lost")
"""The meaning of the words of the totals: items processed, items that found room, with the initial ones, phases that
processed items, or rounds of a ring, and items that found no room.
"""


@frozen
class DrainForm:
    """A valid program that drains a queue; any number of workgroups along x may run it.

    Its buffers are those of the step program without the three of the queue, and, by these names: ``queue``, the slots;
    ``control``, u32, of which word ``PENDING`` tells whether another launch has items to process, and word
    ``left_over`` how many are left; ``totals``, a u64 for each of ``TOTALS``, which only grow; ``more`` and ``others``,
    u32 each, with the number of their words; and the parameter ``budget``, the most items that a launch processes.
    """

    program: Program
    queue: str
    control: str
    totals: str
    more: str
    budget: str
    others: Mapping[str, int]
    slot_bytes: ClassVar[int]
    control_words: ClassVar[int]
    left_over: ClassVar[int]

    @property
    def names(self) -> frozenset[str]:
        """The names of the buffers of the queue, and of the parameter."""
        return frozenset((self.queue, self.control, self.totals, self.more, self.budget, *self.others))

    def sizes(self, slots: int) -> dict[str, int]:
        """Returns the bytes of each buffer of a queue, by name."""
        words = {self.control: self.control_words, self.totals: 2 * len(TOTALS), self.more: 1, **self.others}
        return {self.queue: self.slot_bytes * slots, **{name: 4 * count for name, count in words.items()}}

    def start(self, items: Words, slots: int, used: int) -> dict[str, Words]:
        """Returns what the buffers hold before the first launch, by name, as arrays of u32 and u64.

        ``items``: the initial items, u32, not more than ``slots``.  ``used``: the slots, from the first one on, that an
        earlier drain has written to.  The array of the slots ends where further ones may hold anything.
        """
        import numpy as np

        words = {self.control: self.control_words, self.more: 1, **self.others}
        arrays: dict[str, Words] = {name: np.zeros(count, np.uint32) for name, count in words.items()}
        arrays[self.totals] = np.zeros(len(TOTALS), np.uint64)
        self._fill(arrays, items, slots, used)
        return arrays

    def _fill(self, arrays: dict[str, Words], items: Words, slots: int, used: int) -> None:
        """Adds the slots, and the words that are not 0."""
        raise NotImplementedError


@frozen
class ItemWork:
    """The expressions for the parts of a queue in the work of one item: the number of the item, and both lengths."""

    number: Expr
    items: Expr
    pushed: Expr


class Draining:
    """Makes the program of a drain: a frame, with the work of an item in place of each region of a certain name."""

    def __init__(self, program: Program, roles: QueueRoles, hints: tuple[str, ...]) -> None:
        self._program, self._roles = program, roles
        self._names = dict(zip(hints, fresh_names(program, *hints, "returned"), strict=False))
        self._work = without_returns(program.body, fresh_names(program, *hints, "returned")[-1])

    def _filled(self, frame: Program, work: Mapping[str, Body]) -> Program:
        """Returns the frame with bodies in place of regions, by their names, and with the buffers of the step."""
        blocks = {marker: Block(body) for marker, body in work.items()}
        body = rebuilt(frame.body, lambda node: blocks[node.generator] if isinstance(node, Region) else node)
        of_queue = (self._roles.items, self._roles.pushed, self._roles.count)
        kept = (buffer for buffer in self._program.abi_buffers if buffer.name not in of_queue)
        buffers = tuple(replace(buffer, binding=place) for place, buffer in enumerate((*kept, *frame.abi_buffers)))
        name = f"{self._program.name or 'unnamed'} drained"
        program = Program(buffers, self._program.workgroup_size, body, name=name)
        check_rules(program).raise_if_invalid()
        return program

    def _items_work(self, item: Expr, parts: ItemWork, phase: int = 0) -> Body:
        """Returns the body of the step for one item, which pushes to the queue."""
        roles = self._roles
        lengths = {roles.items: parts.items, roles.pushed: parts.pushed, roles.count: u32(1)}

        def change(node: Any) -> Any:
            if is_item_number(node):
                return parts.number
            if isinstance(node, Load) and node.buffer == roles.items:
                return item
            if isinstance(node, BufferLength) and node.buffer in lengths:
                return lengths[node.buffer]
            if isinstance(node, Atomic) and node.buffer == roles.count:
                return self._reserved(node, phase)
            if isinstance(node, Store) and node.buffer == roles.pushed:
                return self._push(node, phase)
            return node

        return rebuilt(self._work, change)

    @abstractmethod
    def _reserved(self, node: Atomic, phase: int) -> Expr:
        """Returns what reserves places, for an atomic on the count of the step."""

    @abstractmethod
    def _push(self, node: Store, phase: int) -> Stmt:
        """Returns what pushes an item, for a store to the pushed items of the step."""


def u32(value: int) -> Literal:
    """Returns a u32."""
    return Literal(ScalarType.U32, value)
