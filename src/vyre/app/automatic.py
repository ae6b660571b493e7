"""The name that lets vyre choose the backend, and the variable that says what the name stands for."""

from __future__ import annotations

from typing import Final

AUTO: Final = "auto"
FORCE_VARIABLE: Final = "VYRE_BACKEND"
