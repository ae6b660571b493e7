"""Where and on what a record was made."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from vyre.adapters.git import GitRepository
from vyre.adapters.machine_facts import environment

PACKAGES: Final = ("vyre", "numpy", "cuda-bindings", "cuda-core", "cupy-cuda13x", "numba-cuda", "triton", "torch")


def describe(revision: str | None, packages: Sequence[str] = PACKAGES) -> dict[str, object]:
    """Date, machine, versions and git revision; ``revision`` overrides what the folder of the sources says."""
    here = environment(packages)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": here.python,
        "system": here.system,
        "processor": here.processor,
        "cores": here.cores,
        "revision": revision or _git_revision(),
        "packages": dict(here.packages),
    }


def _git_revision() -> str | None:
    """The commit, with ``+`` if files differ from it; None outside a repository of vyre."""
    tree = GitRepository(Path(__file__).parents[2] / "src" / "vyre", ("benchmarks/results",)).working_tree()
    return None if tree is None else tree.commit[:12] + ("+" if tree.status else "")
