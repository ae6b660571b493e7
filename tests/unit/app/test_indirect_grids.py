"""Launches that find their grids in memory: what they run, and what becomes of counts that are too many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from support.fixed_points import keep_resident_arrays, keeping_session
from support.llvm import NEEDS_LLVM
from vyre import (
    GridOverflow,
    In,
    Indirect,
    InOut,
    InvalidConfig,
    InvalidInput,
    InvalidResource,
    Out,
    PlanError,
    ProgramBuilder,
    Session,
    Step,
    TrapError,
    UnsupportedFeature,
    VyreError,
    like,
    u32,
)

Words: TypeAlias = npt.NDArray[np.uint32]
BACKENDS: Final = ["reference", "reference-scalar", pytest.param("cpu", marks=NEEDS_LLVM), "cuda-machine"]
N: Final = 40
MOST: Final = 10
MODES: Final[tuple[dict[str, bool] | None, ...]] = (
    None,
    {"plain": True},
    {"graph": True},
    {"fused": True},
    {"megakernel": True},
    {"persistent": True},
)


@vyre.kernel(workgroup=4)
def sized(wanted: In[u32], grid: InOut[u32]) -> None:
    i = vyre.global_id()
    if i < len(grid):
        grid[i] = wanted[i]


@vyre.kernel(workgroup=4)
def marked(y: InOut[u32]) -> None:
    i = vyre.global_id()
    if i < len(y):
        y[i] = y[i] + vyre.num_groups() + 100


@vyre.kernel(workgroup=4)
def trapping(x: In[u32]) -> None:
    if x[0] == 7:
        vyre.trap(x[0], "seven")


@vyre.kernel(workgroup=(4, 2))
def tiles(x: In[u32, 2], y: Out[u32, 2, like("x")]) -> None:  # type: ignore[valid-type]  # axes are no types
    i, j = vyre.global_id(0), vyre.global_id(1)
    y[j, i] = x[j, i] + 1


@pytest.fixture(scope="module", params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with keeping_session(request.param, cache=False) as opened:
        yield opened


def words(*values: int) -> Words:
    return np.array(values, np.uint32)


def marks(groups: int, times: int = 1) -> Words:
    """What ``marked`` leaves of zeros."""
    found = np.zeros(N, np.uint32)
    found[: 4 * groups] = times * (100 + groups)
    return found


def test_a_step_sizes_the_next_one_in_every_mode(session: Session) -> None:
    ran = 0
    for modes in MODES:
        wanted, y = session.resident(words(3, 1, 1)), session.resident(np.zeros(N, np.uint32))
        grid = session.temporary(u32, 3) if modes is None else session.resident(np.zeros(3, np.uint32))
        steps = [
            Step(sized, {"wanted": wanted, "grid": grid}),
            Step(marked, {"y": y}, grid=Indirect(grid, MOST)),
        ]
        try:
            sequence = session.sequence(steps, modes=modes)
        except UnsupportedFeature:
            continue
        ran += 1
        sequence(2)
        np.testing.assert_array_equal(y.download(), marks(3, 2))
        for groups in (0, MOST):
            y.upload(np.zeros(N, np.uint32))
            wanted.upload(words(groups, 1, 1))
            sequence()
            np.testing.assert_array_equal(y.download(), marks(groups))
        wanted.upload(words(MOST + 1, 1, 1))
        y.upload(np.zeros(N, np.uint32))
        with pytest.raises(GridOverflow) as caught:
            sequence(2)
        assert (caught.value.step, caught.value.counts) == ("steps[1] (`marked`)", (MOST + 1, 1, 1))
        assert caught.value.most == (MOST, 1, 1) and "vyre.Indirect" in caught.value.fix
        assert any("sequence=" in note for note in caught.value.__notes__)
        assert not y.download().any()
        wanted.upload(words(1, 1, 1))
        sequence()  # what the failed run has recorded is forgotten
        np.testing.assert_array_equal(y.download(), marks(1))
    assert ran >= (5 if session.backend == "cpu" else 4)


def test_a_run_that_fails_otherwise_leaves_no_record(session: Session) -> None:
    x, grid, y = session.resident(words(7)), session.resident(words(9, 9, 9)), session.resident(np.zeros(N, np.uint32))
    sequence = session.sequence([Step(marked, {"y": y}, grid=Indirect(grid, MOST)), Step(trapping, {"x": x}, grid=1)])
    with pytest.raises(TrapError):
        sequence()
    x.upload(words(0))
    grid.upload(words(2, 1, 1))
    sequence()
    np.testing.assert_array_equal(y.download(), marks(2))


def test_the_first_of_several_is_named_and_the_others_run(session: Session) -> None:
    few, many = session.resident(words(1, 1, 1)), session.resident(words(1, 2, 1))
    ys = [session.resident(np.zeros(N, np.uint32)) for _ in range(3)]
    grids = (Indirect(many, MOST), Indirect(few, MOST), Indirect(many, (MOST, 1)))
    sequence = session.sequence([Step(marked, {"y": y}, grid=grid) for y, grid in zip(ys, grids, strict=True)])
    with pytest.raises(GridOverflow, match="1 x 2 x 1 workgroups in memory, and 10 x 1 x 1 are") as caught:
        sequence()
    assert caught.value.step.startswith("steps[0]")
    assert [int(y.download().sum()) for y in ys] == [0, 4 * 101, 0]


# ---------------------------------------------------------------- fixed points
@vyre.kernel(workgroup=4)
def grown(done: InOut[u32], grid: In[u32], next_grid: InOut[u32], changed: InOut[u32]) -> None:
    """A round marks one workgroup more than the round before, until all have run."""
    i = vyre.global_id()
    if i < len(done):
        done[i] = done[i] + 1
    if i == 0:
        next_grid[0] = min(grid[0] + 1, 5)
        if grid[0] < 5:
            changed[0] = 1


@vyre.kernel(workgroup=4)
def taken(next_grid: In[u32], grid: InOut[u32]) -> None:
    if vyre.global_id() == 0:
        grid[0] = next_grid[0]


def test_the_rounds_of_a_fixed_point_grow(session: Session) -> None:
    ran = 0
    for executor in (None, *vyre.FixpointExecutor):
        done, changed = session.resident(np.zeros(20, np.uint32)), session.resident(words(0))
        grid, following = session.resident(words(1, 1, 1)), session.resident(words(1, 1, 1))
        counts = session.resident(words(1, 1, 1))
        steps = [
            Step(
                grown,
                {"done": done, "grid": grid, "next_grid": following, "changed": changed},
                grid=Indirect(counts, 5),
            ),
            Step(taken, {"next_grid": following, "grid": grid}),
            Step(taken, {"next_grid": following, "grid": counts}),
        ]
        try:
            found = session.fixpoint(steps, changed=changed, limit=20, executor=executor)
        except PlanError:
            continue
        ran += 1
        result = found()
        assert (result.iterations, result.converged) == (5, True)
        np.testing.assert_array_equal(done.download(), np.repeat(words(5, 4, 3, 2, 1), 4))
        following.upload(words(6, 1, 1))
        counts.upload(words(6, 1, 1))
        with pytest.raises(GridOverflow, match="grown"):
            found()
    assert ran >= 3


# ---------------------------------------------------------------- single launches
def test_a_dispatch_and_a_bound_launch(session: Session) -> None:
    grid, y = session.resident(words(8, 8, 2, 1, 1)), session.resident(np.zeros(N, np.uint32))
    part = Indirect(grid[2:], MOST)
    result = session.dispatch(marked, {"y": np.zeros(N, np.uint32)}, grid=part)
    assert result.keys() == ("y",)
    np.testing.assert_array_equal(result["y"], marks(2))
    with pytest.raises(GridOverflow, match="`marked` found 8 x 2 x 1"):
        session.dispatch(marked.program, [np.zeros(N, np.uint32)], grid=Indirect(grid[1:], (MOST, 1, 1)))
    with session.bind_resident(marked, {"y": y}, grid=part) as bound:
        bound()
        bound.launch()
        np.testing.assert_array_equal(y.download(), marks(2, 2))
        grid.upload(words(8, 8, MOST + 1, 1, 1))
        with pytest.raises(GridOverflow):
            bound.launch()
        grid.upload(words(8, 8, 2, 1, 1))
        bound()
    np.testing.assert_array_equal(y.download(), marks(2, 3))


def test_outputs_keep_their_shapes_and_begin_as_zeros(session: Session) -> None:
    x = np.arange(32, dtype=np.uint32).reshape(4, 8)
    result = session.dispatch(tiles, {"x": x}, grid=Indirect(session.resident(words(1, 2, 1)), (2, 2)))
    wanted = np.zeros_like(x)
    wanted[:, :4] = x[:, :4] + 1
    np.testing.assert_array_equal(result["y"], wanted)


# ---------------------------------------------------------------- what is refused
def waiting() -> vyre.Program:
    with ProgramBuilder("waiting", workgroup=4) as p:
        y = p.inout("y", u32)
        y[p.global_id()] = 1
        p.grid_sync()
        y[p.global_id()] = y[0] + 1
    return p.build()


def asking() -> vyre.Program:
    return vyre.Program.from_text("workgroup_size 4, 1, 1 buffer x @0 read u32[3] body { indirect_dispatch(x, 0) }")


def closed(session: Session) -> vyre.ResidentArray:
    array = session.resident(words(1, 1, 1))
    array.close()
    return array


def foreign(_: Session) -> vyre.ResidentArray:
    with vyre.open("reference", cache=False) as other:
        return other.resident(words(1, 1, 1))


REFUSED: Final[dict[str, tuple[type[VyreError], str, Callable[[Session, Any], object]]]] = {
    "host data": (InvalidInput, "counts", lambda s, y: Indirect(words(1, 1, 1), 4)),  # type: ignore[arg-type]
    "other elements": (InvalidInput, "counts", lambda s, y: Indirect(s.resident(np.ones(3, np.int32)), 4)),
    "too few": (InvalidInput, "counts", lambda s, y: Indirect(s.resident(words(1, 1, 1, 1))[2:], 4)),
    "between elements": (InvalidInput, "multiple of 4", lambda s, y: s.resident(18)[2:].view(0, 3, u32)),
    "no most": (InvalidConfig, "most", lambda s, y: Indirect(s.resident(words(1, 1, 1)), 0)),
    "four axes": (InvalidConfig, "most", lambda s, y: Indirect(s.resident(words(1, 1, 1)), (1, 1, 1, 1))),
    "closed": (InvalidResource, "grid_counts", lambda s, y: run(s, y, closed(s))),
    "of another session": (InvalidResource, "grid_counts|another session", lambda s, y: run(s, y, foreign(s))),
    "written by the launch": (InvalidResource, "`y` and `grid_counts`", lambda s, y: run(s, y, y)),
    "written in part": (InvalidResource, "`y` and `grid_counts`", lambda s, y: run(s, y, y[N - 3 :])),
    "temporary": (InvalidResource, "no memory", lambda s, y: run(s, y, s.temporary(u32, 3))),
    "too many lanes": (
        InvalidConfig,
        "32 bits",
        lambda s, y: s.dispatch(marked.program, [y], grid=Indirect(s.resident(words(1, 1, 1)), 1 << 31)),
    ),
    "an extent beside it": (
        InvalidConfig,
        "grid and extent",
        lambda s, y: s.dispatch(marked, {"y": y}, grid=Indirect(s.resident(words(1, 1, 1)), 4), extent=4),
    ),
    "grid barriers": (
        InvalidInput,
        "barriers of the whole grid",
        lambda s, y: s.dispatch(waiting(), {"y": y}, grid=Indirect(s.resident(words(1, 1, 1)), 4)),
    ),
    "the statement": (UnsupportedFeature, r"grid=vyre.Indirect\(counts, most\)", lambda s, y: s.compile(asking())),
    "no program": (
        InvalidInput,
        "program",
        lambda s, y: s.dispatch(3, {}, grid=Indirect(s.resident(words(1, 1, 1)), 4)),  # type: ignore[arg-type]
    ),
    "nothing to bind it to": (
        InvalidConfig,
        "Indirect",
        lambda s, y: s.compile(marked, grid=Indirect(s.resident(words(1, 1, 1)), 4)),  # type: ignore[arg-type]
    ),
}


def run(session: Session, y: vyre.ResidentArray, counts: vyre.ResidentArray) -> None:
    session.dispatch(marked, {"y": y}, grid=Indirect(counts, 4))


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_resident_arrays(monkeypatch)
    kind, match, attempt = REFUSED[case]
    with vyre.open("reference", cache=False) as session:
        y = session.resident(np.zeros(N, np.uint32))
        with pytest.raises(kind, match=match) as caught:
            attempt(session, y)
        assert caught.value.fix
        assert not y.download().any()
