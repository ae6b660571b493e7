"""Resident memory on the host: arrays behind the port's handles, and the memory that a step binds.

Backends that compute on the host share these parts.  They differ in how a step is run on the memory that was resolved
here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vyre.domain.analysis.atomic_uses import atomic_uses
from vyre.domain.binding import Binding, BindingPlan, plan_bindings
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import DeviceOutOfMemory, InvalidInput, InvalidResource
from vyre.domain.launch import Launch
from vyre.domain.memory_ranges import check_alignment, check_overlap
from vyre.domain.names import BackendId
from vyre.ports.backend import (
    Described,
    Readback,
    ResidentBuffer,
    ResidentStep,
    Upload,
)
from vyre.ports.ownership import check_ownership

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from vyre.adapters.host.foreign import Borrowed
    from vyre.domain.ir.program import Program

ALIGNMENT: Final = 64
"""The alignment, in bytes, of all memory that is allocated here: a cache line, and the widest vector."""


class HostBuffer(ResidentBuffer):
    """Bytes on the host; ``address`` is that of the first byte.

    Memory of a closed buffer lives as long as a run still uses ``data``.  A launch with atomics on the memory holds the
    lock ``turn`` while it runs, because its atomics may be indivisible for its own lanes only; views have that of their
    allocation.
    """

    __slots__ = ("_data", "_shown", "_turn", "address", "readonly")

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
        self.readonly: Final = readonly
        self._shown = shown
        self._turn: threading.RLock | None = None
        self.address: Final = address
        super().__init__(backend_id=backend, nbytes=nbytes, epoch=0, label=label, base=base, offset=offset)

    @property
    def turn(self) -> threading.RLock:
        """The lock of the allocation, made on first use."""
        root = self.root
        assert isinstance(root, HostBuffer)
        if root._turn is None:
            with root._lock:
                if root._turn is None:
                    root._turn = threading.RLock()
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

    def _part(self, offset: int, nbytes: int) -> HostBuffer:
        return HostBuffer(
            self.backend_id,
            nbytes,
            self.address + offset,
            self.label,
            base=self,
            offset=offset,
            readonly=self.readonly,
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


def turn_of(buffers: Iterable[HostBuffer]) -> AbstractContextManager[object] | None:
    """Returns the context in which a launch runs its atomics on these buffers; None where there is no buffer.

    No other launch of the process that takes its turn runs atomics on one of them meanwhile.  A thread may enter it
    again.
    """
    locks = {id(buffer.turn): buffer.turn for buffer in buffers}
    if len(locks) < 2:
        return next(iter(locks.values()), None)
    return _Turn(tuple(locks[each] for each in sorted(locks)))  # every launch takes them in the same order


class _Turn(AbstractContextManager[None]):
    """The turns of several buffers."""

    __slots__ = ("_locks",)

    def __init__(self, locks: tuple[Any, ...]) -> None:
        self._locks: Final = locks

    def __enter__(self) -> None:
        taken = 0
        try:
            for lock in self._locks:
                lock.acquire()
                taken += 1
        except BaseException:  # an interrupt while another launch has the next one
            self._release(taken)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release(len(self._locks))

    def _release(self, count: int) -> None:
        for lock in reversed(self._locks[:count]):
            lock.release()


class HostMemory:
    """``ResidentMemory`` on the host."""

    def __init__(self, backend: BackendId) -> None:
        self.backend: Final = backend

    def allocate(self, nbytes: int, /, *, label: str | None = None) -> ResidentBuffer:
        """Implements ``ResidentMemory.allocate``."""
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
        """Implements ``ResidentMemory.upload``."""
        targets = [self.range(u.buffer, u.offset, u.data.nbytes, writing=True) for u in uploads]
        for target, upload in zip(targets, uploads, strict=True):
            target.data[:] = upload.data

    def download(self, reads: Sequence[Readback], /) -> None:
        """Implements ``ResidentMemory.download``."""
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
        if offset < 0 or offset + nbytes > host.nbytes:
            raise InvalidResource(
                f"bytes {offset}..{offset + nbytes} of {host!r}", fix=f"stay within its {host.nbytes} bytes."
            )
        if writing and host.readonly:
            raise InvalidResource(f"{host!r} is read-only", fix="adopt a writable array, or copy it.")
        return host.data[offset : offset + nbytes]

    def resolve(self, step: ResidentStep) -> StepMemory:
        """Returns the memory that a step binds; reads no byte of it.

        Raises ``InvalidInput`` for a wrong number of resources, and ``InvalidResource`` for memory that is closed,
        foreign, too short for a static count, misaligned, aliased and written, or on the host and written.
        """
        import numpy as np

        plan = plan_bindings(step.program)
        if len(step.resources) != len(plan.bindings):
            raise InvalidInput(
                f"{len(step.resources)} resources for {len(plan.bindings)} buffers",
                fix="pass one per non-workgroup buffer, in binding order.",
            )
        arrays: list[npt.NDArray[np.uint8]] = []
        buffers: list[HostBuffer | None] = []
        ranges: list[tuple[str, bool, int, int]] = []
        for binding, resource in zip(plan.bindings, step.resources, strict=True):
            name = binding.buffer.name
            kind = type(resource)
            if kind is HostBuffer or (kind is not memoryview and isinstance(resource, ResidentBuffer)):
                host = self.own(resource)  # type: ignore[arg-type]  # no type checker follows ``kind``
                buffers.append(host)
                arrays.append(_fitted(binding, host.data))
                check_alignment(name, binding.element_size, host.address, host)
                if host.readonly and binding.buffer.is_writable:
                    raise InvalidResource(f"`{name}` is written, but {host!r} is read-only", fix="bind a copy.")
                ranges.append((name, binding.buffer.is_writable, host.address, host.address + host.nbytes))
            elif binding.buffer.is_writable:
                raise InvalidResource(f"`{name}` is written, but bound to host bytes", fix="bind a resident buffer.")
            else:
                buffers.append(None)
                arrays.append(np.frombuffer(resource, np.uint8))  # type: ignore[arg-type]  # as above
        if len(ranges) > 1:
            check_overlap(ranges)
        return StepMemory(step.program, step.config, plan, tuple(arrays), tuple(buffers))


class StepMemory(NamedTuple):
    """A step with its memory, by position in the binding plan.

    ``arrays`` holds the bytes that the program may see: whole elements, or the static length.  ``buffers`` holds the
    resident buffers, and None where host bytes are bound.
    """

    program: Program
    config: DispatchConfig
    plan: BindingPlan
    arrays: tuple[npt.NDArray[np.uint8], ...]
    buffers: tuple[HostBuffer | None, ...]

    @property
    def sized(self) -> DispatchConfig:
        """Returns the config with counts for the outputs whose size only their memory determines."""
        counts: Mapping[str, int] = {
            b.buffer.name: data.nbytes // b.element_size
            for b, data in zip(self.plan.bindings, self.arrays, strict=True)
            if b.input_index is None and b.buffer.count == 0 and b.buffer.like is None
        }
        if not counts:
            return self.config
        return replace(self.config, output_counts={**counts, **(self.config.output_counts or {})})

    @property
    def counted(self) -> tuple[HostBuffer, ...]:
        """Returns the resident buffers on which the program has atomics."""
        uses = atomic_uses(self.program)
        if not uses:
            return ()
        names = {use.buffer for use in uses}
        pairs = zip(self.plan.bindings, self.buffers, strict=True)
        return tuple(buffer for binding, buffer in pairs if buffer is not None and binding.buffer.name in names)

    @property
    def input_nbytes(self) -> tuple[int, ...]:
        """Returns the length of each input in bytes."""
        return tuple([self.arrays[i].nbytes for i in self.plan.inputs])

    def check(self, launch: Launch) -> None:
        """Raises ``InvalidResource`` if some memory is shorter than ``launch`` needs."""
        for binding, data, nbytes in zip(self.plan.bindings, self.arrays, launch.nbytes, strict=True):
            if data.nbytes < nbytes:
                raise too_short(binding, nbytes, data.nbytes)


def too_short(binding: Binding, needed: int, held: int) -> InvalidResource:
    """Returns the error for memory of ``held`` bytes that is bound to a buffer of ``needed`` bytes."""
    return InvalidResource(
        f"`{binding.buffer.name}` needs {needed} bytes, its memory has {held}", fix="allocate at least that much."
    )


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


def _fitted(binding: Binding, data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Returns the bytes that the program may see: the static length, or whole elements."""
    if binding.static_nbytes is not None:
        if data.nbytes < binding.static_nbytes:
            raise too_short(binding, binding.static_nbytes, data.nbytes)
        return data[: binding.static_nbytes] if data.nbytes > binding.static_nbytes else data
    rest = data.nbytes % binding.element_size
    return data[:-rest] if rest else data
