"""Byte views of contiguous buffers, without copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from vyre.domain.errors import InvalidInput

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from vyre.domain.dispatch import ReadableBuffer

_EMPTY: Final = memoryview(b"")


def byte_view(data: ReadableBuffer, *, name: str = "buffer") -> memoryview:
    """Returns a read-only, one-dimensional view of the bytes of ``data``; never copies.

    Raises ``InvalidInput``, naming the buffer, for an object without the buffer protocol or one that is not
    C-contiguous.
    """
    try:
        view = memoryview(cast("Buffer", data))
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{name}: {type(data).__name__} offers no bytes ({error})",
            fix="pass a NumPy array, bytes, bytearray or memoryview.",
        ) from None
    if not view.c_contiguous:
        raise InvalidInput(
            f"{name}: the memory is not C-contiguous (shape {view.shape}, strides {view.strides})",
            fix="pass numpy.ascontiguousarray(x).",
        )
    return view.cast("B").toreadonly() if view.nbytes else _EMPTY
