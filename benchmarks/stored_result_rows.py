"""The rows compare making a thing again with reading it from the cache on disk, which includes making its key.

Text, machine code and verdicts of the validator are worth keeping there; launch plans are not, and stay in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from benchmarks import kernels
from benchmarks.harness import Metric, Row, Samples, measure_each
from vyre import Program
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.module_form import from_artifact, to_artifact
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.adapters.cuda.runtime.artifact_keys import ptx_keys
from vyre.adapters.disk.artifact_store import DiskArtifactStore
from vyre.adapters.disk.configuration import CacheSettings
from vyre.app.verdicts import require_valid
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.geometry import LaunchLimits
from vyre.domain.interface import interface_of, resolve_launch
from vyre.domain.specialization import complete_spec, spec_literals
from vyre.domain.validation.validator import validate
from vyre.ports.artifact_store import Artifact
from vyre.ports.support import SILENT

BATCH: Final = 50
"""Programs in a sample."""
PLAN: Final = Artifact(b"", bytes(64))
OPTIONS: Final = EmitOptions()
LIMITS: Final = LaunchLimits("bench", 1024, (1024, 1024, 64), (2**31 - 1, 65_535, 65_535))
_BUILD: Final = Path(__file__).resolve().parent.parent / "build"
_VARIANTS: Final = count(1000)


@contextmanager
def _store() -> Iterator[DiskArtifactStore]:
    _BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="vyre-bench-", dir=_BUILD) as folder:
        yield DiskArtifactStore(CacheSettings(directory=Path(folder)), SILENT)


def _programs(first: int) -> list[Program]:
    """Of fifty nodes each, as new: nothing is known of them."""
    return [kernels.fifty_nodes(first + index) for index in range(BATCH)]


def _sides(
    rounds: int, make: Callable[[Program], object], read: Callable[[Program], object], fill: Callable[[Program], object]
) -> Samples:
    """Seconds a program to read (ours) and to make (theirs), in turn."""
    works = []
    for _ in range(rounds):
        first = next(_VARIANTS) * BATCH
        for program in _programs(first):
            fill(program)
        works += [partial(_each, make, _programs(first)), partial(_each, read, _programs(first))]
    found = [seconds / BATCH for seconds in measure_each(works).ours]
    return Samples(ours=found[1::2], theirs=found[::2])


def _each(work: Callable[[Program], object], programs: list[Program]) -> None:
    for program in programs:
        work(program)


def _validation(rounds: int) -> Samples:
    with _store() as store:

        def use(program: Program) -> None:
            require_valid(program, lambda: store)

        samples = _sides(rounds, validate, use, use)
        assert store.stats().hits == rounds * BATCH
        return samples


def _plan(rounds: int) -> Samples:
    """Interface and launch of a program whose digest is known."""
    with _store() as store:

        def make(program: Program) -> None:
            lengths = (4096,) * len(interface_of(program).plan.inputs)
            resolve_launch(program, lengths, DispatchConfig(), LIMITS)

        def read(program: Program) -> None:
            assert store.get(keys.key(program)) is not None

        keys = ptx_keys(OPTIONS)
        return _sides(rounds, make, read, lambda program: store.put(keys.key(program), PLAN))


def _text(rounds: int) -> Samples:
    keys = ptx_keys(OPTIONS)
    with _store() as store:

        def read(program: Program) -> None:
            stored = store.get(keys.key(program, complete_spec(program, None)))
            assert stored is not None
            from_artifact(stored)

        def make(program: Program) -> None:
            emit(program, OPTIONS, spec_literals(program, None))

        def fill(program: Program) -> None:
            module = emit(program, OPTIONS, spec_literals(program, None))
            store.put(keys.key(program, complete_spec(program, None)), to_artifact(module))

        return _sides(rounds, make, read, fill)


_STATE: Final = "new programs of 50 nodes; entries in the page cache"
ROWS: Final = (
    Row("stored-text-vs-emitting", Metric.SPEEDUP, "x", 2.0, None, _text, _STATE),
    Row("stored-verdict-vs-validating", Metric.SPEEDUP, "x", 1.0, None, _validation, _STATE),
    Row("stored-plan-vs-making", Metric.SPEEDUP, "x", 0.0, None, _plan, f"{_STATE}; below 1, so it is not stored"),
)
