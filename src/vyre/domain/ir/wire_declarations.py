"""Readers of what a body of ``.vyrb`` refers to: the records of its buffers, and the names section.

``wire_format`` describes both.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, TypeVar

from vyre.domain.ir import wire_format as w
from vyre.domain.ir.buffers import Access, Buffer, BufferHints, CacheLocality, MemoryKind
from vyre.domain.ir.limits import U64_MAX
from vyre.domain.ir.location_table import LocationTable
from vyre.domain.ir.size_parameters import SIZE_NAMES, SizeParameter, written_sizes
from vyre.domain.ir.types import SCALAR_BY_TAG, DataType
from vyre.domain.ir.wire_reader import WireReader

_E = TypeVar("_E", bound=Enum)


def member(reader: WireReader, table: dict[int, _E], what: str) -> _E:
    """Reads a tag and returns its entry in ``table``; raises ``MalformedWire``, which calls it a ``what``."""
    tag = reader.byte()
    entry = table.get(tag)
    if entry is None:
        raise reader.fail(f"unknown {what} {tag:#04x}")
    return entry


def by_value(members: type[_E]) -> dict[int, _E]:
    """Returns the members of an enum by their tags."""
    return {member.value: member for member in members}


_ACCESS: Final = by_value(Access)
_KIND: Final = by_value(MemoryKind)
_LOCALITY: Final = by_value(CacheLocality)


class Record(NamedTuple):
    """The semantic part of a buffer; ``raw`` are its bytes."""

    access: Access
    is_output: bool
    kind: MemoryKind
    element: DataType
    elements: int
    like: int | None
    output_range: tuple[int, int] | None
    raw: bytes

    @property
    def is_bound(self) -> bool:
        """Whether a caller binds memory to the buffer."""
        return self.access not in _UNBOUND


_UNBOUND: Final = (Access.WORKGROUP, Access.PRIVATE)


def read_record(reader: WireReader, buffers: int) -> Record:
    """Reads the record of one of ``buffers`` buffers; raises ``MalformedWire``."""
    start = reader.position
    access = member(reader, _ACCESS, "access")
    flags = reader.byte()
    if flags > w.IS_OUTPUT | w.HAS_LIKE | w.HAS_RANGE:
        raise reader.fail("unknown flags of a buffer")
    kind = member(reader, _KIND, "memory kind")
    element, count = reader.type(SCALAR_BY_TAG), reader.uleb()
    like = output_range = None
    if flags & w.HAS_LIKE:
        like = reader.uleb()
        if like >= buffers or access in _UNBOUND:
            raise reader.fail("a buffer is sized like one that does not exist")
    if flags & w.HAS_RANGE:
        output_range = (reader.uleb(U64_MAX), reader.uleb(U64_MAX))
    raw = reader.since(start)
    return Record(access, bool(flags & w.IS_OUTPUT), kind, element, count, like, output_range, raw)


class Labels:
    """The names section: buffers are read at once, the names of locals, tags and blocks as the body needs them."""

    def __init__(self, reader: WireReader, records: list[Record]) -> None:
        self._reader = reader
        flags = reader.byte()
        if flags > w.HAS_NAME | w.NON_COMPOSABLE | w.HAS_SIZES | w.HAS_LOCATIONS:
            raise reader.fail("unknown flags of the names section")
        self.program_name: str | None = reader.string() if flags & w.HAS_NAME else None
        self.non_composable: bool = bool(flags & w.NON_COMPOSABLE)
        self.records: list[Record] = records
        self.buffer_names: list[str] = []
        self._places: list[int] = []
        self._buffers = self._read_buffers()
        self._locals = [reader.string() for _ in range(reader.uleb())]
        self.tags: list[str] = [reader.string() for _ in range(reader.uleb())]
        if len(set(self.tags)) < len(self.tags):
            raise reader.fail("two async tags have the same name")
        self._blocks = [self._block() for _ in range(reader.uleb())]
        self.sizes: tuple[SizeParameter, ...] = (
            tuple([self._size() for _ in range(reader.uleb())]) if flags & w.HAS_SIZES else ()
        )
        if flags & w.HAS_SIZES and (not self.sizes or written_sizes(self.sizes, self.declared()) != self.sizes):
            raise reader.fail("a parameter holds no size of an axis")
        self.locations: LocationTable | None = self._locations() if flags & w.HAS_LOCATIONS else None
        if not reader.at_end:
            raise reader.fail("bytes follow the names section")
        self._next_local = self._next_block = 0

    def _read_buffers(self) -> list[tuple[int, BufferHints]]:
        reader = self._reader
        facts = []
        previous = -1
        for i, record in enumerate(self.records):
            self.buffer_names.append(reader.string())
            binding = reader.uleb()
            if not record.is_bound:
                previous = -1
            elif binding <= previous or (i and not self.records[i - 1].is_bound):
                raise reader.fail("buffers are not in the order of their bindings")
            else:
                previous = binding
            axis = reader.uleb(256)
            alignment = reader.uleb()
            locality = member(reader, _LOCALITY, "cache locality")
            facts.append((binding, BufferHints(axis - 1 if axis else None, alignment, locality)))
            self._places.append(reader.uleb())
        if len(set(self.buffer_names)) < len(self.records):
            raise reader.fail("two buffers have the same name")
        if set(self._places) != set(range(len(self.records))):
            raise reader.fail("the declaration order is not a permutation")
        return facts

    def _block(self) -> tuple[str, str | None] | None:
        reader = self._reader
        kind = reader.byte()
        if kind > w.SOURCED_REGION:
            raise reader.fail(f"unknown kind of block {kind:#04x}")
        if kind == w.PLAIN_BLOCK:
            return None
        return reader.string(), reader.string() if kind == w.SOURCED_REGION else None

    def _size(self) -> SizeParameter:
        name, array = [self.buffer_names[self._reader.uleb(len(self.records) - 1)] for _ in range(2)]
        return name, array, -self._reader.uleb(len(SIZE_NAMES))

    def _locations(self) -> LocationTable:
        reader = self._reader
        strings = tuple([reader.string() for _ in range(reader.uleb())])
        return LocationTable(strings, self._rows(), self._rows())

    def _rows(self) -> tuple[tuple[int, ...], ...]:
        reader = self._reader
        return tuple([tuple([reader.uleb() for _ in range(reader.uleb())]) for _ in range(reader.uleb())])

    def next_local(self) -> str:
        """Returns the name of the local that the body declares next."""
        if self._next_local == len(self._locals):
            raise self._reader.fail("too few names of locals")
        self._next_local += 1
        return self._locals[self._next_local - 1]

    def next_block(self) -> tuple[str, str | None] | None:
        """Returns generator and source of the region that the body opens next, or None for a block."""
        if self._next_block == len(self._blocks):
            raise self._reader.fail("too few labels of blocks")
        self._next_block += 1
        return self._blocks[self._next_block - 1]

    def finish(self) -> None:
        """Checks that the body has declared everything that has a name."""
        if self._next_local != len(self._locals) or self._next_block != len(self._blocks):
            raise self._reader.fail("more names than the body declares")

    def require_sorted(self, first: int) -> None:
        """Checks that buffers from number ``first`` on, which nothing uses, are in the order of their records."""
        keys = [(record.raw, place) for record, place in zip(self.records, self._places, strict=True)][first:]
        if keys != sorted(keys):
            raise self._reader.fail("unused workgroup or private buffers are out of order")

    def declared(self) -> tuple[Buffer, ...]:
        """Returns the buffers in declaration order."""
        names = self.buffer_names
        by_place: dict[int, Buffer] = {}
        for i, (record, (binding, hints)) in enumerate(zip(self.records, self._buffers, strict=True)):
            by_place[self._places[i]] = Buffer(
                names[i],
                binding,
                record.access,
                record.element,
                record.elements,
                record.is_output,
                record.kind,
                None if record.like is None else names[record.like],
                record.output_range,
                hints,
            )
        return tuple(by_place[place] for place in range(len(by_place)))


class LocalNames(Labels):
    """The names of a definition: those of its parameters and locals, and none else."""

    def __init__(self, reader: WireReader) -> None:
        self._reader = reader
        self.records: list[Record] = []
        self.buffer_names: list[str] = []
        self.tags: list[str] = []
        self._locals = [reader.string() for _ in range(reader.uleb())]
        self._blocks = []
        self._next_local = self._next_block = 0
