"""Resident arrays, which stay in device memory between dispatches."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np

from vyre.app.asynchrony.order import accesses_to
from vyre.app.host_memory import Array, bytes_of, host_dtype, host_memory, raw_bits
from vyre.domain.arguments import whole
from vyre.domain.byte_view import byte_view
from vyre.domain.errors import InvalidConfig, InvalidInput, InvalidResource
from vyre.domain.ir.numpy_scalars import is_bfloat16, whole_number
from vyre.domain.ir.types import ScalarType
from vyre.domain.printable import kind_of, shown
from vyre.domain.record import U64_MAX
from vyre.domain.unique import Closing
from vyre.ports.execution import ForeignMemory, ResidentMemory
from vyre.ports.requests import HostBytes, Readback, Upload
from vyre.ports.resident_buffer import Described, ResidentBuffer

if TYPE_CHECKING:
    import numpy.typing as npt

    from vyre.app.asynchrony.work import AsyncWork
    from vyre.app.lease import BackendLease
    from vyre.domain.dispatch import ReadableBuffer

_BYTE: Final = np.dtype(np.uint8)
"""The type of memory without an element type."""
_CUDA_ARRAY: Final = "__cuda_array_interface__"
_WORD: Final = np.dtype(np.uint32)
"""The type in device memory of the ``bool_`` arrays of NumPy, which become elements of type bool."""
_TYPES: Final = frozenset(host_dtype(kind) for kind in ScalarType)
ElementType: TypeAlias = "ScalarType | np.dtype[Any] | type[Any]"
"""A type of vyre, such as ``vyre.f32``, or of NumPy."""


class Elements(NamedTuple):
    """The type of elements in host arrays, and in device memory, where ``bool_`` becomes words of 32 bits."""

    dtype: np.dtype[Any]
    stored: np.dtype[Any]


def elements_of(dtype: object) -> Elements:
    """Returns the type of elements that ``dtype`` names.  Raises ``InvalidConfig`` for one that no buffer holds."""
    if isinstance(dtype, ScalarType):
        return Elements(host_dtype(dtype), _WORD if dtype is ScalarType.BOOL else host_dtype(dtype))
    if is_bfloat16(dtype):
        return Elements(np.dtype(dtype), host_dtype(ScalarType.BF16))  # type: ignore[call-overload]  # a dtype or a class
    known = isinstance(dtype, np.dtype) or dtype is bool
    if not known and not (isinstance(dtype, type) and dtype in {kind.type for kind in _TYPES}):
        raise _no_type(dtype)
    plain = np.dtype(dtype)  # type: ignore[call-overload]  # one of the types above
    if plain not in _TYPES:
        raise _no_type(dtype)
    return Elements(plain, _WORD if plain == np.bool_ else plain)


def _no_type(dtype: object) -> InvalidConfig:
    return InvalidConfig(f"dtype={shown(dtype)}", fix="give a type of vyre, such as vyre.f32, or of NumPy.")


def make_resident(
    memory: ResidentMemory, data: ReadableBuffer | int | ElementType, label: str | None, count: int | None = None
) -> ResidentArray:
    """Allocates device memory, and uploads ``data`` unless it is a size in bytes, or a type, of which the memory holds
    ``count`` elements: the memory is then zero.
    """
    if count is not None:
        elements = elements_of(data)
        count = whole("count", count, 0, U64_MAX // 8, "give an int of 0 or more.", InvalidInput)
        buffer = memory.allocate(count * elements.stored.itemsize, label=label)
        return ResidentArray(buffer, memory, elements.dtype, (count,), elements.stored)
    if isinstance(data, ScalarType | type | np.dtype):
        raise InvalidInput(
            f"resident data is {shown(data)}", fix="give the number of elements, too: resident(u32, 1000)."
        )
    nbytes = None if isinstance(data, np.ndarray) else whole_number(data)  # an array without axes is data
    if nbytes is not None:
        if not 0 <= nbytes <= U64_MAX:
            raise InvalidInput(f"a resident buffer of {shown(nbytes)} bytes", fix="give a size of 0 or more.")
        return ResidentArray(memory.allocate(nbytes, label=label), memory, _BYTE, (nbytes,))
    if isinstance(data, bool | np.generic):
        raise InvalidInput(f"resident data is {kind_of(data)}", fix="pass an array, or a size in bytes as an int.")
    hosted = host_memory(data, "resident data")
    dtype, shape = (hosted.dtype, hosted.shape) if isinstance(hosted, np.ndarray) else (_BYTE, (hosted.nbytes,))
    stored = _WORD if dtype == np.bool_ else host_dtype(ScalarType.BF16) if is_bfloat16(dtype) else dtype
    view = byte_view(_as_stored(hosted, stored), name="resident data")
    buffer = memory.allocate(view.nbytes, label=label)
    try:
        memory.upload([Upload(buffer, view)])
    except BaseException:
        buffer.close()
        raise
    return ResidentArray(buffer, memory, dtype, shape, stored)


def adopt_array(foreign: ForeignMemory, memory: ResidentMemory, array: object, label: str | None) -> ResidentArray:
    """Wraps the memory of another library's device array, with its shape and type; nothing is copied."""
    buffer = foreign.adopt(array, label=label)
    if type(array) is np.ndarray and array.dtype in _TYPES:
        return ResidentArray(buffer, memory, array.dtype, array.shape)
    described = buffer.described
    if described is None:
        interface = getattr(array, _CUDA_ARRAY, None) or {"shape": (buffer.nbytes,), "typestr": _BYTE.str}
        described = Described(tuple(interface["shape"]), interface["typestr"])
    return ResidentArray(buffer, memory, _dtype_of(described.typestr), described.shape)


