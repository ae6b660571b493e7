"""Command lists: what one native call runs.

A command is sixteen 64-bit words; word 0 is its kind.
    kernel (1)  1 function, 2 frame, 3 groups, 4 groups in a chunk, 5 most threads, 6 scratch bytes,
                7 privatisation table or 0, 8 byte offset in the frame of the buffer that counts the groups, or 0
    copy (2)    1 to, 2 from, 3 bytes; the ranges do not overlap
    fill (3)    1 to, 2 byte, 3 bytes
    repeat (4)  1 commands in the body, which follow it, 2 address of a u32 or 0, 3 most rounds, 4 address of a u64
                that gets the number of rounds, or 0, 5 when the u32 is tested: 0 before each round, 1 after it

A privatisation table holds 64-bit words: the number of entries, the bytes of the frame, and for every entry four words:
the byte offset in the frame of the buffer's address, the buffer's bytes, the way to merge (a position in
``layout.MERGES``), and the identity in all 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ctypes import Array, addressof, c_int64, c_uint64
from typing import Final, NamedTuple, TypeAlias

from vyre.adapters.cpu.pool import layout as at
from vyre.domain.errors import UnsupportedFeature

_WIDTHS: Final = {"u32": 32, "i32": 32, "u64": 64}
_M64: Final = 0xFFFF_FFFF_FFFF_FFFF
_IDENTITIES: Final = {
    "add": 0,
    "or": 0,
    "xor": 0,
    "and": _M64,
    "umin": _M64,
    "umax": 0,
    "smin": 0x7FFF_FFFF_7FFF_FFFF,
    "smax": 0x8000_0000_8000_0000,
}


class Private(NamedTuple):
    """A buffer of which every thread of a kernel command has its own copy.

    ``slot`` is its position among the ABI buffers of the frame and ``nbytes`` its length, a multiple of its elements'
    size.  ``dtype`` is ``u32``, ``i32`` or ``u64``; ``operation`` is ``add``, ``and``, ``or``, ``xor``, ``min`` or
    ``max``.
    """

    slot: int
    nbytes: int
    dtype: str
    operation: str

    def merge(self) -> tuple[int, str]:
        """Returns the bits of an element and the operation, as in ``layout.MERGES``."""
        signed = "s" if self.dtype == "i32" else "u"
        return _WIDTHS[self.dtype], signed + self.operation if self.operation in ("min", "max") else self.operation


class PrivateTable:
    """The privatisation table of a kernel command whose frame has ``frame_words`` words.

    Tables of the same entries and frame are equal.
    """

    def __init__(self, frame_words: int, entries: Sequence[Private]) -> None:
        words = [len(entries), 8 * frame_words]
        for entry in entries:
            way = entry.merge()
            place = at.Frame.buffers + 16 * entry.slot
            words += [place, entry.nbytes, at.MERGES.index(way), _IDENTITIES[way[1]]]
        self.words: Final[Array[c_uint64]] = (c_uint64 * len(words))(*words)
        self.address: Final = addressof(self.words)
        self.nbytes: Final = _lines(8 * frame_words) + sum(_lines(entry.nbytes) for entry in entries)
        """Bytes of scratch that a thread's frame and copies take."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrivateTable) and bytes(self.words) == bytes(other.words)

    def __hash__(self) -> int:
        return hash(bytes(self.words))


class Kernel(NamedTuple):
    """Runs ``groups`` workgroups of the kernel at address ``function`` with the frame at address ``frame``.

    Up to ``threads`` threads take ``grain`` workgroups at a time.  ``scratch_bytes`` is what the kernel needs on each
    thread.  The kernel of a command with a ``table`` is its exclusive variant.  The pool writes the frame's word 3.

    ``counted`` is the byte offset in the frame of a buffer of three u32 that say how many workgroups run along each
    axis, when the command begins; 0 for none.  The kernel is given all groups up to the last of them.
    """

    function: int
    frame: int
    groups: int
    grain: int = 1
    threads: int = 1
    scratch_bytes: int = 0
    table: PrivateTable | None = None
    counted: int = 0


class Copy(NamedTuple):
    """Copies ``nbytes`` bytes between addresses.  The ranges do not overlap."""

    to: int
    source: int
    nbytes: int


