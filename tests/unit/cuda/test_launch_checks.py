"""No shape is launched that was not diagnosed, and one that the device cannot run is refused with every reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

import vyre
from support.limits import LIMIT_S
from vyre import DecisionJournal, DeviceLimitExceeded, DispatchConfig, Program, ProgramBuilder, u32
from vyre.adapters.cuda import ids
from vyre.adapters.cuda.machine.driver import MachineDriver
from vyre.adapters.cuda.machine.options import MachineOptions
from vyre.adapters.cuda.machine.presets import H200, REGISTERS, TINY, DevicePreset
from vyre.adapters.cuda.ptx.kernel import EmittedKernel
from vyre.adapters.cuda.registration import CUDA_MACHINE
from vyre.adapters.cuda.runtime.backend import make_backend
from vyre.adapters.cuda.runtime.device import CudaDevice, CudaOptions
from vyre.adapters.cuda.runtime.launch import check_launch
from vyre.adapters.cuda.runtime.loaded import LoadedKernel
from vyre.adapters.cuda.seam import KernelFacts, LaunchShape
from vyre.app.resident import ResidentArray
from vyre.app.sequences.steps import Step
from vyre.domain.names import Dim3
from vyre.policies.devices.occupancy import ShapeDiagnosisInputs, diagnose_shape
from vyre.policies.launching.grid_sync_mode import GridSyncMode
from vyre.ports.backend import Backend, BackendCatalog, BackendServices
from vyre.testing import cuda_machine

WORDS: Final = np.arange(64, dtype=np.uint32)
RESIDENT: Final = 3
"""Blocks that a multiprocessor is said to hold."""


class Told(MachineDriver):
    """Takes any kernel for one of which so many fit."""

    def occupancy(self, kernel: int, threads: int, dynamic_shared: int) -> int:
        return RESIDENT


def device_of(preset: DevicePreset) -> CudaDevice:
    device = CudaDevice(Told(MachineOptions(preset=preset)), backend=ids.MACHINE)
    device.prepare()
    return device


def kernel(block: Dim3 = (32, 1, 1), shared: int = 0, registers: int = 32) -> LoadedKernel:
    emitted = EmittedKernel("vy_0", block, (), 0, shared, 0, False, (), ())
    return LoadedKernel(1, emitted, KernelFacts(registers, shared, 0, 0, 64, 78, 90, None))


def shape(grid: Dim3 = (1, 1, 1), block: Dim3 = (32, 1, 1), shared: int = 0, *, together: bool = False) -> LaunchShape:
    return LaunchShape(grid, block, shared, together)


FITS: Final = RESIDENT * TINY.multiprocessors
BLOCKS: Final = "cooperative_residency=blocked"
REFUSED: Final[dict[str, tuple[LoadedKernel, LaunchShape, str]]] = {
    "block along x": (kernel((65, 1, 1)), shape(block=(65, 1, 1)), "block_x(requested=65,max=64)"),
    "block along y": (kernel((1, 33, 1)), shape(block=(1, 33, 1)), "block_y(requested=33,max=32)"),
    "block along z": (kernel((1, 1, 17)), shape(block=(1, 1, 17)), "block_z(requested=17,max=16)"),
    "lanes": (kernel((13, 5, 1)), shape(block=(13, 5, 1)), "threads_per_block(requested=65,max=64)"),
    "grid along x": (kernel(), shape((4097, 1, 1)), "grid_x(requested=4097,max=4096)"),
    "grid along y": (kernel(), shape((1, 65, 1)), "grid_y(requested=65,max=64)"),
    "grid along z": (kernel(), shape((1, 1, 65)), "grid_z(requested=65,max=64)"),
    "dynamic shared memory": (kernel(), shape(shared=12_289), "shared_memory(requested=12289,max=12288)"),
    "both kinds of it": (kernel(shared=12_000), shape(shared=289), "shared_memory(requested=12289,max=12288)"),
    "registers": (
        kernel(registers=REGISTERS // 32 + 1),
        shape(),
        f"registers_per_block(requested={REGISTERS + 32},max={REGISTERS})",
    ),
    "blocks at once": (kernel(), shape((FITS + 1, 1, 1), together=True), f"{BLOCKS}(required={FITS + 1},limit={FITS})"),
}


@pytest.mark.parametrize("limit", REFUSED)
def test_what_is_above_a_limit_is_refused_with_the_diagnosis(limit: str) -> None:
    held, asked, why = REFUSED[limit]
    with pytest.raises(DeviceLimitExceeded) as refused:
        check_launch(device_of(TINY), held, asked)
    diagnosis, *_ = refused.value.__notes__
    assert f"|kernel=vy_0|status={'ok' if BLOCKS in why else 'blocked'}" in diagnosis
    assert why in diagnosis and refused.value.fix
    for number in re.findall(r"=(\d+)", why):
        assert re.search(rf"\b{number}\b", refused.value.message), "the message tells what is asked and what there is"


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        (kernel((64, 1, 1)), shape((4096, 1, 1), (64, 1, 1))),
        (kernel((1, 32, 2)), shape((1, 64, 64), (1, 32, 2))),
        (kernel(shared=12_000), shape(shared=288)),
        (kernel(registers=REGISTERS // 32), shape()),
        (kernel(), shape((FITS, 1, 1), together=True)),
    ],
    ids=["x", "y and z", "shared memory", "registers", "blocks at once"],
)
def test_what_reaches_it_is_not(held: LoadedKernel, asked: LaunchShape) -> None:
    check_launch(device_of(TINY), held, asked)


def test_every_reason_is_told_at_once() -> None:
    device = device_of(replace(TINY, cooperative=False))
    asked = shape((4097, 1, 1), (65, 1, 1), 20_000, together=True)
    with pytest.raises(DeviceLimitExceeded) as refused:
        check_launch(device, kernel((65, 1, 1)), asked)
    for why in ("block_x", "grid_x", "threads_per_block", "shared_memory", "cooperative_launch", BLOCKS):
        assert why in refused.value.__notes__[0]


# ---- every way to launch
def mirror() -> Program:
    """In two parts, between which the whole grid waits."""
    with ProgramBuilder("mirror", workgroup=32) as p:
        x, y = p.inout("x", u32), p.inout("y", u32)
        i = p.global_id()
        with p.if_(i < x.length):
            x[i] = x[i] + 1
        p.grid_sync()
        with p.if_(i < x.length):
            y[i] = y[i] + x[x.length - 1 - i]
    return p.build()


def greedy(words: int) -> Program:
    with ProgramBuilder("greedy", workgroup=32) as p:
        y = p.inout("y", u32)
        shared = p.workgroup("shared", u32, words)
        shared[p.local_id()] = y[p.global_id()]
        p.barrier()
        y[p.global_id()] = shared[31 - p.local_id()]
    return p.build()


def dispatched(session: vyre.Session, program: Program, config: DispatchConfig) -> None:
    session.dispatch(program, [WORDS] * len(program.abi_buffers), config)


def submitted(session: vyre.Session, program: Program, config: DispatchConfig) -> None:
    session.submit(program, [WORDS] * len(program.abi_buffers), config).result(LIMIT_S)


@contextmanager
def held(session: vyre.Session, program: Program) -> Iterator[list[ResidentArray]]:
    with ExitStack() as stack:
        yield [stack.enter_context(session.resident(WORDS)) for _ in program.abi_buffers]


def on_resident_memory(session: vyre.Session, program: Program, config: DispatchConfig) -> None:
    with held(session, program) as arrays:
        session.dispatch(program, arrays, config)


def bound(session: vyre.Session, program: Program, config: DispatchConfig) -> None:
    with held(session, program) as arrays, session.bind_resident(program, arrays, config) as launch:
        launch()


def in_sequence(session: vyre.Session, program: Program, config: DispatchConfig) -> None:
    with held(session, program) as arrays:
        session.sequence([Step(program, arrays, config)])(rounds=3)


WAYS: Final = {
    "dispatch": dispatched,
    "submit": submitted,
    "resident": on_resident_memory,
    "bound": bound,
    "sequence": in_sequence,
}
Way = Callable[[vyre.Session, Program, DispatchConfig], None]


@pytest.mark.parametrize("preset", [TINY, H200], ids=["tiny", "h200"])
@pytest.mark.parametrize("way", WAYS)
def test_workgroup_memory_that_the_device_has_not_is_refused_by_every_way_to_launch(
    way: str, preset: DevicePreset
) -> None:
    """Also where the driver would have to be asked for more than every device has."""
    most = preset.sm.shared_bytes_per_block
    machine = cuda_machine(preset=preset)
    with machine.open() as session:
        for nbytes in (most, most + 4, 300_000):
            if nbytes <= most:
                WAYS[way](session, greedy(nbytes // 4), DispatchConfig())
                continue
            with pytest.raises(DeviceLimitExceeded, match="workgroup memory in bytes") as refused:
                WAYS[way](session, greedy(nbytes // 4), DispatchConfig())
            assert refused.value.message.endswith(f"; backend `{machine.backend.id}` allows {most}")
    assert not any(machine.driver.live().values()) and not machine.driver.violations


@pytest.fixture
def journal() -> DecisionJournal:
    return DecisionJournal()


def opened(journal: DecisionJournal, driver: MachineDriver, options: CudaOptions) -> vyre.Session:
    def make(services: BackendServices) -> Backend:
        return make_backend(driver, ids.MACHINE, replace(options, exports=False), services, work_done=lambda: 0)

    catalog = BackendCatalog((replace(CUDA_MACHINE, factory=make),))
    return vyre.open(ids.MACHINE, catalog=catalog, cache=False, journal=journal)


def shapes(driver: MachineDriver) -> Iterator[tuple[Dim3, Dim3, bool]]:
    for call in driver.trace:
        asked: Any = call.arguments.get("shape")
        if asked is not None:
            yield asked.grid, asked.block, asked.cooperative


@pytest.mark.parametrize("mode", GridSyncMode)
@pytest.mark.parametrize("graph_after", [None, 0])
@pytest.mark.parametrize("way", WAYS)
def test_no_shape_is_launched_that_was_not_diagnosed(
    way: str, graph_after: int | None, mode: GridSyncMode, journal: DecisionJournal
) -> None:
    driver = MachineDriver(MachineOptions(trace=True))
    with opened(journal, driver, CudaOptions(graph_after=graph_after, grid_sync=mode)) as session:
        for size in (32, 64):
            for _ in range(2):
                WAYS[way](session, mirror(), DispatchConfig(workgroup=(size, 1, 1)))
        if way == "dispatch" and (graph_after is None) is (mode is GridSyncMode.SPLIT):  # each of both in some runs
            session.calibrate(rounds=5)
    asked = [decision.arguments[0] for decision in journal.decisions if decision.policy is diagnose_shape]
    diagnosed = {
        (a.shape.grid, a.shape.block, a.shape.cooperative) for a in asked if isinstance(a, ShapeDiagnosisInputs)
    }
    launched = set(shapes(driver))
    assert launched <= diagnosed and len(launched) >= 2
