"""Faults of the emulated device, with the place where they happened."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from vyre.adapters.cuda.seam import FoundAccess, KernelFinding, LaunchShape
from vyre.domain.names import Dim3
from vyre.domain.races import LanePlace

_KINDS: Final = {"ld": "load", "cp": "load", "st": "store", "atom": "atomic", "red": "atomic"}
_SPACES: Final = frozenset({"global", "shared", "local", "param", "const"})


class FaultKind(Enum):
    """The kind of a fault of a memory access or of a running kernel."""

    ILLEGAL_ADDRESS = "illegal address"
    USE_AFTER_FREE = "use after free"
    MISALIGNED = "misaligned address"
    UNINITIALISED = "uninitialised read"
    RACE = "race"
    READ_ONLY_WRITTEN = "non-coherent load of memory that the launch writes"
    DIVERGENT_BARRIER = "divergent barrier"
    DIVERGENT_UNIFORM_BRANCH = "divergent uniform branch"
    BAD_BRANCH = "index beyond the branch targets"
    BAD_MASK = "bad member mask"
    DEADLOCK = "deadlock"
    STEP_LIMIT = "step limit"
    GIVEN_UP = "given up"
    TRAP = "trap"


class PtxError(Exception):
    """PTX that does not load: the 1-based ``line`` of the text, and the reason."""

    def __init__(self, line: int, message: str) -> None:
        self.line: int = line
        self.message: str = message
        super().__init__(f"line {line}: {message}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.line, self.message)


class MemoryFault(Exception):
    """An access of ``nbytes`` at ``address`` that memory refuses.

    ``extent`` is (base, bytes) of the freed allocation, or of the nearest one below the address.
    """

    def __init__(self, kind: FaultKind, address: int, nbytes: int, extent: tuple[int, int] | None = None) -> None:
        self.kind: FaultKind = kind
        self.address: int = address
        self.nbytes: int = nbytes
        self.extent: tuple[int, int] | None = extent
        where = "" if extent is None else f", {address - extent[0]:+d} from an allocation of {extent[1]} bytes"
        super().__init__(f"{kind.value}: {nbytes} bytes at {address:#x}{where}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kind, self.address, self.nbytes, self.extent)


class KernelFault(Exception):
    """A fault of a running kernel.

    ``line`` and ``instruction`` are those of the PTX text; ``lane`` is the global id (x, y, z) of the first lane at
    fault, None if no lane is known; ``address`` is that of a faulty access; ``detail`` explains the fault.
    ``accesses`` are the lanes' accesses in the order in which they happened, the faulty one last.  ``space`` is that of
    the last one, if ``instruction`` is another.
    """

    def __init__(
        self,
        kind: FaultKind,
        entry: str,
        line: int,
        instruction: str,
        lane: tuple[int, int, int] | None = None,
        address: int | None = None,
        detail: str = "",
        accesses: tuple[FoundAccess, ...] = (),
        space: str = "",
    ) -> None:
        self.kind: FaultKind = kind
        self.space: str = space or space_of(instruction)
        self.accesses: tuple[FoundAccess, ...] = accesses
        self.entry: str = entry
        self.line: int = line
        self.instruction: str = instruction
        self.lane: tuple[int, int, int] | None = lane
        self.address: int | None = address
        self.detail: str = detail
        text = f"{kind.value} in {entry}, line {line}: {instruction}"
        if lane is not None:
            text += f", lane {lane}"
        if address is not None:
            text += f", address {address:#x}"
        super().__init__(f"{text}: {detail}" if detail else text)

    def finding(self, parameters: bytes, read: Callable[[int, int], bytes]) -> KernelFinding:
        """Returns what the driver reports about the kernel in addition to the code."""
        return KernelFinding(self.entry, self.accesses, self.space, self.address, parameters, read)

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.kind, self.entry, self.line, self.instruction, self.lane, self.address, self.detail)
        return type(self), (*parts, self.accesses, self.space)


def access_kind(opcode: str) -> str:
    """Returns ``load``, ``store`` or ``atomic``; empty for an instruction that accesses no memory."""
    return _KINDS.get(opcode.partition(".")[0], "")


def space_of(instruction: str) -> str:
    """Returns the state space that an instruction accesses, empty if it accesses none."""
    return next((word for part in instruction.split(maxsplit=2)[:2] for word in part.split(".") if word in _SPACES), "")


def lane_place(shape: LaunchShape, lane: int) -> LanePlace:
    """Returns the place of a lane, which is given by its linear id plus 1."""
    x, y, z = shape.block
    block, thread = divmod(lane - 1, x * y * z)
    return LanePlace.of(shape.grid, shape.block, _unravel(block, shape.grid), _unravel(thread, shape.block))


def access_of(shape: LaunchShape, lane: int, opcode: str, line: int) -> FoundAccess:
    """Returns the access that a lane, given by its linear id plus 1, makes with an instruction."""
    return FoundAccess(access_kind(opcode), line, lane_place(shape, lane))


def _unravel(number: int, extent: Dim3) -> Dim3:
    rest, x = divmod(number, extent[0])
    z, y = divmod(rest, extent[1])
    return x, y, z
