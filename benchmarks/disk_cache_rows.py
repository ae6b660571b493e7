"""The rows compare the cache on disk with ``cuda.core``'s, by the time of a verified hit and of a put.

Both keep entries of 10 KiB in directories on the disk of this repository.  Ours gets whole keys, which are made and
digested in the measured time; theirs gets bytes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.harness import Metric, Row, Samples, compare, measure_each
from vyre.adapters.disk.artifact_store import DiskArtifactStore
from vyre.adapters.disk.configuration import CacheSettings
from vyre.domain.artifact_key import ArtifactKey, ArtifactKind, KeyFamily
from vyre.domain.cache_config import Durability
from vyre.ports.artifact_store import Artifact
from vyre.ports.support import NullTelemetry

KEYS: Final = 64
PUTS: Final = 20
"""In a sample; each is of a program of its own, so that ours has to make directories, too."""
CODE: Final = os.urandom(10_240)
ARTIFACT: Final = Artifact(b"", CODE, 1_000_000)
_BUILD: Final = Path(__file__).resolve().parent.parent / "build"


FAMILY: Final = KeyFamily(
    ArtifactKey(
        kind=ArtifactKind.CUBIN,
        program=bytes(32),
        policy=(("grid-sync", "native"), ("ulp", "0")),
        target="sm_90",
        tool="ptxas 13.0 -O3",
        emitter=bytes(32),
    )
)


def _key(program: bytes) -> ArtifactKey:
    """As the runtime makes it: what configurations decide is encoded already."""
    return FAMILY.key(program, ("x", "y", "out"), (256, 1, 1), b"")


def _folder() -> tempfile.TemporaryDirectory[str]:
    _BUILD.mkdir(exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="vyre-bench-", dir=_BUILD)


def _store(root: Path, durability: Durability = Durability.NONE) -> DiskArtifactStore:
    return DiskArtifactStore(CacheSettings(directory=root, durability=durability), NullTelemetry())


def _hits(rounds: int) -> Samples:
    """A look-up of each of ``KEYS`` entries, in turn; seconds a look-up."""
    from cuda.core.utils import FileStreamProgramCache

    with _folder() as folder:
        ours, theirs = _store(Path(folder) / "ours"), FileStreamProgramCache(Path(folder) / "theirs")
        programs = [os.urandom(32) for _ in range(KEYS)]
        keys = [_key(program) for program in programs]
        for program, key in zip(programs, keys, strict=True):
            assert ours.put(key, ARTIFACT)
            theirs[program] = CODE

        def our_hits() -> None:
            for program in programs:
                ours.get(_key(program))

        def their_hits() -> None:
            for program in programs:
                theirs.get(program)

        assert all(ours.get(key) == ARTIFACT for key in keys)
        assert all(theirs.get(program) == CODE for program in programs)
        found = compare(our_hits, their_hits, rounds)
        assert ours.stats().misses == 0
    return Samples([seconds / KEYS for seconds in found.ours], [seconds / KEYS for seconds in found.theirs])


def _hit_cost(rounds: int) -> Samples:
    return Samples(_hits(rounds).ours)


def _puts(durability: Durability) -> Callable[[int], Samples]:
    """Puts of new entries, the sides in turn; seconds a put.  Theirs syncs the content of every file."""

    def measure(rounds: int) -> Samples:
        from cuda.core.utils import FileStreamProgramCache

        with _folder() as folder:
            ours = _store(Path(folder) / "ours", durability)
            theirs = FileStreamProgramCache(Path(folder) / "theirs", max_size_bytes=1 << 30)
            _put_ours(ours)()
            _put_theirs(theirs)()
            found: tuple[list[float], list[float]] = ([], [])
            for index in range(rounds):
                sides = [(0, _put_ours(ours)), (1, _put_theirs(theirs))]
                for side, work in sides if index % 2 == 0 else reversed(sides):
                    found[side].extend(seconds / PUTS for seconds in measure_each([work]).ours)
            assert ours.stats().entries == len(theirs) == (rounds + 1) * PUTS
        return Samples(*found)

    return measure


def _put_ours(store: DiskArtifactStore) -> Callable[[], None]:
    programs = [os.urandom(32) for _ in range(PUTS)]

    def put() -> None:
        for program in programs:
            store.put(_key(program), ARTIFACT)

    return put


def _put_theirs(cache: object) -> Callable[[], None]:
    keys = [os.urandom(32) for _ in range(PUTS)]

    def put() -> None:
        for key in keys:
            cache[key] = CODE  # type: ignore[index]

    return put


_STATE: Final = "entries of 10 KiB, files in the page cache"
_NEW: Final = "new entries of 10 KiB, of a program each"
ROWS: Final = (
    Row("disk-hit", Metric.COST, "us", 1000.0, 40.0, _hit_cost, _STATE, scale=1e6),
    Row("disk-hit-vs-cuda.core", Metric.RATIO, "x", 1.0, None, _hits, f"{_STATE}; theirs unverified"),
    Row("disk-put-vs-cuda.core", Metric.RATIO, "x", 0.5, None, _puts(Durability.NONE), f"{_NEW}; theirs with fsync"),
    Row("disk-put-file-vs-cuda.core", Metric.RATIO, "x", 1.1, None, _puts(Durability.FILE), f"{_NEW}; fsync in both"),
)
