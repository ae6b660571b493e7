"""Two ways to do the same, timed in turn: most of them are the jobs with which ``benchmarks`` measures the CPU.

Each job checks that both sides give the same bytes, and that ours was done as it claims to be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any, Final, TypeAlias

from benchmarks.harness import Samples
from benchmarks.site import Site

from gpu_runs.bench.timing import spread
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import backend_with, has_driver, session_on
from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS, CudaOptions
from vyre.testing.outcomes import Outcome, Verdict

ROUNDS: Final = 15
_REHEARSAL: Final = 2

Measurement: TypeAlias = Callable[[int], Samples]


def site_of(context: Context, options: CudaOptions = DEFAULT_OPTIONS) -> Site:
    """Sessions of their own on the backend under test, and the clock on the wall."""
    return Site(lambda: session_on(backend_with(context.backend, options)), time.perf_counter)


def measured(context: Context, pairs: Mapping[str, Measurement], rounds: int = ROUNDS) -> Iterator[Finding]:
    """A fact ``pairs``: seconds of both sides and how many times faster ours is, by name.

    A pair that is wrong, or raises, is a failure and costs no other pair.
    """
    if not has_driver(context.backend):
        yield Outcome("pairs", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    found: dict[str, dict[str, Any]] = {}
    for name, measure in pairs.items():
        try:
            samples = measure(_REHEARSAL if context.emulated else rounds)
        except Exception as error:
            yield Outcome(name, Verdict.FAILED, f"{type(error).__name__}: {error}")
            continue
        found[name] = {"ours_us": spread(samples.ours, 1e6)}
        if samples.theirs:
            found[name] |= {
                "theirs_us": spread(samples.theirs, 1e6),
                "speedup": median(samples.theirs) / median(samples.ours),
            }
        yield Fact("pairs", dict(found))
        yield Outcome(name, Verdict.PASSED)
