"""The name of the native CPU backend."""

from __future__ import annotations

from typing import Final

from vyre.domain.names import BackendId

CPU: Final = BackendId("cpu")
