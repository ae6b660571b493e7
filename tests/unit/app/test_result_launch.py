"""``Result.launch``: the geometry of the launch and the rule that chose the grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import numpy as np
import pytest

import vyre
from vyre import DeviceLimitExceeded, DispatchConfig, GridRule, InvalidConfig, Program, ProgramBuilder, u32

X = np.arange(100, dtype=np.uint32)


def folded(*, barrier: bool, atomics: bool = False, returned: bool = True) -> Program:
    """Takes 100 elements; returns ten, one or none."""
    with ProgramBuilder("folded", workgroup=8) as p:
        x = p.input("x", u32)
        y = p.output("y", u32, 10) if returned else None
        i = p.let(p.global_id(), "i")
        if barrier:
            shared = p.workgroup("shared", u32, 8)
            shared[p.local_id()] = x[i]
            p.barrier()
        if y is not None:
            with p.if_(i < 10):
                if atomics:
                    y.atomic_add(i, x[i])
                else:
                    y[i] = x[i]
    return p.build()


@pytest.fixture(scope="module")
def session() -> Iterator[vyre.Session]:
    with vyre.open("reference") as opened:
        yield opened


@pytest.mark.parametrize(
    ("program", "config", "grid", "extent", "rule"),
    [
        (folded(barrier=False), {}, (2, 1, 1), (10,), GridRule.LARGEST_OUTPUT),
        (folded(barrier=True), {}, (13, 1, 1), (100,), GridRule.LARGEST_BUFFER),
        (folded(barrier=False, atomics=True), {}, (13, 1, 1), (100,), GridRule.LARGEST_BUFFER),
        (folded(barrier=False, returned=False), {}, (13, 1, 1), (100,), GridRule.NOTHING_RETURNED),
        (folded(barrier=True), {"extent": 20}, (3, 1, 1), (20,), GridRule.GIVEN_EXTENT),
        (folded(barrier=True), {"grid": (4,)}, (4, 1, 1), None, GridRule.GIVEN_GRID),
        (
            folded(barrier=True),
            {"config": DispatchConfig(element_count_override=17)},
            (3, 1, 1),
            (17,),
            GridRule.GIVEN_COUNT,
        ),
        (
            folded(barrier=False),
            {"config": DispatchConfig(workgroup=(5, 1, 1))},
            (2, 1, 1),
            (10,),
            GridRule.LARGEST_OUTPUT,
        ),
    ],
)
def test_it_names_the_grid_and_the_rule_that_chose_it(
    session: vyre.Session,
    program: Program,
    config: dict[str, object],
    grid: tuple[int, int, int],
    extent: tuple[int, ...] | None,
    rule: GridRule,
) -> None:
    launch = session.dispatch(program, {"x": X}, **config).launch  # type: ignore[arg-type]  # keywords of dispatch
    assert (launch.grid, launch.extent, launch.rule) == (grid, extent, rule)
    assert str(launch).endswith(str(rule))


def test_it_follows_the_lengths_of_the_inputs_and_is_one_object_for_equal_ones(session: vyre.Session) -> None:
    pipeline = session.compile(folded(barrier=True))
    results = [pipeline({"x": X[:count]}) for count in (8, 9, 9, 8)]
    assert [result.launch.grid[0] for result in results] == [2, 2, 2, 2]  # ten elements are returned
    results = [pipeline({"x": X[:count]}) for count in (50, 90, 90)]
    assert [result.launch.extent for result in results] == [(50,), (90,), (90,)]
    assert results[1].launch is results[2].launch


def test_it_is_a_sentence() -> None:
    with vyre.open("reference") as session:
        launch = session.dispatch(folded(barrier=True), {"x": X}).launch
    assert str(launch) == (
        "13x1x1 workgroups of 8x1x1 lanes for 100 lanes. The grid covers the largest buffer of any kind, because the "
        "program uses workgroup memory or atomics."
    )


def test_resident_memory_counts_with_its_own_length(session: vyre.Session) -> None:
    with session.resident(X) as held:
        launch = session.dispatch(folded(barrier=True), {"x": held}).launch
    assert (launch.grid, launch.rule) == ((13, 1, 1), GridRule.LARGEST_BUFFER)


@pytest.mark.parametrize("grid", [(65_536, 65_536), (2**31 - 1, 2**31 - 1, 4), (2**31 - 1,) * 3], ids=str)
@pytest.mark.parametrize("barrier", [False, True])
def test_grids_that_no_device_can_run_are_refused_as_they_were_written(grid: tuple[int, ...], barrier: bool) -> None:
    with vyre.ProgramBuilder("huge", workgroup=1) as p:
        y = p.inout("y", vyre.u32)
        y[p.global_id(2)] = p.global_id(1)
        if barrier:
            p.grid_sync()
            y[p.global_id(2)] = p.global_id(0)
    program = p.build()
    for backend in ("cuda-machine", "cpu") if prod(grid) >= 2**64 else ("cuda-machine",):
        with vyre.open(backend, cache=False) as session:
            uses: list[Callable[[], object]] = [
                lambda: session.dispatch(program, {"y": X}, grid=grid),
                lambda: session.submit(program, {"y": X}, grid=grid).result(),
                lambda: session.explain(program, DispatchConfig(grid=grid)),
            ]
            error, said = (DeviceLimitExceeded, "that has") if backend == "cuda-machine" else (InvalidConfig, "has")
            for use in uses:
                with pytest.raises(error, match=rf"grid {said} {grid[0]}x{grid[1]}x.*Fix: use at most \d"):
                    use()
