"""Resident memory on the host: arrays behind the port's handles, and the memory that a step binds.

Backends that compute on the host share these parts.  They differ in how a step is run on the memory that was resolved
here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from vyre.adapters.forks import process_lock
from vyre.adapters.host.step_memory import StepMemory, check_range, step_memory
from vyre.domain.analysis.atomic_uses import atomic_uses
from vyre.domain.errors import DeviceOutOfMemory, InvalidResource
from vyre.domain.names import BackendId
from vyre.domain.unique import Unique
from vyre.ports.interrupts import sealed
from vyre.ports.ownership import check_ownership
from vyre.ports.requests import Readback, ResidentStep, Upload
from vyre.ports.resident_buffer import Described, ResidentBuffer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from vyre.adapters.host.foreign import Borrowed
    from vyre.domain.ir.program import Program

P = ParamSpec("P")
R = TypeVar("R")
ALIGNMENT: Final = 64
"""The alignment, in bytes, of all memory that is allocated here: a cache line, and the widest vector."""
_MAKING: Final = process_lock()


class HostBuffer(ResidentBuffer):
    """Bytes on the host; ``address`` is that of the first byte.

    Memory of a closed buffer lives as long as a run still uses ``data``.  A launch with atomics on the memory holds the
    lock ``turn`` while it runs, because its atomics may be indivisible for its own lanes only; views have that of their
    allocation.
    """

    __slots__ = ("_data", "_shown", "_turn", "address")

    def __init__(
        self,
        backend: BackendId,
        nbytes: int,
        address: int,
        label: str | None,
        data: npt.NDArray[np.uint8] | None = None,
        shown: npt.NDArray[Any] | None = None,
        *,
        base: HostBuffer | None = None,
        offset: int = 0,
        readonly: bool = False,
    ) -> None:
        """``data`` holds the memory; None for a part of ``base``.  ``shown``: the array of the other library to which
        the memory belongs.
        """
        if data is not None:
            self._data = data
        self._shown = shown
        self._turn: threading.RLock | None = None
        self.address: Final = address
        super().__init__(
            backend_id=backend, nbytes=nbytes, epoch=0, label=label, base=base, offset=offset, readonly=readonly
        )

    @property
    def turn(self) -> threading.RLock:
        """The lock of the allocation, made on first use."""
        root = self.root
        assert isinstance(root, HostBuffer)
        if root._turn is None:
            with _MAKING, sealed:
                if root._turn is None:
                    root._turn = process_lock()
        return root._turn

    @property
    def shares_memory(self) -> bool:
        root = self.root
        return isinstance(root, HostBuffer) and root._shown is not None

    @property
    def described(self) -> Described | None:
        shown = self._shown
        return None if shown is None else Described(shown.shape, shown.dtype.str)

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """The bytes; none once the memory is closed."""
        base = self.base
        if base is None:
            return self._data
        assert isinstance(base, HostBuffer)
        return base._data[self.offset : self.offset + self.nbytes]

    @property
    def host_bytes(self) -> npt.NDArray[np.uint8]:
        data = self.data
        if not self.readonly:
            return data
        import numpy as np

        return np.frombuffer(data.data.toreadonly(), np.uint8)  # nobody can make an array of these bytes writable

    def _part(self, offset: int, nbytes: int, *, readonly: bool) -> HostBuffer:
        return HostBuffer(
            self.backend_id, nbytes, self.address + offset, self.label, base=self, offset=offset, readonly=readonly
        )

    def _release(self) -> None:
        self._data = none = _no_bytes()  # not a slice, which would keep the memory
        if self._shown is not None:
            self._shown = none

    # ---- exports to other libraries
    def __dlpack_device__(self) -> tuple[int, int]:
        kind, number = self.data.__dlpack_device__()
        return int(kind), number

    def __dlpack__(self, **options: object) -> object:
        """Returns a DLPack capsule of the bytes, with the options of the protocol."""
        return self.dlpack((self.nbytes,), "|u1", **options)

    def dlpack(self, shape: Sequence[int], typestr: str, **options: object) -> object:
        """Returns a DLPack capsule of the memory seen as an array.  The memory lives as long as the capsule's user.

        Raises ``BufferError`` after ``close``, and for an element type that DLPack does not have.
        """
        if self.closed:
            raise BufferError(f"{self!r} is exported after close(). Fix: keep it open while others use it")
        try:
            return self.data.view(typestr).reshape(shape).__dlpack__(**options)  # type: ignore[arg-type]
        except BufferError as error:
            raise BufferError(f"{self!r} of `{typestr}`: {str(error).rstrip('.')}. Fix: download it") from error


@cache
def _borrowing() -> Callable[[object], Borrowed]:
    """Returns ``borrowed_bytes``, importing NumPy only when it is asked for."""
    from vyre.adapters.host.foreign import borrowed_bytes

    return borrowed_bytes


@cache
def _no_bytes() -> npt.NDArray[np.uint8]:
    """Returns an array without elements."""
    import numpy as np

    return np.empty(0, np.uint8)


def turns_of(buffers: Iterable[HostBuffer]) -> tuple[threading.RLock, ...]:
    """Returns the locks that a launch with atomics on these buffers holds, in the order in which every launch takes
    them.
    """
    locks = {id(buffer.turn): buffer.turn for buffer in buffers}
    return tuple([locks[each] for each in sorted(locks)])


def in_turn(turns: tuple[threading.RLock, ...], work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Calls ``work`` while no other launch of the process that takes its turn runs atomics on one of the buffers.

    A thread may do so again meanwhile.  Each lock is held in a block of its own: no interrupt leaves it held.
    """
    if not turns:
        return work(*args, **kwargs)
    with turns[0], sealed:
        return in_turn(turns[1:], work, *args, **kwargs)


