"""Every driver call of a bundle's life fails once: a typed error, nothing leaked, and right results afterwards."""

from __future__ import annotations

from collections import Counter
from threading import Thread
from typing import Final

import numpy as np
import pytest

from support.bundles import small_bundle
from support.limits import LIMIT_S
from vyre.adapters.cuda import ids
from vyre.adapters.cuda.aot.running import BundleRunner
from vyre.adapters.cuda.machine.driver import MachineDriver
from vyre.adapters.cuda.machine.fault_plan import NO_FAULTS, Fault, FaultPlan
from vyre.adapters.cuda.machine.machine_options import MachineOptions
from vyre.domain.dispatch import OutputArena
from vyre.domain.errors import BackendError

KINDS: Final = {"out of memory": 2, "invalid value": 1, "illegal address": 700}
STICKY: Final = 700
X: Final = np.arange(50, dtype=np.uint32)
INPUTS: Final = (memoryview(X.tobytes()),)


def driver(plan: FaultPlan = NO_FAULTS) -> MachineDriver:
    return MachineDriver(MachineOptions(trace=True, faults=plan))


def use(runner: BundleRunner) -> bytes:
    """Often enough to be recorded and replayed."""
    arena = OutputArena()
    pipeline = runner.pipeline()
    for _ in range(4):
        pipeline.dispatch(INPUTS, arena)
    return b"".join(arena.to_bytes())


def run(made: MachineDriver) -> None:
    """A whole life, in which anything may fail with a typed error."""
    runner = BundleRunner(made, ids.MACHINE, small_bundle(), machine_code=False)
    runner.open()
    try:
        assert use(runner) == X.tobytes()
    except BackendError:
        lost = runner.device.device_lost()
        if lost:
            runner.recover()
        made.inject(NO_FAULTS)
        assert use(runner) == X.tobytes(), "the next use"
        raise
    finally:
        runner.close()


def test_a_run_without_faults_leaks_nothing() -> None:
    made = driver()
    run(made)
    assert not any(made.live().values())


@pytest.mark.parametrize("kind", KINDS)
def test_each_call_fails_once(kind: str) -> None:
    whole = driver()
    run(whole)
    raised = 0
    for nth in range(1, sum(whole.calls.values()) + 1):
        made = driver(FaultPlan(calls=(Fault(code=KINDS[kind], nth=nth),)))
        try:
            run(made)
        except BackendError as error:
            raised += 1
            assert "Fix: " in str(error), nth
        failed = Counter(record.method for record in made.trace if record.code)
        if KINDS[kind] != STICKY and not any("free" in m or "destroy" in m or "unload" in m for m in failed):
            left = {what: n for what, n in made.live().items() if n}
            assert not left or "primary_release" in failed, f"call {nth} ({dict(failed)}) leaves {left}"
        assert not made.violations, made.violations
    assert raised > 20


def test_a_thread_that_closes_tries_twice_to_make_the_context_current() -> None:
    """Without its context it could give nothing back, and a device is closed only once."""
    cuda = driver()
    runner = BundleRunner(cuda, ids.MACHINE, small_bundle(), machine_code=False)
    runner.open()
    assert use(runner) == X.tobytes()
    cuda.inject(FaultPlan(calls=(Fault(code=KINDS["invalid value"], method="set_current"),)))
    thread = Thread(target=runner.close)  # it has never used the device
    thread.start()
    thread.join(LIMIT_S)
    assert [record.method for record in cuda.trace if record.code] == ["set_current"]
    assert not any(cuda.live().values())
