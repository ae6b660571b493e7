"""Padded grids: more workgroups are launched, and nothing else shows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import vyre
from vyre import DispatchConfig, ProgramBuilder, u32
from vyre.domain.errors import InvalidConfig
from vyre.domain.grid_sync import has_grid_barriers
from vyre.domain.ir.program import Program
from vyre.domain.padding import masked
from vyre.domain.tuning import PADDED, Candidate
from vyre.testing.random_programs.generator import generate

BACKENDS: Final = ("reference", "reference-scalar", "cpu", "cuda-machine")


def counted() -> Program:
    """Counts workgroups by an atomic behind a barrier, and stores their number along each axis."""
    with ProgramBuilder("counted", workgroup=4) as p:
        groups, sizes = p.inout("groups", u32), p.inout("sizes", u32)
        shared = p.workgroup("shared", u32, 4)
        shared[p.local_id()] = 1
        p.barrier()
        with p.if_(p.local_id() == 0):
            p.let(groups.atomic_add(0, shared[3]))
        for axis, number in enumerate((p.num_groups(0), p.num_groups(1), p.num_groups(2))):
            sizes[axis] = number
    return p.build()


@pytest.fixture(scope="module", params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Any:
    with vyre.open(request.param) as opened:
        yield opened


@pytest.mark.parametrize("grid", [(5,), (3, 5, 6), (4, 3), (8, 1, 2)])
def test_surplus_workgroups_do_nothing_and_are_not_counted(session: Any, grid: tuple[int, ...]) -> None:
    inputs = {"groups": np.zeros(1, np.uint32), "sizes": np.zeros(3, np.uint32)}
    found = session.dispatch(counted(), inputs, DispatchConfig(grid=grid, pad_grid=True))
    x, y, z = (*grid, 1, 1)[:3]
    assert found["groups"].tolist() == [x * y * z] and found["sizes"].tolist() == [x, y, z]
    assert found.launch.grid == tuple(1 << (count - 1).bit_length() for count in (x, y, z))


def added() -> Program:
    """y = x + 1, without a test of the length."""
    with ProgramBuilder("added", workgroup=4) as p:
        x, y = p.input("x", u32), p.inout("y", u32)
        y[p.global_id()] = x[p.global_id()] + p.num_groups()
    return p.build()


def test_steps_that_run_together_are_padded(session: Any) -> None:
    """The array is longer than the grid that was asked for, so that a surplus workgroup would show."""
    config, data = DispatchConfig(extent=12, pad_grid=True), np.arange(40, dtype=np.uint32)
    with session.resident(data) as x, session.resident(np.zeros(40, np.uint32)) as y, session.resident(4) as flag:
        steps = [vyre.Step(added(), {"x": x, "y": y}, config), vyre.Step(added(), {"x": y, "y": x}, config)]
        session.sequence(steps, modes={"fused": True})(2)
        assert x.download().tolist() == [*(data[:12] + 12), *data[12:]] and not y.download()[12:].any()
        for executor in ("polled", "unrolled_graph"):
            x.upload(data)
            session.fixpoint(steps, changed=flag.view(dtype=u32), limit=2, executor=executor)()
            assert x.download().tolist() == [*(data[:12] + 6), *data[12:]]


def test_random_programs_have_the_same_bytes() -> None:
    padded = 0
    with vyre.open("reference") as session:
        for seed in range(20):
            case = generate(seed)
            config = replace(case.config, grid=(3, 1, 1), extent=None, element_count_override=None)
            wide_config = replace(config, pad_grid=True)
            if has_grid_barriers(case.program) or config.step_budget is not None:
                continue
            padded += 1
            plain = session.dispatch(case.program, case.inputs, config)
            wide = session.dispatch(case.program, case.inputs, wide_config)
            assert [each.tobytes() for each in wide] == [each.tobytes() for each in plain], case
    assert padded > 9


def test_what_has_no_given_grid_or_barriers_of_the_grid_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"the grid follows from the lengths of arrays\. Fix: give"):
        masked(added(), DispatchConfig(pad_grid=True))
    with ProgramBuilder("meeting", workgroup=4) as p:
        y = p.inout("y", u32)
        y[0] = 1
        p.grid_sync()
    meeting = p.build()
    with pytest.raises(InvalidConfig, match="has barriers of the grid"):
        masked(meeting, DispatchConfig(grid=3, pad_grid=True))
    assert masked(added(), DispatchConfig(grid=4, pad_grid=True)) == added()
    assert masked(added(), DispatchConfig(extent=0, pad_grid=True)) == added()
    assert masked(added(), DispatchConfig(element_count_override=9, pad_grid=True)) != added()


def test_the_tuner_tries_padded_grids(tmp_path: Path) -> None:
    inputs = {"x": np.arange(40, dtype=np.uint32), "y": np.zeros(40, np.uint32)}
    with ProgramBuilder("halved", workgroup=8) as p:
        x, y = p.input("x", u32), p.inout("y", u32)
        i = p.global_id()
        with p.if_(i < 12):
            y[i] = x[i] // 2
    halved = p.build()
    with vyre.open("cuda-machine", cache=tmp_path) as session:
        report = session.tune(halved, inputs, DispatchConfig(extent=24))
        assert Candidate(8, PADDED) in report.candidates and Candidate(4, PADDED) not in report.candidates
        assert not any(each.profile == PADDED for each in session.tune(halved, inputs).candidates)
        assert str(Candidate(8, PADDED)) == "workgroup 8, padded grid"
