"""Temporary arrays: memory that only the steps of one run use, so that it need not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from vyre.app.resident import Elements, ResidentArray, elements_of
from vyre.domain.arguments import whole
from vyre.domain.errors import InvalidInput, InvalidResource
from vyre.domain.record import U64_MAX
from vyre.ports.execution import ResidentMemory
from vyre.ports.resident_buffer import ResidentBuffer

if TYPE_CHECKING:
    import numpy.typing as npt

    from vyre.domain.dispatch import ReadableBuffer
    from vyre.domain.names import BackendId


class TemporaryBuffer(ResidentBuffer):
    """The handle that stands for a temporary array in a description of work; it has no memory."""

    __slots__ = ()

    def _release(self) -> None:
        """Does nothing: there is no memory."""

    def __del__(self) -> None:
        """Does not warn: a handle without memory leaks nothing."""


class Temporary(ResidentArray):
    """An array whose content lasts for one run of a sequence.

    It is bound like a resident array, to the steps of one or more sequences, each of which gives it memory of its own,
    and only if the steps as they are run need it.  It holds zeros when a run begins.  There is nothing to read after
    the run, so ``download`` and ``upload`` raise ``InvalidResource``.
    """

    __slots__ = ()
    is_temporary: ClassVar[bool] = True

    def download(self, *, offset: int = 0, nbytes: int | None = None) -> npt.NDArray[Any]:
        """Raises ``InvalidResource``: the content ends with the run."""
        self._refuse("downloaded")

    def upload(self, data: ReadableBuffer, *, offset: int = 0) -> None:
        """Raises ``InvalidResource``: there is no memory before the run."""
        self._refuse("uploaded to")

    def _work(self) -> NoReturn:
        self._refuse("copied")

    def _part(self, start: int, shape: tuple[int, ...], elements: Elements) -> ResidentArray:
        raise InvalidResource(
            f"a part of {self!r} is taken, and it has no memory of its own",
            fix="make the parts temporary arrays, or use session.resident(...).",
        )

    def _export(self, name: str) -> Any:
        self._refuse("exported")

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidResource(
            f"{self!r} is {what}, and its content lasts for one run only",
            fix="use session.resident(...) for what is read or written outside of a run.",
        )

    def __repr__(self) -> str:
        return f"<Temporary {self.dtype}{list(self.shape)} {self.buffer.label or 'unnamed'}>"


def make_temporary(
    memory: ResidentMemory, backend: BackendId, epoch: int, dtype: object, count: object, label: str | None
) -> Temporary:
    """Returns a temporary array of ``count`` elements; allocates nothing.

    Raises ``InvalidConfig`` for a type that no buffer holds, and ``InvalidInput`` for a count that is no int of 0 or
    more.
    """
    elements = elements_of(dtype)
    count = whole("count", count, 0, U64_MAX // 8, "give an int of 0 or more.", InvalidInput)
    nbytes = count * elements.stored.itemsize
    buffer = TemporaryBuffer(backend_id=backend, nbytes=nbytes, epoch=epoch, label=label)
    return Temporary(buffer, memory, elements.dtype, (count,), elements.stored)
