"""What a group is told, and the table of groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final, TypeAlias

from gpu_runs.findings import Finding

GPU_BACKEND: Final = "cuda"
"""The only backend whose results are a GPU's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """``backend``: id of the backend under test.  ``tests``: the repository's ``tests`` folder, if there is one.
    ``seconds``: what is left of the group's deadline when it starts.  ``folder``: for files worth keeping."""

    backend: str
    tests: Path | None
    seconds: float
    folder: Path

    @property
    def emulated(self) -> bool:
        """True where the run is a rehearsal: ranges are then small and times mean nothing."""
        return self.backend != GPU_BACKEND


GroupFunction: TypeAlias = Callable[[Context], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Group:
    """``entry``: ``module:function`` below this package, a ``GroupFunction``.  ``seconds``: its deadline.
    ``essential``: when it fails, nothing after it is worth running."""

    name: str
    entry: str
    seconds: float
    essential: bool = False

    def load(self) -> GroupFunction:
        module, _, function = self.entry.partition(":")
        found: GroupFunction = getattr(import_module(f"{__package__}.{module}"), function)
        return found


CHECK: Final = (
    Group("probe", "check.basics:probe", 60, essential=True),
    Group("operators-level-0", "check.operators:level_0", 60),
    Group("operators-level-4", "check.operators:level_4", 60),
    Group("hazards", "check.hazards:hazards", 60),
    Group("native", "check.native:native", 60),
    Group("gallery", "check.basics:gallery", 120),
    Group("conformance", "check.basics:conformance", 180),
    Group("filetests", "check.basics:filetests", 90),
    Group("driver", "check.suites:driver", 60),
    Group("contract", "check.suites:contract", 180),
    Group("features", "check.features:features", 90),
    Group("arrays", "check.arrays:arrays", 60),
    Group("libraries", "check.libraries:libraries", 90),
    Group("queries", "check.transfers:queries", 60),
    Group("packing", "check.transfers:packing", 60),
    Group("work-queues", "check.queues:queues", 90),
    Group("speculation", "check.speculations:speculations", 60),
    Group("waves", "check.cooperative:waves", 90),
    Group("fixed-points", "check.cooperative:fixed_points", 90),
    Group("sequences", "check.graphs:graphs", 60),
    Group("indirect-grids", "check.indirect_grids:indirect_grids", 60),
    Group("e-graphs", "check.egraphs:egraphs", 120),
    Group("asynchrony", "check.asynchrony:asynchrony", 60),
    Group("persistent", "check.persistent:persistent", 90),
    Group("halves", "check.halves:halves", 60),
    Group("checksums", "check.checksums:checksums", 120),
    Group("fault-address", "check.faults:illegal_address", 45),
    Group("fault-instruction", "check.faults:illegal_instruction", 45),
    Group("fault-trap", "check.faults:trap", 45),
    Group("fault-timeout", "check.faults:timeout", 60),
    Group("fault-memory", "check.faults:out_of_memory", 45),
    Group("fuzz-level-0", "check.suites:fuzz_level_0", 60),
    Group("fuzz-level-4", "check.suites:fuzz_level_4", 60),
    Group("sanitizer", "check.sanitizer:sanitizer", 120),
)
BENCH: Final = (
    Group("probe", "check.basics:probe", 60, essential=True),
    Group("launch", "bench.launches:ours", 45),
    Group("resident", "bench.latency:resident", 60),
    Group("graphs", "bench.latency:graphs", 45),
    Group("dispatch", "bench.latency:host_dispatch", 60),
    Group("jobs", "bench.jobs:jobs", 60),
    Group("many-jobs", "bench.features:many_jobs", 90),
    Group("queries", "bench.features:queries", 45),
    Group("packing", "bench.features:packing", 60),
    Group("arrays", "bench.features:arrays", 60),
    Group("waves", "bench.features:waves", 60),
    Group("barriers", "bench.barriers:barriers", 60),
    Group("work-queues", "bench.features:work_queues", 90),
    Group("fixed-points", "bench.features:fixed_points", 90),
    Group("joined", "bench.features:joined", 60),
    Group("overlap", "bench.overlap:overlap", 60),
    Group("bandwidth", "bench.bandwidth:bandwidth", 150),
    Group("launch-bindings", "bench.launches:bindings", 45),
    Group("launch-cuda-core", "bench.launches:cuda_core", 45),
    Group("launch-cupy", "bench.launches:cupy", 60),
    Group("launch-numba", "bench.launches:numba", 90),
    Group("launch-triton", "bench.launches:triton", 120),
    Group("compilation", "bench.compilation:compilation", 60),
    Group("functions", "bench.functions:functions", 90),
    Group("tuning", "bench.tuning:tuning", 90),
    Group("costs", "bench.costs:costs", 180),
)
COMMANDS: Final[dict[str, tuple[Group, ...]]] = {"check": CHECK, "bench": BENCH}


def find_group(command: str, name: str) -> Group:
    return next(group for group in COMMANDS[command] if group.name == name)
