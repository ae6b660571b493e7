"""What a tuner may vary on a CUDA device, and what it goes by: on the emulated one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre
from support.small_programs import saxpy_program, square_program
from vyre import DispatchConfig, Program, ProgramBuilder, u32
from vyre.adapters.cuda import ids
from vyre.adapters.cuda.ptx.kernel import ParameterKind
from vyre.adapters.cuda.ptx.options import PROFILES
from vyre.adapters.cuda.runtime.arena import ARENA_FACTS
from vyre.adapters.cuda.runtime.backend import make_backend
from vyre.adapters.cuda.runtime.executor import CudaExecutor
from vyre.adapters.source_digest import emitter_digest
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.interface import resolve_launch
from vyre.domain.launch import Launch
from vyre.domain.tuning import TimeKind
from vyre.ports.tunable import Tunable
from vyre.testing.machine import CudaMachine, cuda_machine

USUAL = DispatchConfig()
X = np.arange(1000, dtype=np.uint32)


@pytest.fixture
def machine() -> CudaMachine:
    return cuda_machine()


def tunable_of(machine: CudaMachine) -> Tunable:
    assert machine.backend.tunable is not None
    return machine.backend.tunable


def launched(machine: CudaMachine, program: Program, elements: int, config: DispatchConfig = USUAL) -> Launch:
    lengths = tuple(4 if b.is_push else 4 * elements for b in program.abi_buffers if b.takes_input)
    return resolve_launch(program, lengths, config, machine.backend.profile.launch_limits())


def profiles(machine: CudaMachine, program: Program, elements: int) -> set[str]:
    return set(tunable_of(machine).profiles(program, USUAL, launched(machine, program, elements)))


def test_an_emulated_device_only_estimates(machine: CudaMachine) -> None:
    assert tunable_of(machine).kind is TimeKind.ESTIMATED
    real = make_backend(machine.driver, ids.CUDA).tunable
    assert real is not None
    assert (real.kind, real.work_done()) == (TimeKind.DEVICE, 0)


def test_what_decides_about_times_is_named(machine: CudaMachine) -> None:
    tunable = tunable_of(machine)
    name, _, uuid = tunable.device.rpartition(" ")
    assert name == "Emulated H200"
    assert len(bytes.fromhex(uuid)) == 16
    assert tunable.driver.isdigit()
    assert tunable.versions == f"emitter {emitter_digest().hex()}"


def test_work_grows_with_what_is_done(machine: CudaMachine) -> None:
    tunable = tunable_of(machine)
    with machine.open() as session:
        spent = []
        for elements in (64, 128, 128):
            before = tunable.work_done()
            session.dispatch(square_program(), {"x": X[:elements]})
            spent.append(tunable.work_done() - before)
    assert 0 < spent[0] < spent[1] == spent[2]


def test_only_profiles_that_give_other_code_are_offered(machine: CudaMachine) -> None:
    assert profiles(machine, square_program(), 1000) == {"no-bounds-checks"}
    with ProgramBuilder("divides", workgroup=64) as p:
        x = p.inout("x", u32)
        i = p.global_id()
        with p.if_(i < x.length):
            x[i] = x[i] // 7
    assert "no-constant-division" in profiles(machine, p.build(), 1000)


def test_an_exact_grid_is_offered_where_the_launch_is_exact(machine: CudaMachine) -> None:
    assert "exact-grid" in profiles(machine, saxpy_program(), 1024)
    assert "exact-grid" not in profiles(machine, saxpy_program(), 1000)


@pytest.mark.parametrize("profile", ["no-assumptions", "pointer-table", "no-pointer-table"])
def test_what_is_hardly_ever_faster_is_not_offered(profile: str, machine: CudaMachine) -> None:
    assert profile in PROFILES
    assert profile not in profiles(machine, saxpy_program(), 1024)


def four_at_once() -> Program:
    """Reads and writes 16 bytes at a time, where it may."""
    with ProgramBuilder("four", workgroup=32) as p:
        x, y = p.input("x", u32, 128), p.output("y", u32, 128)
        first = p.let(p.global_id() * 4)
        parts = [p.let(x[first + k]) for k in range(4)]
        for k in range(4):
            y[first + k] = parts[3 - k]
    return p.build()


@pytest.mark.parametrize(
    ("profile", "table", "assumes"),
    [
        (None, False, True),
        ("pointer-table", True, True),
        ("no-pointer-table", False, True),
        ("no-assumptions", False, False),
    ],
)
@pytest.mark.parametrize("resident", [False, True])
def test_a_profile_forces_a_decision(
    profile: str | None, table: bool, assumes: bool, resident: bool, machine: CudaMachine
) -> None:
    program, config = four_at_once(), DispatchConfig(profile=profile)
    executor, launch = machine.backend.executor, launched(machine, program, 128, config)
    assert isinstance(executor, CudaExecutor)
    pipeline = executor.pipeline(program, config)[0]
    with machine.open() as session:
        session.dispatch(program, {"x": np.arange(128, dtype=np.uint32)}, config)
        if resident:
            module = pipeline.module_for(launch.grid, ARENA_FACTS, inline_uniforms=True)
        else:
            module = pipeline._module(pipeline.options_for(launch))
        kernel = module.kernels[0].emitted
    assert any(parameter.kind is ParameterKind.TABLE for parameter in kernel.parameters) is table
    assert bool(kernel.assumes) is assumes


def test_more_parameters_than_the_driver_takes_are_refused(machine: CudaMachine) -> None:
    with ProgramBuilder("wide", workgroup=32) as p:
        total = p.var(u32(0))
        for buffer in [p.input(f"x{n}", u32, 32) for n in range(2800)]:
            total.assign(total + buffer[p.global_id()])
        p.output("out", u32, 32)[p.global_id()] = total
    with machine.open() as session, pytest.raises(UnsupportedFeature, match="exceed the"):
        session.dispatch(p.build(), [np.zeros(32, np.uint32)] * 2800, DispatchConfig(profile="no-pointer-table"))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("elements", "of_x"), [(1000, 1000), (1024, 1024), (1024, 10), (64, 1024)])
def test_no_profile_changes_a_byte(profile: str, elements: int, of_x: int, machine: CudaMachine) -> None:
    inputs: dict[str, Any] = {"a": 3.0, "x": np.arange(of_x, dtype=np.float32), "y": np.ones(elements, np.float32)}
    with machine.open() as session, vyre.open("reference", cache=False) as reference:
        found = session.dispatch(saxpy_program(), inputs, DispatchConfig(profile=profile))
        assert found["y"].tobytes() == reference.dispatch(saxpy_program(), inputs)["y"].tobytes()


@pytest.mark.parametrize("size", [32, 64, 1024])
def test_occupancy_is_a_share_of_what_a_multiprocessor_holds(size: int, machine: CudaMachine) -> None:
    config = DispatchConfig(workgroup=(size, 1, 1))
    launch = launched(machine, square_program(), 1000, config)
    found = tunable_of(machine).occupancy_bps(square_program(), config, launch)
    assert found is not None
    assert 0 < found <= 10_000
    if size == 32:
        assert found < 10_000, "too few workgroups are resident for so small ones"