@lru_cache(64)
def _dtype_of(typestr: str) -> np.dtype[Any]:
    return np.dtype(typestr)


def _as_stored(data: Array | memoryview, stored: np.dtype[Any]) -> Array | memoryview:
    """Returns ``bool_`` arrays as 32-bit words, unless the memory holds bytes for them, ``bfloat16`` as its bits, and
    other data unchanged.
    """
    if isinstance(data, np.ndarray) and data.dtype == np.bool_ and stored != np.bool_:
        return data.astype(_WORD)
    return raw_bits(data, ScalarType.BF16) if isinstance(data, np.ndarray) else data


def truths(array: npt.NDArray[Any], resident: ResidentArray) -> npt.NDArray[Any]:
    """Returns what was read from ``resident`` as the caller sees it: stored truth values become ``bool_``, and bits
    ``bfloat16`` where the memory was made from such an array.
    """
    if resident.dtype != np.bool_:
        return array.view(resident.dtype)
    # As bytes or words: NumPy's own test of a bool relies on the value being 0 or 1.
    booleans: npt.NDArray[Any] = np.not_equal(array.view(_BYTE if resident.stored == np.bool_ else _WORD), 0)
    return booleans


class ResidentArray(Closing):
    """Device memory with the shape and type of the array it was made from (bytes, if it was made from a size).

    Bind it like an array: ``session.dispatch(program, {"x": resident, ...})``.  A program that writes it updates it in
    place.  Close it, or use it in a ``with`` block; closing its session closes it too.

    ``r[a:b]`` and ``view`` return parts of it, which share its memory and are used like any other resident array.
    """

    __slots__ = ("__weakref__", "_memory", "_owner", "_whole", "buffer", "dtype", "shape", "stored")
    is_temporary: ClassVar[bool] = False
    """Whether the content lasts for one run of a sequence only; see ``Session.temporary``."""

    __iter__ = None  # it has slices but no single elements

    def __init__(
        self,
        buffer: ResidentBuffer,
        memory: ResidentMemory,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        stored: np.dtype[Any] | None = None,
        whole: ResidentArray | None = None,
    ) -> None:
        """``whole``: the array of the whole allocation; None if it is this one."""
        self._memory = memory
        self._owner: BackendLease | None = None
        """The lease that closes it, which alone binds it and its parts."""
        self._whole: ResidentArray | None = whole  # not itself: an array that is dropped is freed at once
        self.buffer: ResidentBuffer = buffer
        self.dtype: np.dtype[Any] = dtype
        self.shape: tuple[int, ...] = shape
        self.stored: np.dtype[Any] = dtype if stored is None else stored
        """The type in device memory: ``dtype``, but 32-bit words for ``bool_`` arrays that were uploaded."""

    @property
    def whole(self) -> ResidentArray:
        """The array of the whole allocation: this one, or the one that it is a part of."""
        return self if self._whole is None else self._whole

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.buffer.nbytes

    @property
    def closed(self) -> bool:
        """Whether the memory was freed."""
        return self.buffer.closed

    def _set_owner(self, lease: BackendLease, /) -> None:
        """Notes the lease that frees the memory."""
        self._owner = lease

    def upload(self, data: ReadableBuffer, *, offset: int = 0) -> None:
        """Copies ``data`` to byte ``offset``.

        Raises ``InvalidInput`` if it does not fit, or if its elements are of another type; raw bytes have none, and
        memory that was made from a size accepts any.
        """
        uploads = self._uploads(data, offset)
        self._wait(writes=True)
        self._memory.upload(uploads)

    async def upload_async(self, data: ReadableBuffer, *, offset: int = 0) -> None:
        """Does as ``upload``, while the event loop goes on; ``data`` must stay as it is until this returns.

        It runs beside the asynchronous operations that use no byte of this array, and after those that began before.
        Cancelling it before it begins leaves it out; once begun, it runs to its end.
        """
        uploads = self._uploads(data, offset)
        await self._work().copy(accesses_to(((self.buffer, True),)), lambda: self._memory.upload(uploads))

    def download(self, *, offset: int = 0, nbytes: int | None = None) -> npt.NDArray[Any]:
        """Returns a new array with the present content.

        With ``offset`` or ``nbytes`` it has one axis and the elements of that range of bytes alone: so many, None
        meaning all that follow.  Raises ``InvalidInput`` for a range that does not fit or cuts through elements.
        """
        read = self._read(offset, nbytes)
        self._wait(writes=False)
        return self._downloaded(*read)

    async def download_async(self, *, offset: int = 0, nbytes: int | None = None) -> npt.NDArray[Any]:
        """Returns what ``download`` returns, while the event loop goes on.

        It runs beside the asynchronous operations that do not write this array, and after those that began before.
        """
        read = self._read(offset, nbytes)
        return await self._work().copy(accesses_to(((self.buffer, False),)), lambda: self._downloaded(*read))

    # ---- parts
    def view(self, offset: int = 0, count: int | None = None, dtype: ElementType | None = None) -> ResidentArray:
        """Returns a part of the memory as an array with one axis: nothing is copied, and both see all writes.

        ``offset`` and ``count`` are in elements of ``dtype``; None: the type of this array, and as many whole elements
        as follow.  The part lives as long as this array: once that is closed, the part is too.  A launch refuses parts
        that overlap if it writes one of them; launches that follow each other may use any.

        Raises ``InvalidInput`` for a part that does not fit or begins between elements of ``dtype``, ``InvalidConfig``
        for a type that no buffer holds, and ``InvalidResource`` after ``close``.
        """
        offset = _whole("offset", offset)
        count = None if count is None else _whole("count", count)
        elements = Elements(self.dtype, self.stored) if dtype is None else elements_of(dtype)
        size = elements.stored.itemsize
        start = offset * size
        if count is None:
            count = max(0, self.nbytes - start) // size
        if offset < 0 or count < 0 or start + count * size > self.nbytes:
            raise InvalidInput(
                f"a view of {shown(count)} elements of {elements.stored} from element {shown(offset)} on does not fit "
                f"the {self.nbytes} bytes of {self!r}",
                fix="stay inside the array.",
            )
        return self._part(start, (count,), elements)

    def __getitem__(self, part: slice) -> ResidentArray:
        """Returns the part ``part`` along the first axis, as ``view`` does: ``r[10:20]``, ``r[-5:]``.

        As in a list, ends beyond the array are cut off.  Raises ``InvalidInput`` for anything but a slice without a
        step, and for an array without an axis.
        """
        if not isinstance(part, slice) or part.step not in (None, 1) or not self.shape:
            raise InvalidInput(
                f"{self!r} is indexed with {shown(part)}",
                fix="take a slice without a step of its first axis, such as r[10:20]; download it to read elements.",
            )
        try:
            start, stop, _ = part.indices(self.shape[0])
        except TypeError:
            raise InvalidInput(f"{self!r} is indexed with {shown(part)}", fix="give ints, as in r[10:20].") from None
        row = prod(self.shape[1:]) * self.stored.itemsize
        count = max(0, stop - start)
        return self._part(start * row, (count, *self.shape[1:]), Elements(self.dtype, self.stored))

    def _part(self, start: int, shape: tuple[int, ...], elements: Elements) -> ResidentArray:
        """Returns the elements from byte ``start`` on, which lie in this array."""
        size = elements.stored.itemsize
        offset = self.buffer.offset + start
        if offset % size:
            raise InvalidInput(
                f"a view of {elements.stored} would begin at byte {offset} of {self.whole!r}, between two elements",
                fix=f"begin at a multiple of {size} bytes, or copy the part.",
            )
        buffer = self.buffer.view(start, prod(shape) * size)
        return ResidentArray(buffer, self._memory, elements.dtype, shape, elements.stored, self.whole)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Returns what ``download`` returns, converted to ``dtype``, for functions of NumPy such as ``np.sum``.

        Raises ``ValueError`` for ``copy=False``, as the protocol has it: the elements are always copied.
        """
        if copy is False:
            raise ValueError(f"{self!r} is read without a copy. Fix: leave out copy=False; a download always copies")
        array = self.download()
        return array if dtype is None else array.astype(dtype, copy=False)

    # ---- for other libraries, if they can use the addresses of the backend's memory
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        interface: dict[str, Any] = self._export(_CUDA_ARRAY)
        return interface | {"shape": self.shape, "typestr": self.stored.str}

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._export("__dlpack_device__")()
        return device

    def __dlpack__(self, *, stream: int | None = None, **options: object) -> Any:
        """Returns a DLPack capsule; no work on the memory is pending, so there is nothing to synchronize with
        ``stream``.

        ``options`` are those of the protocol.  Raises ``BufferError`` for memory that cannot be exported.
        """
        return self._export("dlpack")(self.shape, self.stored.str, **options)

    def _export(self, name: str) -> Any:
        """Returns what the buffer offers under a name.

        Raises ``AttributeError`` for the array interface, by whose absence libraries recognize other memory, and
        ``BufferError`` for anything else that is not offered.
        """
        try:
            return getattr(self.buffer, name)
        except AttributeError:
            kind = AttributeError if name == _CUDA_ARRAY else BufferError
            raise kind(
                f"{self!r} has no `{name}`. Fix: use DLPack if it is memory of the host, else download it"
            ) from None

    def close(self) -> None:
        """Frees the memory; a part of an array frees nothing, and cannot be used any more.  Idempotent.

        Waits for the asynchronous operations that use it.
        """
        owner = self._owner
        if owner is not None and owner.order.under_way and self._whole is None and not self.buffer.closed:
            owner.wait_for(accesses_to(((self.buffer, True),)))
        self.buffer.close()

    def __repr__(self) -> str:
        return f"<ResidentArray {self.dtype}{list(self.shape)} in {self.buffer!r}>"

    def _check_range(self, offset: int, nbytes: int, what: str) -> None:
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise InvalidInput(
                f"{what} of {shown(nbytes)} bytes at offset {shown(offset)} does not fit the {self.nbytes} bytes of "
                f"{self!r}",
                fix="stay inside the allocation.",
            )

    # ---- copies
    def _uploads(self, data: ReadableBuffer, offset: int) -> list[Upload]:
        """Returns the checked copy of ``data`` to byte ``offset``."""
        offset = _whole("offset", offset)
        view = self._upload_view(data)
        self._check_range(offset, view.nbytes, "upload")
        return [Upload(self.buffer, view, offset)]

    def _upload_view(self, data: ReadableBuffer) -> HostBytes:
        """Returns the bytes that stand for ``data`` in this memory.  Raises ``InvalidInput`` as ``upload`` does."""
        array = host_memory(data, "upload")
        if isinstance(array, np.ndarray) and array.dtype not in (self.dtype, self.stored) and self.dtype != _BYTE:
            raise InvalidInput(
                f"upload holds {array.dtype}, and the memory {self.dtype}",
                fix=f"pass an array of {self.dtype}, or bytes if it is raw memory.",
            )
        return byte_view(_as_stored(array, self.stored), name="upload")

    def _read(self, offset: int, nbytes: int | None) -> tuple[int, tuple[int, ...]]:
        """Returns the checked offset of a download in bytes, and its shape."""
        shape, size = self.shape, self.stored.itemsize
        if type(offset) is not int or offset != 0 or nbytes is not None:
            offset = _whole("offset", offset)
            taken = self.nbytes - offset if nbytes is None else _whole("nbytes", nbytes)
            self._check_range(offset, taken, "download")
            if offset % size or taken % size:
                raise InvalidInput(
                    f"download of {taken} bytes at offset {offset} cuts through elements of {size} bytes of {self!r}",
                    fix=f"give multiples of {size}, or take r.view(..., dtype=numpy.uint8).",
                )
            shape = (taken // size,)
        return offset, shape

    def _downloaded(self, offset: int, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        array = np.empty(shape, self.stored)
        if array.size:
            self._memory.download([Readback(self.buffer, bytes_of(array), offset)])
        return truths(array, self)

    def _wait(self, *, writes: bool) -> None:
        """Waits for the asynchronous operations that conflict with a use of this array."""
        owner = self.whole._owner
        if owner is not None and owner.order.under_way:
            owner.wait_for(accesses_to(((self.buffer, writes),)))

    def _work(self) -> AsyncWork:
        """Returns what asynchronous operations of its session share.  Raises ``InvalidResource`` without a session."""
        owner = self.whole._owner
        if owner is not None:
            owner.check_open()
            if owner.work is not None:
                return owner.work
        raise InvalidResource(f"{self!r} belongs to no session", fix="make it with session.resident(...).")


def belongs_to(array: ResidentArray, lease: BackendLease) -> bool:
    """Returns whether ``lease`` frees the memory of an array, or of the array that it is a part of."""
    return array.whole._owner is lease


def _whole(name: str, value: object) -> int:
    return whole(name, value, -U64_MAX, None, "pass an int.", InvalidInput)
