"""The layout of kernels as canonical JSON, which a store keeps beside their object.

Decoded values are checked against what a launcher relies on, whatever the source of the bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from vyre.adapters.cpu.llvm.captures import Capture, scratch_for
from vyre.domain.errors import MalformedWire
from vyre.domain.plain_values import counts, texts
from vyre.domain.record import U64_MAX

FORMAT: Final = "vyre-object/2"
_SCRATCH_MAX: Final = 1 << 48
_WRITTEN: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode
_READ: Final = json.JSONDecoder().decode
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
    """The kernels of an object, which are launched in this order, and the number of lanes of their vectors."""

    lanes: int
    kernels: tuple[KernelLayout, ...]


def encode_layout(layout: CodeLayout) -> bytes:
    """Returns a layout as canonical JSON."""
    value = {
        "format": FORMAT,
        "lanes": layout.lanes,
        "kernels": [[k.entry, k.scratch_bytes, list(k.trap_tags), k.bounded, _written(k)] for k in layout.kernels],
    }
    return _WRITTEN(value).encode("ascii")


def decode_layout(data: bytes) -> CodeLayout:
    """Inverts ``encode_layout``; raises ``MalformedWire`` for any other bytes."""
    try:
        value = _READ(data.decode("ascii"))
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        lanes = value["lanes"]
        if not counts(lanes, least=1, most=64):
            raise ValueError("its number of lanes is none")
        layout = CodeLayout(lanes, tuple(map(_kernel, value["kernels"])))
        if not layout.kernels or encode_layout(layout) != data:
            raise ValueError("it is not written canonically")
    except (ValueError, KeyError, TypeError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise MalformedWire(f"not the layout of an object: {error}", fix=_FIX) from None
    return layout


def _kernel(value: Any) -> KernelLayout:
    entry, scratch, tags, bounded, captures = value
    if not texts(entry, *tags) or not entry:
        raise ValueError("a name is no text")
    if not counts(scratch, most=_SCRATCH_MAX) or not (bounded is None or counts(bounded, most=U64_MAX)):
        raise ValueError("a size is no number")
    return KernelLayout(entry, scratch, tuple(tags), bounded, tuple(map(_capture, captures)))


def _written(kernel: KernelLayout) -> list[Any]:
    return [[capture.lanes, list(capture.slots), capture.most] for capture in kernel.captures]


def _capture(value: Any) -> Capture:
    lanes, slots, most = value
    bounds = [lanes, *slots, *(() if most is None else (most,))]
    if not all(counts(bound, most=_SCRATCH_MAX) for bound in bounds) or (most is None and not slots):
        raise ValueError("what is captured has no bound")
    return Capture(lanes, tuple(slots), most)
