"""Whether, when and how many graphs are recorded changes no byte.

Random programs are dispatched, and run on resident memory, again and again with changing values, on machines that
replay never, at once, later, few at a time, or by costs, and let steps on different memory run side by side, or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import cycle, islice
from random import Random
from typing import Any, Final

import pytest

from support.machine_fuzzing import machine_case, reference, run_on
from support.programs import Case, Order
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.domain.binding import plan_bindings
from vyre.domain.errors import TrapError
from vyre.domain.geometry import LaunchLimits
from vyre.domain.identity import program_digest
from vyre.domain.interface import resolve_launch
from vyre.domain.launch_costs import ASSUMED, Measured, Provenance
from vyre.ports.backend import Backend, Readback, ResidentSequence, ResidentStep, Resource, Upload
from vyre.testing import CudaMachine, cuda_machine

FREE: Final[dict[str, Any]] = dict.fromkeys(
    ("graph_record", "graph_record_node", "graph_gap"), Measured(0, 0, 0, 9, Provenance.MEASURED)
)
OFF: Final = CudaOptions(graph_after=None)
WAYS: Final = {
    "at once": CudaOptions(graph_after=0),
    "in order": CudaOptions(graph_after=0, side_by_side=False),
    "later": CudaOptions(graph_after=2),
    "few kept": CudaOptions(graph_after=1, graphs=1),
    "by costs": CudaOptions(costs=replace(ASSUMED, **FREE)),
}
RUNS: Final = 5
COPIES: Final = 2
SEEDS: Final = 30
Use = Callable[[Backend, Case], list[object]]


@contextmanager
def opened(options: CudaOptions) -> Iterator[CudaMachine]:
    machine = cuda_machine(options, kernels=RunOptions(schedule="lockstep"))
    machine.backend.lifecycle.prepare()
    yield machine
    machine.backend.lifecycle.close()
    assert not any(machine.driver.live().values()) and not machine.driver.violations


def variants(case: Case) -> tuple[Case, Case]:
    """The case, and with zeros for its parameters."""
    pushed = {b.name for b in case.program.buffers if b.is_push}
    zeros = {name: bytes(len(data)) if name in pushed else data for name, data in case.inputs.items()}
    return case, replace(case, inputs=zeros)


def dispatched(backend: Backend, case: Case) -> list[object]:
    return [run_on(backend, each) for each in islice(cycle(variants(case)), RUNS)]


def sequenced(backend: Backend, case: Case) -> list[object]:
    """Steps of both variants, each on any mixture of two sets of buffers, which each run goes on to change."""
    plan, choices = plan_bindings(case.program), Random(program_digest(case.program))
    lengths = tuple(len(case.inputs[plan.bindings[i].buffer.name]) for i in plan.inputs)
    sizes = resolve_launch(case.program, lengths, case.config, LaunchLimits("cuda-machine")).nbytes
    memory, found = backend.require_memory(), list[object]()
    with ExitStack() as stack:
        buffers = {
            (b.buffer.name, copy): stack.enter_context(memory.allocate(nbytes))
            for b, nbytes in zip(plan.bindings, sizes, strict=True)
            for copy in range(COPIES)
            if not b.buffer.is_push
        }
        data = {key: case.inputs.get(key[0], b"") for key in buffers}
        memory.upload([Upload(buffers[key], memoryview(each)) for key, each in data.items() if each])
        steps = []
        for each in variants(case) * 2:
            bound: list[Resource] = [
                memoryview(each.inputs[b.buffer.name])
                if b.buffer.is_push
                else buffers[b.buffer.name, choices.randrange(COPIES)]
                for b in plan.bindings
            ]
            steps.append(ResidentStep(case.program, tuple(bound), case.config))
        for k in range(RUNS):
            into = {key: bytearray(held.nbytes) for key, held in buffers.items()}
            reads = tuple(Readback(buffers[key], memoryview(each)) for key, each in into.items() if each)
            order = steps if k % 2 == 0 else steps[::-1]
            sequence = ResidentSequence(prefix=tuple(order[:1]), repeated=tuple(order), repeat_count=2, reads=reads)
            try:
                backend.require_resident_executor().run(sequence)
            except TrapError as error:
                found.append((error.tag, error.address, error.global_id))
            found.append({key: bytes(each) for key, each in into.items()})
    return found


@pytest.mark.parametrize("use", [dispatched, sequenced])
def test_replay_changes_no_byte(use: Use) -> None:
    replayed = dict.fromkeys(WAYS, 0)
    for seed in range(SEEDS):
        order = Order.ATOMIC if seed % 3 == 2 else Order.INDEPENDENT
        case = machine_case(seed, order)
        with opened(OFF) as plain:
            expected = use(plain.backend, case)
            assert plain.driver.calls["graph_create"] == 0
        if use is dispatched:
            assert expected[0] == reference(case)
        for name, options in WAYS.items():
            with opened(options) as machine:
                assert use(machine.backend, case) == expected, f"seed {seed}, {name}"
                replayed[name] += machine.driver.calls["graph_launch"]
    assert min(replayed.values()) > SEEDS // 4, replayed
