"""Entry points of bundles called from C, without Python: the example, and gallery programs beside the reference."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from support.limits import LIMIT_S
from vyre.adapters.cpu.aot.levels import LEVELS, levels_of
from vyre.adapters.cpu.native.features import host
from vyre.domain.binding import BindingPlan, plan_bindings
from vyre.domain.errors import InvalidConfig, UnsupportedFeature
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType, f32, u32
from vyre.gallery.example import Case, dispatch_once
from vyre.gallery.registry import BASICS, load

EXAMPLE: Final = Path(__file__).parents[4] / "examples" / "calling_from_c"
CC: Final = shutil.which("cc")
HERE: Final = [target for target in levels_of(host().arch) if not host().lacks(LEVELS[target])]
needs_cc = pytest.mark.skipif(CC is None or sys.platform != "linux", reason="there is no `cc` that links ELF objects")
GUARD: Final = 64
"""Bytes behind each array, which stay as they are."""
GUARDED: Final = 0xA5
NAMES: Final = tuple(name for name in BASICS if load(f"basics.{name}").run is dispatch_once)


def compiled(folder: Path, *arguments: str) -> None:
    assert CC is not None
    command = [CC, "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", f"-I{folder}", *arguments, "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr


@needs_cc
def test_the_example_runs(tmp_path: Path) -> None:
    for command in ([sys.executable, str(EXAMPLE / "build.py"), str(tmp_path)],):
        subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S)
    objects = [str(path) for path in sorted(tmp_path.glob("kernels-*.o"))]
    assert len(objects) == 2 * len(levels_of(host().arch))
    compiled(tmp_path, str(EXAMPLE / "main.c"), str(tmp_path / "kernels.c"), *objects, "-o", str(tmp_path / "main"))
    done = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, timeout=LIMIT_S, env={})
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            "saxpy: status 0, 0 wrong, y[99] = 199",
            "histogram: status 0: 25 50 0 0 25 0 0 0",
            "trap: status 1, lane 41, value 9, no bin",
        ],
    )


# ---------------------------------------------------------------- programs of the gallery
def case_of(name: str) -> tuple[Program, Case]:
    return load(f"basics.{name}").program(), load(f"basics.{name}").case()


@pytest.fixture(scope="module", params=dict.fromkeys((HERE[0], HERE[-1])))
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The basics of the gallery for one level as a library of C."""
    folder = tmp_path_factory.mktemp("library")
    for name in NAMES:
        program, case = case_of(name)
        path, config = folder / f"{name}.vyrz", case.config
        vyre.build_bundle({name: program}, path, targets=[request.param], spec=config.spec, workgroup=config.workgroup)
        vyre.write_c(vyre.load_bundle(path), folder, name=name)
    files = [str(path) for path in sorted(folder.glob("*.[co]"))]
    compiled(folder, "-shared", "-fPIC", *files, "-o", str(folder / "basics.so"))
    return ctypes.CDLL(str(folder / "basics.so"))


def call(
    function: Any, program: Program, inputs: Sequence[npt.NDArray[Any]], outputs: Mapping[str, npt.NDArray[Any]],
    grid: Sequence[int],
) -> int:  # fmt: skip
    """Calls a function in C as its header says, fills ``outputs`` and returns the status."""
    arguments: list[Any] = []
    memories: dict[str, npt.NDArray[np.uint8]] = {}
    for binding in plan_bindings(program).bindings:
        buffer = binding.buffer
        array = outputs[buffer.name] if binding.input_index is None else inputs[binding.input_index]
        if buffer.is_push:
            kind = {"<f4": ctypes.c_float, "<u4": ctypes.c_uint32, "<i4": ctypes.c_int32}[array.dtype.str]
            arguments.append(kind(array.item()))
            continue
        memory = memories[buffer.name] = np.full(array.nbytes + GUARD, GUARDED, np.uint8)
        if binding.input_index is not None:
            memory[: array.nbytes] = array.view(np.uint8)
        arguments.append(ctypes.c_void_p(memory.ctypes.data))
        if not buffer.count and buffer.like is None:
            arguments.append(ctypes.c_uint64(array.size))
    status: int = function(*arguments, (ctypes.c_uint32 * 3)(*grid), None)
    for name, memory in memories.items():
        assert (memory[-GUARD:] == GUARDED).all(), f"written behind the end of {name}"
        if name in outputs:
            outputs[name].reshape(-1).view(np.uint8)[:] = memory[:-GUARD]
    return status


