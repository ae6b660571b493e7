"""E-graphs as one contiguous array (a slab) of 32-bit words.

Nine columns are stored back to back: for each row (e-node) its class, operator, offset and number of children, and
signature; the children; and for each class, ascending, its rows.  Two rows with equal operator and children have
equal signatures; the converse is checked, never assumed.  Packing is O(n log n) in rows and children.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate, chain
from typing import Final, NamedTuple

from vyre.domain.errors import PlanError
from vyre.domain.record import U32, U64, record
from vyre.graphs.egraph_kernels import SIGNATURE_ADDEND, SIGNATURE_FACTOR, SIGNATURE_SEED, SIGNATURE_TURN

_MASK: Final = 0xFFFF_FFFF
WORD_BYTES: Final = 4


def row_signature(language_op_id: int, children: tuple[int, ...]) -> int:
    """Returns a 32-bit hash of operator, arity and children in order."""
    state = SIGNATURE_SEED
    for value in (language_op_id, len(children), *children):
        mixed = state ^ (value + SIGNATURE_ADDEND + (state << 6) + (state >> 2)) & _MASK
        turned = mixed << SIGNATURE_TURN | mixed >> 32 - SIGNATURE_TURN
        state = (turned & _MASK) * SIGNATURE_FACTOR & _MASK
    return state


@record
class ENodeRow:
    """An e-node: its class, its operator, and the classes of its children."""

    eclass_id: U32
    op: str
    children: tuple[U32, ...]


@record
class EGraphSnapshot:
    """The rows of an e-graph at one time."""

    rows: tuple[ENodeRow, ...]


class Span(NamedTuple):
    """The words ``offset`` to ``offset + length`` of the slab."""

    offset: int
    length: int


class Columns(NamedTuple):
    """One item per column, in slab order."""

    row_eclass_ids: Span
    row_language_op_ids: Span
    row_children_offsets: Span
    row_children_lens: Span
    row_signatures: Span
    children: Span
    group_eclass_ids: Span
    group_offsets: Span
    group_rows: Span


@record
class ImageShape:
    """The counts that determine the offset of every column."""

    row_count: U32
    child_count: U32
    eclass_group_count: U32

    @property
    def spans(self) -> Columns:
        """Returns the span of every column."""
        rows, groups = self.row_count, self.eclass_group_count
        lengths = (*[rows] * 5, self.child_count, groups, groups + 1, rows)
        offsets = accumulate(lengths, initial=0)
        return Columns(*map(Span, offsets, lengths))

    @property
    def word_count(self) -> int:
        """Returns the number of words of the slab."""
        last = self.spans.group_rows
        return last.offset + last.length


class DeviceImage(NamedTuple):
    """A packed e-graph: its shape, and the words of its slab."""

    shape: ImageShape
    words: tuple[int, ...]

    def column(self, name: str) -> tuple[int, ...]:
        """Returns the words of one column of ``Columns``."""
        span: Span = getattr(self.shape.spans, name)
        return self.words[span.offset : span.offset + span.length]


@record
class KernelViewInputs:
    """An image on a device; ``base_ptr`` is the device address of the slab."""

    base_ptr: U64
    shape: ImageShape


class KernelView(NamedTuple):
    """The arguments of a kernel: address and size in bytes of the slab, and the address of every column, in slab
    order.
    """

    base_ptr: int
    byte_len: int
    pointers: tuple[int, ...]


def kernel_view(inputs: KernelViewInputs) -> KernelView:
    """Returns the addresses of an image at ``base_ptr``; raises ``PlanError`` if the slab would leave the address
    space.
    """
    length = inputs.shape.word_count * WORD_BYTES
    if inputs.base_ptr + length > 2**64:
        raise PlanError("AddressOverflow", base_ptr=inputs.base_ptr, byte_len=length)
    pointers = tuple(inputs.base_ptr + span.offset * WORD_BYTES for span in inputs.shape.spans)
    return KernelView(inputs.base_ptr, length, pointers)


def intern_operators(snapshot: EGraphSnapshot) -> list[int]:
    """Returns the operator number of every row; operators are numbered by first occurrence."""
    ids: dict[str, int] = {}
    return [ids.setdefault(row.op, len(ids)) for row in snapshot.rows]


def pack_device_image(snapshot: EGraphSnapshot) -> DeviceImage:
    """Returns the slab of an e-graph; raises ``PlanError("Integrity")`` for a child class that has no row."""
    groups: dict[int, list[int]] = defaultdict(list)
    for index, row in enumerate(snapshot.rows):
        groups[row.eclass_id].append(index)
    for index, row in enumerate(snapshot.rows):
        for child in row.children:
            if child not in groups:
                raise PlanError("Integrity", context="dangling child eclass", row=index, value=child)
    operators = intern_operators(snapshot)
    arities = [len(row.children) for row in snapshot.rows]
    classes = sorted(groups)
    shape = ImageShape(len(snapshot.rows), sum(arities), len(groups))
    columns = (
        (row.eclass_id for row in snapshot.rows),
        operators,
        list(accumulate(arities, initial=0))[:-1],
        arities,
        (row_signature(op, row.children) for op, row in zip(operators, snapshot.rows, strict=True)),
        chain.from_iterable(row.children for row in snapshot.rows),
        classes,
        accumulate((len(groups[c]) for c in classes), initial=0),
        chain.from_iterable(groups[c] for c in classes),
    )
    return DeviceImage(shape, tuple(chain.from_iterable(columns)))
