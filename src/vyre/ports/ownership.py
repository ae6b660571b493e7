"""Whose device memory a buffer is."""

from __future__ import annotations

from collections.abc import Sequence

from vyre.domain.errors import InvalidResource
from vyre.domain.names import BackendId
from vyre.ports.resident_buffer import ResidentBuffer


def check_ownership(backend: BackendId, epoch: int, buffers: Sequence[ResidentBuffer]) -> None:
    """Raises ``InvalidResource`` unless every buffer is open, of this backend and of this device epoch."""
    for buffer in buffers:
        if buffer.backend_id != backend:
            raise InvalidResource(
                f"{buffer!r} belongs to backend `{buffer.backend_id}`, not to `{backend}`",
                fix="download it there and upload it here.",
            )
        if buffer.closed:
            raise InvalidResource(f"{buffer!r} is used after close()", fix="keep it open until the dispatch returns.")
        if buffer.epoch != epoch:
            raise InvalidResource(
                f"{buffer!r} was allocated in device epoch {buffer.epoch}, the current epoch is {epoch}",
                fix="allocate and upload again after recover().",
            )
