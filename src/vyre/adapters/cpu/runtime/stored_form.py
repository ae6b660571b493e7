"""The layout of kernels as bytes, which a store keeps beside their object.

Integers are little-endian, a text is its length in bytes and its UTF-8, and a number that may be absent follows a byte
that is 1 where it is there.  Decoded values are checked against what a launcher relies on, whatever the source of the
bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from vyre.adapters.cpu.llvm.captures import Capture, scratch_for
from vyre.adapters.cpu.native.compilation import Effort
from vyre.domain.errors import MalformedWire

FORMAT: Final = b"vyre-object/3"
_SCRATCH_MAX: Final = 1 << 48
_LANES_MAX: Final = 64
_HEAD: Final = Struct(f"<{len(FORMAT)}sBHI")
_KERNEL: Final = Struct("<QBQIII")
_CAPTURE: Final = Struct("<QBQI")
_WORD: Final = Struct("<Q")
_LENGTH: Final = Struct("<I")
_EFFORTS: Final = tuple(Effort)
_FIX: Final = "compile the program again."


class KernelLayout(NamedTuple):
    """A kernel of an object.

    ``entry``: the name of its function.  ``scratch_bytes`` and ``captures``: memory that each thread needs.
    ``trap_tags``: the tags by the number that a trap records.  ``bounded``: an upper bound of the rounds of its loops;
    None if there is none.
    """

    entry: str
    scratch_bytes: int
    trap_tags: tuple[str, ...]
    bounded: int | None
    captures: tuple[Capture, ...] = ()

    def scratch_for(self, nbytes: Sequence[int]) -> int:
        """Returns the bytes of scratch memory that each thread needs in a launch whose buffers have so many bytes."""
        return scratch_for(self.scratch_bytes, self.captures, nbytes) if self.captures else self.scratch_bytes


class CodeLayout(NamedTuple):
    """The kernels of an object, which are launched in this order, the number of lanes of their vectors, and the
    effort that made the object.
    """

    lanes: int
    effort: Effort
    kernels: tuple[KernelLayout, ...]


def encode_layout(layout: CodeLayout) -> bytes:
    """Returns a layout as bytes."""
    parts = [_HEAD.pack(FORMAT, _EFFORTS.index(layout.effort), layout.lanes, len(layout.kernels))]
    for entry, scratch, tags, bounded, captures in layout.kernels:
        name = entry.encode("utf-8", "surrogatepass")
        parts += (_KERNEL.pack(scratch, *_optional(bounded), len(name), len(tags), len(captures)), name)
        for tag in tags:
            text = tag.encode("utf-8", "surrogatepass")
            parts += (_LENGTH.pack(len(text)), text)
        for lanes, slots, most in captures:
            parts += (_CAPTURE.pack(lanes, *_optional(most), len(slots)), *map(_WORD.pack, slots))
    return b"".join(parts)


def decode_layout(data: bytes) -> CodeLayout:
    """Inverts ``encode_layout``; raises ``MalformedWire`` for any other bytes."""
    try:
        form, effort, lanes, count = _HEAD.unpack_from(data)
        if form != FORMAT:
            raise ValueError(f"its format is not {FORMAT.decode()}")
        if not 1 <= lanes <= _LANES_MAX:
            raise ValueError("its number of lanes is none")
        kernels, offset = [], _HEAD.size
        for _ in range(count):
            kernel, offset = _kernel(data, offset)
            kernels.append(kernel)
        layout = CodeLayout(lanes, _EFFORTS[effort], tuple(kernels))
        if not kernels or offset != len(data):
            raise ValueError("it has no kernels, or bytes behind them")
    except (ValueError, IndexError, StructError) as error:  # UnicodeDecodeError is a ValueError
        raise MalformedWire(f"not the layout of an object: {error}", fix=_FIX) from None
    return layout


def _kernel(data: bytes, offset: int) -> tuple[KernelLayout, int]:
    """Returns the kernel at an offset, and the offset behind it."""
    scratch, is_bounded, bounded, length, tag_count, capture_count = _KERNEL.unpack_from(data, offset)
    offset += _KERNEL.size
    entry = data[offset : offset + length].decode("utf-8", "surrogatepass")
    offset += length
    if not entry or scratch > _SCRATCH_MAX:
        raise ValueError("its name is empty, or its scratch memory too large")
    if is_bounded > 1 or (bounded and not is_bounded):
        raise ValueError("a bound is neither there nor absent")
    tags, captures = [], []
    for _ in range(tag_count):
        (length,) = _LENGTH.unpack_from(data, offset)
        offset += _LENGTH.size + length
        tags.append(data[offset - length : offset].decode("utf-8", "surrogatepass"))
    for _ in range(capture_count):
        lanes, is_most, most, slot_count = _CAPTURE.unpack_from(data, offset)
        offset += _CAPTURE.size
        slots = data[offset : offset + slot_count * _WORD.size]
        offset += slot_count * _WORD.size
        capture = Capture(lanes, tuple(slot for (slot,) in _WORD.iter_unpack(slots)), most if is_most else None)
        if is_most > 1 or (most and not is_most):
            raise ValueError("a bound is neither there nor absent")
        if max(lanes, most, *capture.slots) > _SCRATCH_MAX or not (is_most or capture.slots):
            raise ValueError("what is captured has no bound")
        captures.append(capture)
    return KernelLayout(entry, scratch, tuple(tags), bounded if is_bounded else None, tuple(captures)), offset


def _optional(value: int | None) -> tuple[int, int]:
    return (0, 0) if value is None else (1, value)
