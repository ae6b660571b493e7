"""Shapes of a CUDA pipeline prepared before their dispatch: nothing is launched, and nothing is left to make."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import vyre
from support.small_programs import square_program
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.adapters.cuda.runtime.executor import SHAPES
from vyre.app.prediction import PredictionConfig
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import InvalidInput
from vyre.policies.prediction.trace_jit import TraceJitThresholds
from vyre.ports.execution import PreparablePipeline
from vyre.testing import CudaMachine, cuda_machine

EAGER = PredictionConfig(jit=TraceJitThresholds(hot_hits=0))


def pipeline_on(machine: CudaMachine) -> PreparablePipeline:
    assert machine.backend.compiler is not None
    compiled = machine.backend.compiler.compile(square_program(), DispatchConfig()).pipeline
    assert isinstance(compiled, PreparablePipeline)
    return compiled


def test_a_prepared_shape_makes_nothing_at_its_dispatch() -> None:
    machine = cuda_machine()
    machine.backend.lifecycle.prepare()
    pipeline = pipeline_on(machine)
    assert not pipeline.is_prepared((400,))
    pipeline.prepare((400,))
    assert pipeline.is_prepared((400,)) and not pipeline.is_prepared((404,))
    before = Counter(machine.driver.calls)
    assert before["launch"] == 0
    pipeline.prepare((400,))
    assert machine.driver.calls == before, "it is there already"
    storage = vyre.OutputArena()
    x = np.arange(100, dtype=np.uint32)
    pipeline.dispatch([memoryview(x.tobytes())], storage)
    assert bytes(storage[0]) == (x * x).tobytes()
    made = Counter(machine.driver.calls) - before
    assert not [name for name in made if "alloc" in name or "create" in name or "load" in name]
    machine.backend.lifecycle.close()
    assert not any(machine.driver.live().values())


def test_memory_of_a_shape_that_was_never_dispatched_is_used_behind_its_allocation() -> None:
    machine = cuda_machine(CudaOptions(slots=1))
    machine.backend.lifecycle.prepare()
    pipeline = pipeline_on(machine)
    pipeline.prepare((400,))
    pipeline.prepare((800,))
    assert not pipeline.is_prepared((400,)), "one lane is kept"
    machine.backend.lifecycle.close()
    assert not machine.driver.violations


def test_a_shape_that_cannot_be_raises_as_its_dispatch_does() -> None:
    machine = cuda_machine()
    machine.backend.lifecycle.prepare()
    pipeline = pipeline_on(machine)
    with pytest.raises(InvalidInput):
        pipeline.prepare((401,))
    assert not pipeline.is_prepared((401,))
    machine.backend.lifecycle.close()


@pytest.mark.parametrize(
    ("options", "lengths"), [(CudaOptions(), SHAPES + 4), (CudaOptions(slots=4), 8)], ids=["shapes", "slots"]
)
def test_a_session_prepares_what_the_pipeline_forgot(options: CudaOptions, lengths: int) -> None:
    machine = cuda_machine(options)
    program = square_program()
    with vyre.open("cuda-machine", catalog=machine.catalog, predict=EAGER) as session:
        for lap in range(4):
            if lap == 3:
                learned = session.predictions()
            for length in range(1, lengths + 1):
                x = np.arange(length, dtype=np.uint32)
                np.testing.assert_array_equal(session.dispatch(program, [x])["y"], x * x)
                session._background.join()
        report = session.predictions()
    assert report.missed == learned.missed and report.used - learned.used == lengths
    assert not machine.driver.violations
    assert not any(machine.driver.live().values())


def test_what_a_lost_device_took_is_prepared_again() -> None:
    machine = cuda_machine()
    program = square_program()
    inputs = [np.arange(length, dtype=np.uint32) for length in range(1, 13)]
    with vyre.open("cuda-machine", catalog=machine.catalog, predict=EAGER) as session:
        for x in 3 * inputs:
            session.dispatch(program, [x])
        assert not session.predictions().asking
        session.recover()
        for x in inputs:
            np.testing.assert_array_equal(session.dispatch(program, [x])["y"], x * x)
            session._background.join()
        report = session.predictions()
    assert report.asking
    assert report.missed + report.used == len(inputs)
    assert report.missed <= 6, "as soon as the dispatches before are learned from, the next is ready"
    assert not any(machine.driver.live().values())
