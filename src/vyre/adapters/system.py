"""The environment of the process."""

from __future__ import annotations

import os


class ProcessEnvironment:
    """``Environment`` of this process, ``os.environ``."""

    __slots__ = ()

    def get(self, name: str, /) -> str | None:
        """Implements ``Environment.get``."""
        return os.environ.get(name)
