"""Is the backend there, does one store arrive, and do the recorded programs come out as recorded?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import fields
from typing import Final

import numpy as np

import vyre
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import has_driver, new_driver
from vyre import Program, ProgramBuilder, u32
from vyre.adapters.cuda.runtime.device import CudaDevice
from vyre.domain.ir.program import BackendId
from vyre.gallery.example import mismatches
from vyre.gallery.registry import examples
from vyre.testing.conformance import read_cases, run_cases
from vyre.testing.execution import find_scheduled
from vyre.testing.filetests import load_filetests, run_filetest
from vyre.testing.outcomes import Outcome, Verdict

VECTOR_FILES: Final = ("ir-conformance.json.xz", "oracle-programs.jsonl.xz", "oracle-scalar-ops.jsonl.xz")
_EVERY: Final = 32
"""A rehearsal runs that part: whole, these suites run on the emulated driver by themselves."""
NEEDS_TESTS: Final = "needs the repository's tests folder: run in a checkout, or pass --tests DIR"


def one_store(lanes: int) -> Program:
    """``out[i] = 3 * i + 1``."""
    with ProgramBuilder("one_store", workgroup=128) as p:
        out = p.output("out", u32, lanes)
        i = p.global_id()
        with p.if_(i < out.length):
            out[i] = i * 3 + 1
    return p.build()


def device_facts(backend: str) -> dict[str, object]:
    """What the record says about the device; sizes in bytes, clocks in kHz."""
    facts = CudaDevice(new_driver(backend), backend=BackendId(backend)).facts
    return {field.name: _plain(getattr(facts, field.name)) for field in fields(facts)}


def _plain(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value


def probe(context: Context) -> Iterator[Finding]:
    lanes = 1000
    started = time.perf_counter()
    with vyre.open(context.backend) as session:
        opened = time.perf_counter()
        found = session.dispatch(one_store(lanes))["out"]
        dispatched = time.perf_counter()
        if has_driver(context.backend):
            yield Fact("device", device_facts(context.backend))
        yield Fact("first_dispatch_s", {"open": opened - started, "dispatch": dispatched - opened})
    wrong = np.flatnonzero(found != np.arange(lanes, dtype=np.uint32) * 3 + 1)
    if wrong.size:
        yield Outcome("one store", Verdict.FAILED, f"out[{wrong[0]}] is {found[wrong[0]]}, {wrong.size} are wrong")
    else:
        yield Outcome("one store", Verdict.PASSED)


def gallery(context: Context) -> Iterator[Finding]:
    with vyre.open(context.backend) as session:
        for name, example in examples().items():
            case, program = example.case(), example.program()
            try:
                wrong = "; ".join(mismatches(case, example.run(session, program, case)))
            except vyre.VyreError as error:
                wrong = f"{type(error).__name__}: {error}"
            yield Outcome(name, Verdict.FAILED if wrong else Verdict.PASSED, wrong)


def conformance(context: Context) -> Iterator[Finding]:
    if context.tests is None:
        yield Outcome("recorded programs and operator tables", Verdict.SKIPPED, NEEDS_TESTS)
        return
    registration, canonical_order = find_scheduled(context.backend)
    backend = registration.make()
    try:
        for file in VECTOR_FILES:
            cases = read_cases(context.tests / "data" / "vectors" / file)
            yield from run_cases(
                cases[::_EVERY] if context.emulated else cases, backend, canonical_order=canonical_order
            )
    finally:
        backend.lifecycle.close()


def filetests(context: Context) -> Iterator[Finding]:
    if context.tests is None:
        yield Outcome("filetests", Verdict.SKIPPED, NEEDS_TESTS)
        return
    registration, canonical_order = find_scheduled(context.backend)
    backend = registration.make()
    try:
        tests = list(load_filetests([context.tests / "filetests"]))
        for test in tests[::_EVERY] if context.emulated else tests:
            yield from run_filetest(test, backend, canonical_order=canonical_order)
    finally:
        backend.lifecycle.close()
