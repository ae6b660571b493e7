"""The backend name ``auto``, for which vyre chooses the backend, and the variable that overrides the choice."""

from __future__ import annotations

from typing import Final

AUTO: Final = "auto"
FORCE_VARIABLE: Final = "VYRE_BACKEND"