class Fill(NamedTuple):
    """Sets ``nbytes`` bytes at address ``to`` to ``byte``."""

    to: int
    byte: int
    nbytes: int


class Repeat(NamedTuple):
    """Runs ``commands`` round after round, at most ``limit`` times (below 2^64).

    ``word`` is the address of a u32.  It is read before each round, and no round begins where it is 0; with
    ``cleared`` it is set to 0 before each round instead and read after it, and the round that left it 0 was the last.
    With address 0 nothing is read, and all rounds run.  The u64 at address ``rounds``, unless that is 0, gets the
    number of rounds that have begun, also where a run ends within one.

    The commands may be repeats themselves, up to ``MOST_NESTED`` levels in all.
    """

    commands: tuple[Command, ...]
    word: int
    limit: int = _M64
    rounds: int = 0
    cleared: bool = False


Command: TypeAlias = "Kernel | Copy | Fill | Repeat"
MOST_NESTED: Final = 16
"""Levels of repeats within repeats: each takes some stack of the thread that runs them."""


def flat(commands: Iterable[Command], level: int = 0) -> list[Command]:
    """Returns the commands as they stand in memory: every repeat is followed by its own commands.

    A repeat in the result may be told from others only by its position.  Raises ``UnsupportedFeature`` beyond
    ``MOST_NESTED`` levels.
    """
    listed: list[Command] = []
    for command in commands:
        listed.append(command)
        if isinstance(command, Repeat):
            if level == MOST_NESTED:
                raise UnsupportedFeature(feature=f"more than {MOST_NESTED} loops within one another", backend="cpu")
            listed += flat(command.commands, level + 1)
    return listed


class CommandList:
    """Commands as the runtime reads them: ``prefix`` once, then ``repeated`` as often as ``repetitions`` says.

    It keeps the tables alive, and no frame and no buffer.  ``words`` may be changed between runs.  ``prefix`` and
    ``repeated`` are the numbers of commands, those within repeats counted.  ``copies`` holds the words of copies that
    run in place of a ``prefix``.
    """

    __slots__ = ("_tables", "address", "prefix", "repeated", "repetitions", "scratch_bytes", "threads", "words")

    def __init__(
        self,
        prefix: Sequence[Command] = (),
        repeated: Sequence[Command] = (),
        repetitions: int = 0,
        *,
        copies: Array[c_int64] | None = None,
    ) -> None:
        once = flat(prefix)
        commands = (*once, *flat(repeated))
        tables: list[PrivateTable | None] = []
        words: list[int] = []
        scratch, threads = 0, 1
        for command in commands:
            words += _words(command)
            words += [0] * (-len(words) % at.COMMAND_WORDS)
            if isinstance(command, Kernel):
                tables.append(command.table)
                scratch, threads = max(scratch, _scratch(command)), max(threads, command.threads)
        self._tables: Final = tuple(tables)
        self.words: Final[Array[c_int64]] = (c_int64 * len(words))(*words) if copies is None else copies
        self.address: Final = addressof(self.words)
        self.prefix: Final = len(once) if copies is None else len(copies) // at.COMMAND_WORDS
        self.repeated: Final = len(commands) - len(once)
        self.repetitions: int = repetitions
        self.scratch_bytes: Final = scratch
        """Bytes of scratch that every thread needs."""
        self.threads: Final = threads

    def set_limit(self, position: int, limit: int) -> None:
        """Sets the most rounds of the repeat at a position in the flat list.  No run may be under way."""
        assert self.words[at.COMMAND_WORDS * position] == at.REPEAT
        self.words[at.COMMAND_WORDS * position + 3] = limit


def _words(command: Command) -> list[int]:
    if isinstance(command, Kernel):
        table = command.table.address if command.table is not None else 0
        return [at.KERNEL, *command[:6], table, command.counted]
    if isinstance(command, Repeat):
        return [at.REPEAT, len(flat(command.commands)), *command[1:]]
    return [at.COPY if isinstance(command, Copy) else at.FILL, *command]


def _scratch(kernel: Kernel) -> int:
    return kernel.scratch_bytes if kernel.table is None else _lines(kernel.scratch_bytes) + kernel.table.nbytes


def _lines(nbytes: int) -> int:
    return -(-nbytes // at.LINE) * at.LINE
