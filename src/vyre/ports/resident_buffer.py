"""Handles of device memory, which every adapter derives its own from."""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self, final
from weakref import WeakSet

from vyre.domain.errors import InvalidResource, UnsupportedFeature
from vyre.domain.names import BackendId
from vyre.domain.shared_dicts import members_of
from vyre.domain.unique import Closing

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Described(NamedTuple):
    """The shape of an adopted array, and the type of its elements as NumPy writes it, such as ``<f4``."""

    shape: tuple[int, ...]
    typestr: str


MEMORY_CLOSED: Final = "memory that it is bound to was closed"


class Expiring(Protocol):
    """A prepared launch, as the memory sees it that it is bound to.

    ``active``: a call of it is under way, until whose end the memory must stay; False where the launch itself keeps it.
    """

    active: bool

    def expire(self, why: str, /) -> None:
        """Has every later call raise ``InvalidResource``, which says why.  May be called from any thread."""


def warn_unclosed(
    name: str, source: object, warn: Callable[..., None] = warnings.warn, ends: Callable[[], bool] = sys.is_finalizing
) -> None:
    """Warns that an object was dropped open, unless the interpreter ends, which then has no modules for it."""
    if not ends():
        warn(f"{name} was never closed", ResourceWarning, stacklevel=3, source=source)


class ResidentBuffer(Closing, ABC):
    """A handle of one device allocation of ``nbytes`` bytes, made in device epoch ``epoch``, or of a part of one.

    A handle with a ``base`` is a *view*: the bytes of that allocation from ``offset`` on.  It is bound like any other
    handle, owns no memory, and closing it frees nothing; it is closed as soon as its base is.

    It is an abstract class and no protocol, so that closing once, ownership and the leak warning work the same way
    for every adapter.  Handles may be shared between threads; ``close`` is idempotent.
    """

    __slots__ = (
        "__weakref__",
        "_bound",
        "_closed",
        "_closing",
        "_warns",
        "backend_id",
        "base",
        "epoch",
        "label",
        "nbytes",
        "offset",
        "readonly",
    )

    def __init__(
        self,
        *,
        backend_id: BackendId,
        nbytes: int,
        epoch: int,
        label: str | None = None,
        base: ResidentBuffer | None = None,
        offset: int = 0,
        readonly: bool = False,
    ) -> None:
        """``base`` is no view itself, and ``epoch`` is its epoch.  ``readonly``: nothing is written by this handle."""
        self.backend_id: Final = backend_id
        self.nbytes: Final = nbytes
        self.epoch: Final = epoch
        self.label: Final = label
        self.base: Final = base
        self.offset: Final = offset
        self.readonly: Final = readonly
        self._bound: Final[WeakSet[Expiring]] = WeakSet()
        self._warns = True
        self._closing = Lock()
        self._closed = False  # last: from now on the finaliser gives the memory back

    @property
    def closed(self) -> bool:
        """Whether the handle, or the allocation that it is a part of, has been closed."""
        return self._closed or (self.base is not None and self.base.closed)

    @property
    def root(self) -> ResidentBuffer:
        """The handle of the whole allocation."""
        return self if self.base is None else self.base

    @final
    def view(self, offset: int, nbytes: int, *, readonly: bool = False) -> ResidentBuffer:
        """Returns a handle of ``nbytes`` bytes of this memory, from byte ``offset`` on, by which nothing is written if
        it is ``readonly``, or this one is.

        Raises ``InvalidResource`` for bytes outside of it and for a closed handle, and ``UnsupportedFeature`` on a
        backend without views.
        """
        if self.closed:
            raise InvalidResource(f"a view of {self!r}", fix="keep it open while its views are used.")
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise InvalidResource(
                f"bytes {offset}..{offset + nbytes} of {self!r}", fix=f"stay within its {self.nbytes} bytes."
            )
        return self.root._part(self.offset + offset, nbytes, readonly=readonly or self.readonly)

    def _part(self, offset: int, nbytes: int, *, readonly: bool) -> ResidentBuffer:
        """Returns a view of this allocation; the range lies within it."""
        raise UnsupportedFeature(feature="views of resident buffers", backend=self.backend_id)

    @property
    def shares_memory(self) -> bool:
        """Whether other handles may hold the same bytes, because the memory belongs to another library."""
        return False

    @property
    def host_bytes(self) -> npt.NDArray[np.uint8] | None:
        """The bytes of open memory of the host; None for memory of a device."""
        return None

    @property
    def described(self) -> Described | None:
        """The type and shape that an adopted array declares; None for the backend's own memory, and if unknown."""
        return None

    @final
    def close(self) -> None:
        """Returns the allocation to the device.  Later calls do nothing."""
        if self._closing.acquire(blocking=False):  # by the first call, and never given back
            self._closed = True
            for launch in members_of(self._bound):
                launch.expire(MEMORY_CLOSED)
            self._release()

    @abstractmethod
    def _release(self) -> None:
        """Returns the allocation to the device; called exactly once, and after every bound launch has expired."""

    @final
    def expires(self, launch: Expiring) -> None:
        """Has ``launch`` expire when this memory is closed.  Raises ``InvalidResource`` if it is closed already."""
        for handle in {self, self.root}:
            handle._bound.add(launch)  # before the question, so that a thread that closes it meanwhile sees the launch
            if handle._closed:
                raise InvalidResource(f"{handle!r} is used after close()", fix="keep it open while it is bound.")

    @final
    def quiet(self) -> Self:
        """Returns the handle, which warns of nothing when it is dropped open: something of vyre's own goes with it."""
        self._warns = False
        return self

    def _dropped(self) -> None:
        """Has the allocation returned to the device, because nobody uses it any more.  Must not take a lock."""

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and self.base is None:
            self._dropped()
            if self._warns:
                warn_unclosed(f"resident buffer {self.label or f'of {self.nbytes} bytes'}", self)

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        where = "" if self.base is None else f" from byte {self.offset}"
        name = self.root.label or "unnamed"
        return f"<{type(self).__name__} {name} {self.nbytes} bytes{where} on {self.backend_id}, {state}>"
