"""Resident arrays, which stay in device memory between dispatches."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from vyre.app.host_memory import Array, host_memory
from vyre.domain.arguments import expect
from vyre.domain.byte_view import byte_view
from vyre.domain.errors import InvalidInput
from vyre.domain.record import U64_MAX
from vyre.domain.shown import kind_of, shown
from vyre.ports.backend import ForeignMemory, Readback, ResidentBuffer, ResidentMemory, Upload

if TYPE_CHECKING:
    import numpy.typing as npt

    from vyre.domain.dispatch import ReadableBuffer

_BYTE: Final = np.dtype(np.uint8)
"""The type of memory without an element type."""
_CUDA_ARRAY: Final = "__cuda_array_interface__"
_WORD: Final = np.dtype(np.uint32)
"""The type in device memory of the ``bool_`` arrays of NumPy, which become elements of type bool."""


def make_resident(memory: ResidentMemory, data: ReadableBuffer | int, label: str | None) -> ResidentArray:
    """Allocates device memory, and uploads ``data`` unless it is a size in bytes (the memory is then zero)."""
    if type(data) is int:
        if not 0 <= data <= U64_MAX:
            raise InvalidInput(f"a resident buffer of {shown(data)} bytes", fix="give a size of 0 or more.")
        return ResidentArray(memory.allocate(data, label=label), memory, _BYTE, (data,))
    if isinstance(data, bool | np.generic):
        raise InvalidInput(f"resident data is {kind_of(data)}", fix="pass an array, or a size in bytes as an int.")
    given = host_memory(data, "resident data")
    dtype, shape = (given.dtype, given.shape) if isinstance(given, np.ndarray) else (_BYTE, (given.nbytes,))
    stored = _WORD if dtype == np.bool_ else dtype
    view = byte_view(_as_stored(given, stored), name="resident data")
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
    interface = array.__cuda_array_interface__  # type: ignore[attr-defined]  # ``adopt`` required it
    return ResidentArray(buffer, memory, np.dtype(interface["typestr"]), tuple(interface["shape"]))


def _as_stored(data: Array | memoryview, stored: np.dtype[Any]) -> Array | memoryview:
    """Returns ``bool_`` arrays as 32-bit words, unless the memory holds bytes for them, and other data unchanged."""
    if isinstance(data, np.ndarray) and data.dtype == np.bool_ and stored != np.bool_:
        return data.astype(_WORD)
    return data


class ResidentArray:
    """Device memory with the shape and type of the array it was made from (bytes, if it was made from a size).

    Bind it like an array: ``session.dispatch(program, {"x": resident, ...})``.  A program that writes it updates it in
    place.  Close it, or use it in a ``with`` block; closing its session closes it too.
    """

    __slots__ = ("__weakref__", "_memory", "buffer", "dtype", "shape", "stored")

    def __init__(
        self,
        buffer: ResidentBuffer,
        memory: ResidentMemory,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        stored: np.dtype[Any] | None = None,
    ) -> None:
        self._memory = memory
        self.buffer: ResidentBuffer = buffer
        self.dtype: np.dtype[Any] = dtype
        self.shape: tuple[int, ...] = shape
        self.stored: np.dtype[Any] = dtype if stored is None else stored
        """The type in device memory: ``dtype``, but 32-bit words for ``bool_`` arrays that were uploaded."""

    @property
    def is_temporary(self) -> bool:
        """Whether the content lasts for one run of a sequence only; see ``Session.temporary``."""
        return False

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.buffer.nbytes

    @property
    def closed(self) -> bool:
        """Whether the memory was freed."""
        return self.buffer.closed

    def upload(self, data: ReadableBuffer, *, offset: int = 0) -> None:
        """Copys ``data`` to byte ``offset``.

        Raises ``InvalidInput`` if it does not fit, or if its elements are of another type; raw bytes have none, and
        memory that was made from a size accepts any.
        """
        expect("offset", offset, int, "an int", InvalidInput)
        given = host_memory(data, "upload")
        if isinstance(given, np.ndarray) and given.dtype not in (self.dtype, self.stored) and self.dtype != _BYTE:
            raise InvalidInput(
                f"upload holds {given.dtype}, and the memory {self.dtype}",
                fix=f"pass an array of {self.dtype}, or bytes if it is raw memory.",
            )
        view = byte_view(_as_stored(given, self.stored), name="upload")
        self._check_range(offset, view.nbytes, "upload")
        self._memory.upload([Upload(self.buffer, view, offset)])

    def download(self) -> npt.NDArray[Any]:
        """Returns a new array with the present content."""
        array = np.empty(self.shape, self.stored)
        if array.size:
            into = memoryview(array).cast("B")  # type: ignore[arg-type]  # ndarray has __buffer__ in stubs from 3.12 on
            self._memory.download([Readback(self.buffer, into)])
        if self.dtype != np.bool_:
            return array
        # As bytes or words: NumPy's own test of a bool relies on the value being 0 or 1.
        truths: npt.NDArray[Any] = np.not_equal(array.view(_BYTE if self.stored == np.bool_ else _WORD), 0)
        return truths

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
        """Frees the memory; idempotent."""
        self.buffer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ResidentArray {self.dtype}{list(self.shape)} in {self.buffer!r}>"

    def _check_range(self, offset: int, nbytes: int, what: str) -> None:
        if offset < 0 or offset + nbytes > self.nbytes:
            raise InvalidInput(
                f"{what} of {nbytes} bytes at offset {shown(offset)} does not fit the {self.nbytes} bytes of {self!r}",
                fix="stay inside the allocation.",
            )