class HostMemory(Unique):
    """``ResidentMemory`` on the host."""

    def __init__(self, backend: BackendId) -> None:
        self.backend: Final = backend

    def allocate(self, nbytes: int, /, *, label: str | None = None) -> ResidentBuffer:
        if nbytes < 0:
            raise InvalidResource(f"an allocation of {nbytes} bytes", fix="allocate 0 bytes or more.")
        data, address = allocate_aligned(nbytes)
        return HostBuffer(self.backend, nbytes, address, label, data=data)

    def adopt(self, array: object, /, *, label: str | None = None) -> ResidentBuffer:
        """Implements ``ForeignMemory.adopt`` for memory of the host."""
        shown, data, address, writeable = _borrowing()(array)
        if writeable:  # by position: names cost time
            return HostBuffer(self.backend, data.nbytes, address, label, data, shown)
        return HostBuffer(self.backend, data.nbytes, address, label, data, shown, readonly=True)

    def upload(self, uploads: Sequence[Upload], /) -> None:
        targets = [self.range(u.buffer, u.offset, u.data.nbytes, writing=True) for u in uploads]
        for target, upload in zip(targets, uploads, strict=True):
            target.data[:] = upload.data

    def download(self, reads: Sequence[Readback], /) -> None:
        for source, read in zip(self.sources(reads), reads, strict=True):
            read.into[:] = source.data

    def sources(self, reads: Sequence[Readback]) -> list[npt.NDArray[np.uint8]]:
        """Returns the bytes that are to be read, with every range checked."""
        return [self.range(r.buffer, r.offset, r.into.nbytes) for r in reads]

    def own(self, buffer: ResidentBuffer) -> HostBuffer:
        """Returns ``buffer``.  Raises ``InvalidResource`` unless it is open and of this backend."""
        check_ownership(self.backend, 0, (buffer,))
        assert isinstance(buffer, HostBuffer)
        return buffer

    def range(
        self, buffer: ResidentBuffer, offset: int, nbytes: int, *, writing: bool = False
    ) -> npt.NDArray[np.uint8]:
        """Returns checked bytes of a buffer.  Raises ``InvalidResource``."""
        host = self.own(buffer)
        check_range(host, offset, nbytes, writing=writing)
        return host.data[offset : offset + nbytes]

    def resolve(self, step: ResidentStep) -> StepMemory[HostBuffer]:
        """Returns the memory that a step binds.  Raises as ``step_memory`` does."""
        return step_memory(step, self.own)


def arrays_of(memory: StepMemory[HostBuffer]) -> tuple[npt.NDArray[np.uint8], ...]:
    """Returns the bytes that the program of a step may see, by position in the binding plan."""
    import numpy as np

    arrays: list[npt.NDArray[np.uint8]] = []
    for resource, nbytes in zip(memory.memory, memory.sizes, strict=True):
        if isinstance(resource, memoryview):
            arrays.append(np.frombuffer(resource, np.uint8))
        else:
            arrays.append(resource.data if resource.nbytes == nbytes else resource.data[:nbytes])
    return tuple(arrays)


def counted_buffers(program: Program, memory: StepMemory[HostBuffer]) -> tuple[HostBuffer, ...]:
    """Returns the resident buffers on which the program of a step has atomics."""
    uses = atomic_uses(program)
    if not uses:
        return ()
    names = {use.buffer for use in uses}
    pairs = zip(memory.plan.bindings, memory.memory, strict=True)
    return tuple(data for binding, data in pairs if not isinstance(data, memoryview) and binding.buffer.name in names)


def aligned(data: npt.NDArray[np.uint8], element_size: int) -> npt.NDArray[np.uint8]:
    """Returns bytes of whole elements, copied if the elements are not aligned in place."""
    return data if data.view(f"u{element_size}").flags.aligned else data.copy()


def array_type() -> type[Any]:
    """Returns ``numpy.ndarray``, importing NumPy only when it is asked for."""
    import numpy as np

    return np.ndarray


def allocate(nbytes: int, spare: int = 0) -> npt.NDArray[np.uint8]:
    """Returns ``nbytes + spare`` zeros, aligned for every element type; raises ``DeviceOutOfMemory``."""
    import numpy as np

    try:
        return np.zeros(nbytes + spare, np.uint8)
    except (MemoryError, ValueError, OverflowError) as error:  # the last two: more than the address space
        raise DeviceOutOfMemory(requested=nbytes) from error


def allocate_aligned(nbytes: int) -> tuple[npt.NDArray[np.uint8], int]:
    """Returns zeros that are aligned to ``ALIGNMENT``, and their address; raises ``DeviceOutOfMemory``.

    The operating system provides large memory page by page when it is first touched, already zeroed.
    """
    whole = allocate(nbytes, ALIGNMENT)
    start: int = whole.__array_interface__["data"][0]
    offset = -start % ALIGNMENT
    return whole[offset : offset + nbytes], start + offset
