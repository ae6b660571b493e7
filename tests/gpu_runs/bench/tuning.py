"""What the tuner chooses, beside a sweep of every size that it may choose; and what it remembers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

import vyre
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import has_driver
from vyre import DispatchConfig, Program, ProgramBuilder, Session, TuningReport, TuningSettings, Value, f32
from vyre.app.tuning.report import TuningSource
from vyre.policies.tuning.workgroup_candidates import DEFAULT_THRESHOLDS
from vyre.testing.outcomes import Outcome, Verdict

DECLARED: Final = 32
"""Lanes of a workgroup: seldom the best."""
SIZES_ONLY: Final = TuningSettings(profiles=False)


def _logistic(p: ProgramBuilder, value: Value) -> Value:
    for _ in range(16):
        # A local, since an expression that occurs twice counts twice, and after 16 rounds 2^16 times.
        value = p.let(value * 3.5 * (1.0 - value))
    return value


FORMULAS: Final[dict[str, Callable[[ProgramBuilder, Value], Value]]] = {
    "copy": lambda p, x: x,
    "elementwise": lambda p, x: x * x + 1.0,
    "square root": lambda p, x: vyre.sqrt(x),
    "sine": lambda p, x: vyre.sin(x),
    "logistic": _logistic,
}


def program(name: str) -> Program:
    """``y = formula(x)``, an element a lane, declared for small workgroups."""
    with ProgramBuilder(name, workgroup=DECLARED) as p:
        x = p.input("x", f32)
        y = p.output("y", f32, like=x)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = FORMULAS[name](p, x[i])
    return p.build()


def tuning(context: Context) -> Iterator[Finding]:
    if not has_driver(context.backend):
        yield Outcome("tuning", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    elements, rounds = (1_000, 1) if context.emulated else (1 << 22, 51)
    inputs = {"x": np.linspace(0.01, 0.99, elements, dtype=np.float32)}
    found: dict[str, Any] = {}
    with TemporaryDirectory() as folder:
        cache = Path(folder).resolve() / "cache"
        with vyre.open(context.backend, cache=cache) as session:
            for name in FORMULAS:
                report = session.tune(program(name), inputs, settings=SIZES_ONLY)
                found[name] = _beside_a_sweep(session, program(name), inputs, report, rounds)
                worst = max(each["of_the_best"] for each in found.values())
                yield Fact("kernels", dict(found))
                yield Fact("summary", {"worst_of_the_best": worst})
        with vyre.open(context.backend, cache=cache) as session:
            for name in FORMULAS:
                again = session.tune(program(name), inputs, settings=SIZES_ONLY)
                verdict = Verdict.PASSED if again.source is TuningSource.STORE else Verdict.FAILED
                yield Outcome(f"{name} is remembered", verdict, f"its times come from: {again.source.value}")


def _beside_a_sweep(
    session: Session, kernel: Program, inputs: dict[str, Any], report: TuningReport, rounds: int
) -> dict[str, Any]:
    """Medians of device times over rounds in which each size runs once, also those that the tuner ruled out."""
    sizes = DEFAULT_THRESHOLDS.sizes
    launches = [session.bind(kernel, inputs, DispatchConfig(workgroup=(size, 1, 1))) for size in sizes]
    times: list[list[int]] = [[] for _ in launches]
    for _ in range(3 + rounds):
        for launch, samples in zip(launches, times, strict=True):
            samples.append(launch().timing.device_ns or 0)
    medians = dict(zip(sizes, (median(samples[3:]) for samples in times), strict=True))
    chosen, best = report.winner.size if report.winner else DECLARED, min(medians, key=medians.__getitem__)
    return {
        "median_ns": medians,
        "chosen": chosen,
        "best": best,
        "of_the_best": medians[chosen] / medians[best] if medians[best] else 1.0,
        "why": report.why,
    }
