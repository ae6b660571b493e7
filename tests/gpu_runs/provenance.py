"""Where and on what a record was made."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from vyre.adapters.git import GitRepository
from vyre.adapters.machine_facts import environment
from vyre.domain.evidence.provenance import SourceFile, WorkingTree
from vyre.ports.provenance import SourceRepository

PACKAGES: Final = ("vyre", "numpy", "cuda-bindings", "cuda-core", "cupy-cuda13x", "numba-cuda", "triton", "torch")


_ROOT: Final = Path(__file__).parents[2]
_PACKAGE: Final = _ROOT / "src" / "vyre"
KIT_REVISION: Final = _ROOT / ".gpukit" / "revision"
"""Where ``make gpu-kit`` leaves the revision of what it packs, for a machine without the repository."""


class StatedRevision:
    """A ``SourceRepository`` for sources outside a repository, of which somebody says the revision.

    Whether files differ from it is unknown; the files themselves are those that lie here.
    """

    def __init__(self, folder: Path, revision: str) -> None:
        self._folder, self._revision = folder, revision

    def working_tree(self) -> WorkingTree:
        """Implements ``SourceRepository.working_tree``."""
        paths = sorted(path for path in self._folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        files = tuple(SourceFile(path.relative_to(self._folder).as_posix(), path.read_bytes()) for path in paths)
        return WorkingTree(self._revision, None, None, None, None, None, (), files)


def repository(revision: str | None, folder: Path = _PACKAGE, kit: Path = KIT_REVISION) -> SourceRepository:
    """The repository of the sources here, if there is one; else what is said of their revision: by ``revision``, or by
    the file ``kit``."""
    known = GitRepository(folder, ("benchmarks/results",))
    if known.working_tree() is not None:
        return known
    stated = revision or (kit.read_text("utf-8").strip() if kit.is_file() else None)
    return known if stated is None else StatedRevision(folder, stated)


def describe(revision: str | None, packages: Sequence[str] = PACKAGES) -> dict[str, object]:
    """Date, machine, versions and git revision; ``revision`` overrides what the folder of the sources says.

    Outside a repository the kit for a machine without one may say it.
    """
    here = environment(packages)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": here.python,
        "system": here.system,
        "processor": here.processor,
        "cores": here.cores,
        "revision": revision or _revision(),
        "packages": dict(here.packages),
    }


def _revision() -> str | None:
    """The commit, with ``+`` if files differ from it; None outside a repository of vyre that nobody packed."""
    tree = repository(None).working_tree()
    return None if tree is None else tree.commit[:12] + ("+" if tree.status else "")
