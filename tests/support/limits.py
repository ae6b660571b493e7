"""How long a test waits for a process, a thread or an event of its own, before it fails."""

from __future__ import annotations

from typing import Final

LIMIT_S: Final = 300
