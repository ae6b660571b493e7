"""The process's own environment."""

from __future__ import annotations

import os


class ProcessEnvironment:
    __slots__ = ()

    def get(self, name: str, /) -> str | None:
        return os.environ.get(name)
