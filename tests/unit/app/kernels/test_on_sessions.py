"""Kernels where a session takes a program."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from vyre import In, InOut, Out, Static, f32, i32, like, u32

T = TypeVar("T")


@vyre.kernel
def saxpy(a: f32, x: In[f32], y: InOut[f32]) -> None:
    i = vyre.global_id()
    if i < len(x):
        y[i] = a * x[i] + y[i]


@vyre.kernel(workgroup=(8, 8))
def doubled(x: In[f32, 2], y: Out[f32, 2, like("x")]) -> None:
    r, c = vyre.global_id(1), vyre.global_id(0)
    y[r, c] = x[r, c] * 2


@vyre.kernel(workgroup=(8, 8))
def raised(x: InOut[f32, 2], a: f32) -> None:
    r, c = vyre.global_id(1), vyre.global_id(0)
    x[r, c] = x[r, c] + a


@vyre.kernel
def powers(n: Static[int], x: In[T], y: Out[T, like("x")]) -> None:
    i = vyre.global_id()
    if i < len(x):
        product = T(1)
        for _ in vyre.static(range(n)):
            product *= x[i]
        y[i] = product


@vyre.kernel
def counted(y: Out[u32]) -> None:
    y[vyre.global_id()] = vyre.global_id()


X = np.arange(6, dtype=np.float32)
GRID = np.arange(15, dtype=np.float32).reshape(3, 5)


@pytest.fixture
def session() -> Any:
    with vyre.open(backend="reference") as opened:
        yield opened


def inputs() -> dict[str, Any]:
    return {"a": 2.0, "x": X, "y": X.copy()}


def test_dispatch_returns_results_and_writes_no_argument(session: vyre.Session) -> None:
    given = inputs()
    assert session.dispatch(saxpy, given)["y"].tolist() == (3 * X).tolist()
    assert given["y"].tolist() == X.tolist()
    assert session.dispatch(saxpy, [2.0, X, X])["y"].tolist() == (3 * X).tolist()


def test_sizes_and_lanes_of_arrays_with_two_axes_follow_from_the_inputs(session: vyre.Session) -> None:
    found = session.dispatch(doubled, {"x": GRID})["y"]
    assert found.shape == (3, 5)
    assert found.tolist() == (GRID * 2).tolist()
    y = np.empty((3, 5), np.float32)
    assert session.dispatch(doubled, {"x": GRID}, out={"y": y})["y"] is y
    assert y.tolist() == (GRID * 2).tolist()
    assert session.dispatch(raised, {"x": GRID, "a": 1})["x"].tolist() == (GRID + 1).tolist()
    x = GRID.copy()
    assert session.dispatch(raised, {"x": x, "a": 1}, out={"x": x})["x"] is x
    assert x.tolist() == (GRID + 1).tolist()
    few = session.dispatch(raised, {"x": GRID, "a": 1}, grid=(1, 1))["x"]
    assert few.tolist() == (GRID + 1).tolist()


def test_parameters_may_have_the_names_of_sizes(session: vyre.Session) -> None:
    @vyre.kernel(workgroup=(8, 8))
    def scaled(x: InOut[f32, 2], x_width: f32) -> None:
        r, c = vyre.global_id(1), vyre.global_id(0)
        x[r, c] = x[r, c] * x_width + f32(x.shape[1])

    x = GRID.copy()
    with session:
        scaled(x, 2.0)
        assert x.tolist() == (GRID * 2 + 5).tolist()
        assert session.dispatch(scaled, {"x": GRID, "x_width": 2.0})["x"].tolist() == x.tolist()


def test_generic_kernels_take_types_and_static_values_from_the_inputs(session: vyre.Session) -> None:
    for dtype in (np.float32, np.int32, np.uint64):
        x = np.arange(4, dtype=dtype)
        found = session.dispatch(powers, {"n": 3, "x": x})["y"]
        assert found.dtype == dtype
        assert found.tolist() == (x**3).tolist()
    with pytest.raises(vyre.InvalidInput, match=r"generic over T, n.*specialize\(T=\.\.\., n=\.\.\.\)"):
        session.compile(powers)
    program = powers.specialize(T=i32, n=2)
    assert session.dispatch(program, {"x": np.array([3], np.int32)})["y"].tolist() == [9]
    assert powers.specialize(T=i32, n=2) is program


def test_a_compiled_kernel_takes_its_arrays_without_their_sizes(session: vyre.Session) -> None:
    assert session.compile(saxpy)(inputs())["y"].tolist() == (3 * X).tolist()
    assert session.compile(doubled, extent=(5, 3))({"x": GRID})["y"].tolist() == (GRID * 2).tolist()
    pipeline = session.compile(raised, extent=(5, 3))
    assert pipeline({"x": GRID, "a": 1.0})["x"].tolist() == (GRID + 1).tolist()
    assert pipeline([GRID, 1.0])["x"].tolist() == (GRID + 1).tolist()
    assert raised.compile(session, vyre.DispatchConfig(extent=(5, 3)))([GRID, 1.0])["x"].tolist() == (GRID + 1).tolist()


def test_launches_are_bound_submitted_and_batched(session: vyre.Session) -> None:
    session.prepare(saxpy)
    assert session.bind(saxpy, inputs())()["y"].tolist() == (3 * X).tolist()
    assert session.bind(doubled, {"x": GRID})()["y"].tolist() == (GRID * 2).tolist()
    assert session.submit(doubled, {"x": GRID}).result()["y"].tolist() == (GRID * 2).tolist()
    found = session.dispatch_many(doubled, [{"x": GRID}, {"x": GRID[:2]}, {"x": GRID.T.copy()}])
    assert [each["y"].shape for each in found] == [(3, 5), (2, 5), (5, 3)]


def test_resident_launches_and_sequences_take_kernels(session: vyre.Session) -> None:
    with session.resident(GRID) as x, session.resident(GRID) as y:
        with session.bind_resident(raised, {"x": x, "a": 1.0}) as launch:
            launch()
        session.sequence([vyre.Step(raised, {"x": x, "a": 2.0})], first=[vyre.Step(doubled, {"x": x, "y": y})])(3)
        assert x.download().tolist() == (GRID + 7).tolist()
        assert y.download().tolist() == (GRID * 2 + 2).tolist()
        assert session.dispatch(doubled, {"x": x})["y"].tolist() == (GRID * 2 + 14).tolist()


def test_races_tuning_and_guesses_take_kernels(session: vyre.Session) -> None:
    report = session.race(doubled, {"x": GRID}, {"one": vyre.DispatchConfig(), "two": vyre.DispatchConfig(workgroup=4)})
    assert report.baseline == "one"
    assert session.tuned(doubled, {"x": GRID}).config.extent == (5, 3)
    assert session.tune(saxpy, inputs()) is not None
    assert session.dispatch(doubled, {"x": GRID}, tune=True)["y"].tolist() == (GRID * 2).tolist()
    assert session.specialize(raised, extent=(5, 3))([GRID, 1.0])["x"].tolist() == (GRID + 1).tolist()
    assert session.specialize(saxpy)(inputs())["y"].tolist() == (3 * X).tolist()


def test_explanations_reports_and_code_take_kernels(session: vyre.Session, tmp_path: Path) -> None:
    assert "saxpy" in str(session.explain(saxpy))
    assert "doubled" in str(session.explain(doubled, inputs={"x": GRID}))
    assert vyre.validate(saxpy).ok
    assert session.validate(saxpy).ok
    assert vyre.emit(saxpy).to_json() == vyre.emit(saxpy.program).to_json()
    written = vyre.build_bundle(saxpy, tmp_path / "saxpy.vyrz", targets=["cuda"])
    assert written.programs == {"saxpy": saxpy.program.digest.hex()}
    assert session.invalidate(saxpy, dry_run=True) is not None


@vyre.kernel(workgroup=4)
def marked(y: InOut[u32], n: u32) -> None:
    y[vyre.global_id()] = vyre.num_groups() * n


ZEROS = np.zeros(10, np.uint32)


@pytest.mark.parametrize(
    ("launcher", "lanes", "groups"), [(marked[2], 8, 2), (marked.over(5), 8, 2), (marked.over((3, 1)), 4, 1)]
)
def test_kernels_with_a_grid_or_an_extent_are_launched_so(
    session: vyre.Session, launcher: Any, lanes: int, groups: int
) -> None:
    expected = [groups] * lanes + [0] * (10 - lanes)
    given: dict[str, Any] = {"y": ZEROS, "n": 1}
    assert session.dispatch(launcher, given)["y"].tolist() == expected
    assert session.dispatch(launcher, given, tune=True)["y"].tolist() == expected
    assert session.compile(launcher)(given)["y"].tolist() == expected
    assert session.bind(launcher, given)()["y"].tolist() == expected
    assert session.submit(launcher, given).result()["y"].tolist() == expected
    assert [each["y"].tolist() for each in session.dispatch_many(launcher, [given, given])] == [expected] * 2
    assert session.specialize(launcher)(given)["y"].tolist() == expected
    with session.resident(ZEROS) as y:
        with session.bind_resident(launcher, {"y": y, "n": 1}) as launch:
            launch()
        assert y.download().tolist() == expected
    with session.resident(ZEROS) as y:
        session.sequence([vyre.Step(launcher, {"y": y, "n": 1})])(1)
        assert y.download().tolist() == expected


def test_reports_and_tuning_take_kernels_with_a_grid_or_an_extent(session: vyre.Session) -> None:
    given = {"y": ZEROS, "n": 1}
    session.prepare(marked[2])
    assert session.tuned(marked[2], given).config.grid == (2, 1, 1)
    assert session.tuned(marked.over(5), given).config.extent == (5,)
    assert session.tune(saxpy.over(6), inputs()).config.extent == (6,)
    wide = vyre.DispatchConfig(timeout_s=60.0)
    assert session.race(marked.over(5), given, {"one": vyre.DispatchConfig(), "two": wide}).baseline == "one"
    assert "marked" in str(session.explain(marked[2], inputs=given))
    assert "marked" in str(session.explain(marked[2]))
    assert session.invalidate(marked[2], dry_run=True) is not None
    assert vyre.validate(marked[2]).ok
    assert vyre.emit(marked[2]).to_json() == vyre.emit(marked).to_json()


def test_a_launcher_takes_lanes_from_its_extent_and_not_from_the_arrays(session: vyre.Session) -> None:
    few = session.dispatch(raised.over((2, 2)), {"x": GRID, "a": 1})
    assert str(few.launch).startswith("1x1x1 workgroups")
    assert session.dispatch(powers.over(4), {"n": 2, "x": X})["y"].tolist() == (X**2).tolist()


@pytest.mark.parametrize("launcher", [marked[2], marked.over(5)])
@pytest.mark.parametrize("beside", [{"grid": 2}, {"extent": 5}])
def test_a_second_grid_or_extent_is_refused(session: vyre.Session, launcher: Any, beside: dict[str, int]) -> None:
    config = vyre.DispatchConfig(**beside)  # type: ignore[arg-type]  # one of the two
    given = {"y": ZEROS, "n": 1}
    message = r"is given twice, by <<vyre.kernel marked> on .*> and beside it\. Fix: give it once: pass marked itself"
    for refused in (
        lambda: session.dispatch(launcher, given, config),
        lambda: session.dispatch(launcher, given, **beside),  # type: ignore[arg-type]
        lambda: session.compile(launcher, config),
        lambda: session.compile(launcher, **beside),  # type: ignore[arg-type]
        lambda: session.bind(launcher, given, **beside),  # type: ignore[arg-type]
        lambda: session.submit(launcher, given, config),
        lambda: session.tuned(launcher, given, config),
        lambda: session.race(launcher, given, {"one": config, "two": config}),
        lambda: session.explain(launcher, config),
        lambda: session.specialize(launcher, None, config),
    ):
        with pytest.raises(vyre.InvalidConfig, match=message):
            refused()


def test_outputs_of_open_size_get_it_from_counts_or_arrays(session: vyre.Session) -> None:
    assert session.dispatch(counted, output_counts={"y": 3})["y"].tolist() == [0, 1, 2]
    assert session.dispatch(counted, (), vyre.DispatchConfig(output_counts={"y": 2}))["y"].tolist() == [0, 1]
    y: npt.NDArray[np.uint32] = np.zeros(4, np.uint32)
    session.dispatch(counted, out={"y": y})
    assert y.tolist() == [0, 1, 2, 3]
    with pytest.raises(vyre.InvalidInput, match="its size is not declared"):
        session.dispatch(counted)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": 2.0, "x": X}, "saxpy: input `y` is missing"),
        ({"a": 2.0, "x": X, "y": X, "z": X}, "saxpy: 'z' is no parameter"),
        ([2.0, X], "saxpy takes 3 inputs, got 2"),
        (3, "inputs is an int"),
        ("axy", "inputs is a str"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(session: vyre.Session, given: Any, message: str) -> None:
    with pytest.raises(vyre.InvalidInput, match=r"Fix: ") as caught:
        session.dispatch(saxpy, given)
    assert message in str(caught.value)
