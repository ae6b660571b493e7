"""Facts about this machine and this interpreter, for records that others are to compare."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterable
from pathlib import Path

from vyre.domain.evidence.records import Environment


def environment(packages: Iterable[str]) -> Environment:
    """Returns the machine, the interpreter, and the versions of those of ``packages`` that are installed."""
    return Environment(
        python=f"{platform.python_implementation()} {platform.python_version()}",
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        processor=processor(),
        cores=os.cpu_count() or 1,
        packages={name: version for name in packages if (version := package_version(name)) is not None},
    )


def processor() -> str:
    """Returns the name of the processor, as far as the system reports it."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    named = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def package_version(name: str) -> str | None:
    """Returns the version of an installed distribution; None if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
