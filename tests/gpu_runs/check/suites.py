"""Suites that run elsewhere too, here on the device: the contracts of the driver seam and of the backend port, and
random programs at the lowest and the highest optimisation level of the driver's compiler."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import driver_contract
from gpu_runs.check.basics import NEEDS_TESTS
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import backend_with, new_driver
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.adapters.cuda.seam import JitOptions
from vyre.adapters.discovery import load_catalog
from vyre.domain.errors import BackendUnavailable, StepBudgetExceeded, TrapError, UnsupportedFeature
from vyre.ports.backend import Backend
from vyre.testing.backend_contract import CASES, Subject, run_cases
from vyre.testing.execution import execute, open_backend
from vyre.testing.outcomes import Outcome, Verdict

_SHARE: Final = 0.8
"""Of its deadline that an open-ended group uses."""
_REHEARSED_PROGRAMS: Final = 10


def driver(context: Context) -> Iterator[Finding]:
    """All that the driver API defines; a rehearsal runs the same cases on the emulated driver."""
    yield from driver_contract.run_cases((c for c in driver_contract.CASES if c.hardware), new_driver(context.backend))


def contract(context: Context) -> Iterator[Finding]:
    registration = load_catalog().get(context.backend)
    if registration is None:
        raise BackendUnavailable(f"no backend is called `{context.backend}`", fix="see `vyre backends`.")
    with Subject(registration) as subject:
        yield from run_cases(CASES, subject, "memory*" if context.emulated else "*")


def fuzz_level_0(context: Context) -> Iterator[Finding]:
    yield from _fuzz(context, 0)


def fuzz_level_4(context: Context) -> Iterator[Finding]:
    yield from _fuzz(context, 4)


def _fuzz(context: Context, level: int) -> Iterator[Finding]:
    """The same random programs at every level, each against the reference."""
    if context.tests is None:
        yield Outcome("random programs", Verdict.SKIPPED, NEEDS_TESTS)
        return
    if find_spec("hypothesis") is None:
        yield Outcome("random programs", Verdict.SKIPPED, "their generator needs the package hypothesis")
        return
    sys.path.insert(0, str(context.tests))
    generate = import_module("support.programs").generate
    stop = time.monotonic() + _SHARE * context.seconds
    reference = open_backend("reference")
    backend = backend_with(context.backend, CudaOptions(jit=JitOptions(level=level)))
    seed = 0
    try:
        while time.monotonic() < stop and not (context.emulated and seed >= _REHEARSED_PROGRAMS):
            yield _compare(f"seed {seed}", generate(seed, traps=True), reference, backend)
            seed += 1
    finally:
        backend.lifecycle.close()
    yield Fact("programs", seed)


def _compare(name: str, case: Any, reference: Backend, backend: Backend) -> Outcome:
    try:
        wanted, found = _run(reference, case), _run(backend, case)
    except UnsupportedFeature as error:
        return Outcome(name, Verdict.SKIPPED, error.message)
    if wanted == found:
        return Outcome(name, Verdict.PASSED)
    if isinstance(wanted, dict) and isinstance(found, dict):
        wrong = [buffer for buffer in wanted if wanted[buffer] != found.get(buffer)]
        return Outcome(name, Verdict.FAILED, f"bytes of {', '.join(wrong)} differ")
    return Outcome(name, Verdict.FAILED, f"the reference gives {wanted!r:.200}, the backend {found!r:.200}")


def _run(backend: Backend, case: Any) -> dict[str, bytes] | tuple[object, ...]:
    """Outputs by name, or what a trap or an exceeded budget says."""
    try:
        return execute(backend, case.program, case.inputs, case.config)
    except TrapError as error:
        return error.tag, error.address, error.global_id
    except StepBudgetExceeded as error:
        return error.budget, error.global_id
