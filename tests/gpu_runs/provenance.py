"""Where and on what a record was made."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

PACKAGES: Final = ("vyre", "numpy", "cuda-bindings", "cuda-core", "cupy-cuda13x", "numba-cuda", "triton", "torch")


def describe(revision: str | None, packages: Sequence[str] = PACKAGES) -> dict[str, object]:
    """Date, machine, versions and git revision; ``revision`` overrides what the folder of the sources says."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "revision": revision or _git_revision(),
        "packages": {name: version for name in packages if (version := _version(name)) is not None},
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git_revision() -> str | None:
    """The commit, with ``+`` if tracked files differ from it; None outside a repository of vyre."""
    sources = Path(__file__).parents[2]
    if not (sources / "pyproject.toml").is_file():
        return None
    try:
        commit = _git(sources, "rev-parse", "--short=12", "HEAD")
        return commit + ("+" if _git(sources, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()
