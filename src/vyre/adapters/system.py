"""The process's own clock and environment."""

from __future__ import annotations

import os
import time


class SystemClock:
    __slots__ = ()

    def monotonic_ns(self) -> int:
        return time.perf_counter_ns()


class ProcessEnvironment:
    __slots__ = ()

    def get(self, name: str, /) -> str | None:
        return os.environ.get(name)