@needs_cc
def test_programs_called_from_c_give_the_bytes_of_the_reference(library: ctypes.CDLL) -> None:
    differing: list[str] = []
    with vyre.open("reference") as session:
        for name in NAMES:
            program, case = case_of(name)
            expected = session.dispatch(program, case.inputs, case.config)
            views = session.compile(program, case.config).views(case.inputs)
            plan = plan_bindings(program)
            inputs = [
                np.frombuffer(view, np.uint8).view(typed(plan, at)) for view, at in zip(views, plan.inputs, strict=True)
            ]
            outputs = {key: np.zeros_like(array) for key, array in expected.items()}
            assert call(getattr(library, name), program, inputs, outputs, expected.launch.grid) == 0
            differing += [f"{name} {key}" for key in outputs if outputs[key].tobytes() != expected[key].tobytes()]
    assert differing == []


def typed(plan: BindingPlan, position: int) -> np.dtype[Any]:
    element = plan.bindings[position].buffer.element
    assert isinstance(element, ScalarType)
    return np.dtype(element.numpy_name)


# ---------------------------------------------------------------- the face in C
def written(folder: Path, entries: dict[str, Program], name: str = "kernels") -> str:
    vyre.build_bundle(entries, folder / "b.vyrz", targets=["cpu"])
    vyre.write_c(vyre.load_bundle(folder / "b.vyrz"), folder, name=name)
    return (folder / f"{name}.h").read_text()


def doubled(*names: str) -> Program:
    with ProgramBuilder("doubled", workgroup=(8, 2)) as p:
        x, y = p.input(names[0], f32), p.output(names[1], f32, like=names[0])
        y[p.global_id()] = x[p.global_id()] * 2
    return p.build()


@needs_cc
def test_names_that_c_has_already_are_changed(tmp_path: Path) -> None:
    header = written(tmp_path, {"do it": doubled("int", "a-b"), "other": doubled("x_count", "x")})
    assert "vyre_status do_it(const float *p_int, uint64_t p_int_count, float *a_b, const uint32_t groups[3]" in header
    assert "vyre_status other(const float *x_count, uint64_t x_count_count, float *x_, const" in header
    assert "/* workgroups of 8 x 2 x 1 lanes; outputs that are zeroed first: a_b */" in header
    compiled(tmp_path, "-c", str(tmp_path / "kernels.c"), "-o", str(tmp_path / "kernels.o"))


@needs_cc
def test_a_large_array_an_empty_grid_and_a_mode_of_the_caller(tmp_path: Path) -> None:
    written(tmp_path, {"doubled": doubled("x", "y")})
    files = [str(path) for path in tmp_path.glob("*.[co]")]
    compiled(tmp_path, "-shared", "-fPIC", *files, "-o", str(tmp_path / "one.so"))
    function = ctypes.CDLL(str(tmp_path / "one.so")).doubled
    x, y = np.array([1e-45, 3.0], np.float32), np.full(2, 7, np.float32)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, y)]

    def called(count: int, *groups: int) -> int:
        status: int = function(pointers[0], ctypes.c_uint64(count), pointers[1], (ctypes.c_uint32 * 3)(*groups), None)
        return status

    assert called(1 << 29, 1, 1, 1) == 4 and y.tolist() == [7, 7]
    assert called(2, 0, 1, 1) == 0 and y.tolist() == [0, 0]
    libm = ctypes.CDLL("libm.so.6")
    upward = {"x86_64": 0x800, "aarch64": 0x400000}[host().arch]
    before = libm.fegetround()
    libm.fesetround(upward)
    try:
        assert called(2, 1, 1, 1) == 0 and libm.fegetround() == upward
    finally:
        libm.fesetround(before)
    assert y.tolist() == [math.ldexp(1.0, -148), 6.0]


def test_what_c_cannot_call_is_refused(tmp_path: Path) -> None:
    vyre.build_bundle(doubled("x", "y"), tmp_path / "ptx.vyrz", targets=["sm_80"])
    with ProgramBuilder("alone", workgroup=4) as p:
        p.output("y", u32, count=3)[0] = u32(5)
    vyre.build_bundle({"alone": p.build()}, tmp_path / "alone.vyrz", targets=["sm_80"])
    with pytest.raises(UnsupportedFeature, match="calling this bundle from C"):
        vyre.write_c(vyre.load_bundle(tmp_path / "alone.vyrz"), tmp_path)
    for name in ("2 x", "int", "größer"):
        with pytest.raises(InvalidConfig, match="is no name of a function in C"):
            written(tmp_path, {name: doubled("x", "y")})
    spread = "workgroup_size 8, 1, 1 buffer x @0 read_write u32[8] buffer f @1 read_write u32[1] body { let n = "
    spread += "grid_loop(5u, f) { x[gid.x] = x[gid.x] + 1u barrier(grid_sync) f[0u] = 1u } }"
    with pytest.raises(UnsupportedFeature, match="a grid loop in 'spread'"):
        written(tmp_path, {"spread": Program.from_text(spread)})
