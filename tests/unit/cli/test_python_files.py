"""Python files on the command line: ``kernel.py:saxpy``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from support.command_line import Vyre, vyre_command

SCALAR = ("--backend", "reference-scalar")
KERNELS = """
import numpy as np
from typing import TypeVar
import vyre
from vyre import In, InOut, Out, Static, f32, like, u32
from helper import FACTOR

T = TypeVar("T")
print("this file was run as", __name__)

@vyre.kernel
def saxpy(a: f32, x: In[f32], y: InOut[f32]):
    i = vyre.global_id()
    if i < len(x):
        y[i] = a * x[i] + y[i]

@vyre.kernel
def scale(n: Static[int], x: In[T], y: Out[T, like("x")]):
    i = vyre.global_id()
    if i < len(x):
        y[i] = x[i] * n * FACTOR

@vyre.kernel(workgroup=(8, 8))
def flip(x: In[u32, 2], y: Out[u32, 2, like("x")]):
    row, column = vyre.global_id(1), vyre.global_id(0)
    if row < y.shape[0] and column < y.shape[1]:
        y[row, column] = x[row, y.shape[1] - 1 - column]

@vyre.kernel
def fill(y: Out[u32]):
    y[vyre.global_id()] = 7

@vyre.function
def twice(x: f32) -> f32:
    return x + x

def made() -> vyre.Program:
    return saxpy.program

def greedy(n: int) -> vyre.Program:
    return saxpy.program

with vyre.ProgramBuilder("open", workgroup=1) as builder:
    pass

number = 7

@vyre.kernel
def wrong(y: InOut[f32]):
    y[0] = y[0] + nowhere
"""


@pytest.fixture
def vyre(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Vyre:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VYRE_BACKEND", raising=False)
    Path("kernel.py").write_text(KERNELS, "utf-8")
    Path("helper.py").write_text("FACTOR = 3\n", "utf-8")
    for name in ("helper", "vyre_file_kernel"):
        monkeypatch.setitem(sys.modules, name, None)  # restored after the test
        del sys.modules[name]
    return vyre_command(capsys)


def test_a_kernel_runs_on_files_and_literals(vyre: Vyre) -> None:
    np.save("x.npy", np.arange(5, dtype=np.float32))
    found = vyre("run", "kernel.py:saxpy", "--in", "a=2.0", "--in", "x=@x.npy", "--in", "y=1,1,1,1,1", *SCALAR,
                 "--out", "y=y.npy")  # fmt: skip
    assert found.code == 0, found.err
    np.testing.assert_array_equal(np.load("y.npy"), np.array([1, 3, 5, 7, 9], np.float32))
    assert "this file was run as vyre_file_kernel" in found.err
    assert "this file" not in found.out


def test_a_generic_kernel_takes_types_from_arrays_or_from_the_command_line(vyre: Vyre) -> None:
    np.save("x.npy", np.arange(3, dtype=np.int32))
    by_array = vyre("run", "kernel.py:scale", "--in", "n=2", "--in", "x=@x.npy", "--json", *SCALAR)
    assert by_array.json["outputs"][0]["first"] == [0, 6, 12]
    assert by_array.json["outputs"][0]["dtype"] == "int32"
    by_name = vyre("run", "kernel.py:scale:T=u32,n=5", "--in", "x=1,2", "--json", *SCALAR)
    assert by_name.json["outputs"][0]["first"] == [15, 30]
    assert by_name.json["outputs"][0]["dtype"] == "uint32"


def test_arrays_of_two_axes_keep_their_shape(vyre: Vyre) -> None:
    x = np.arange(12, dtype=np.uint32).reshape(3, 4)
    np.save("x.npy", x)
    found = vyre("run", "kernel.py:flip", "--in", "x=@x.npy", "--out", "y=y.npy", *SCALAR)
    assert found.code == 0, found.err
    np.testing.assert_array_equal(np.load("y.npy"), x[:, ::-1])


def test_an_output_takes_its_size_from_the_command_line(vyre: Vyre) -> None:
    found = vyre("run", "kernel.py:fill", "--size", "y=3", "--json", *SCALAR)
    assert found.json["outputs"][0]["first"] == [7, 7, 7]


@pytest.mark.parametrize("named", ["saxpy", "made"])
def test_every_command_takes_a_kernel_or_a_function_that_returns_one(vyre: Vyre, named: str) -> None:
    target = f"kernel.py:{named}"
    assert vyre("validate", target).out == f"{target}: the program is valid: nothing to report\n"
    assert vyre("show", target).out.startswith("program saxpy\n")
    assert ".entry" in vyre("emit", target, "--target", "sm_90").out
    assert "one launch" in vyre("explain", target, *SCALAR).out
    assert vyre("cache", "key", target, "--json").code == 0
    given = ("--in", "a=2", "--in", "x=1,2", "--in", "y=0,0")
    assert vyre("run", target, *given, "--json", *SCALAR).json["outputs"][0]["first"] == [2.0, 4.0]
    assert vyre("tune", target, *given, *SCALAR, "--sizes-only").code == 0


def test_a_file_with_one_kernel_needs_no_name(vyre: Vyre) -> None:
    Path("one.py").write_text("from kernel import saxpy, scale\nfrom vyre import kernel, InOut, u32\n\n"
                              "@kernel\ndef zero(y: InOut[u32]):\n    y[0] = 0\n", "utf-8")  # fmt: skip
    assert vyre("show", "one.py").out.startswith("program zero\n")


def test_values_make_one_program_of_a_generic_kernel(vyre: Vyre) -> None:
    assert "x @0 read i32" in vyre("show", "kernel.py:scale:T=i32,n=4").out


BAD = {
    "no name": ("kernel.py", 2, "kernel.py holds saxpy, scale, flip, fill and wrong: name one"),
    "a near name": ("kernel.py:sapxy", 2, "Fix: write kernel.py:saxpy."),
    "no such name": ("kernel.py:zzz", 2, "holds no `zzz`"),
    "a number": ("kernel.py:number", 2, "of type int"),
    "a function of kernels": ("kernel.py:twice", 2, "a @vyre.function"),
    "a builder": ("kernel.py:builder", 2, "program = builder.build()"),
    "a function with parameters": ("kernel.py:greedy", 2, "needs n"),
    "no file": ("nothing.py:saxpy", 2, "cannot read nothing.py"),
    "no identifier": ("kernel.py:a-b", 2, "no name of Python"),
    "generic": ("kernel.py:scale", 2, "write kernel.py:scale:T=f32,n=16"),
    "values for nothing": ("kernel.py:saxpy:T=f32", 2, "generic over nothing"),
    "values of a program": ("kernel.py:made:T=f32", 2, "is one program"),
    "no values": ("kernel.py:scale:T", 2, "is not name=value"),
    "a mistake in a kernel": ("kernel.py:wrong", 1, "nowhere"),
    "it raises": ("raises.py", 2, "raises.py cannot be run: line 3: ZeroDivisionError"),
    "it exits": ("exits.py", 2, "exits.py cannot be run: line 1: SystemExit"),
    "no syntax": ("syntax.py", 2, "syntax.py cannot be run: line 2: SyntaxError"),
    "nothing in it": ("helper.py", 2, "holds no kernel"),
}


@pytest.mark.parametrize(("named", "code", "message"), BAD.values(), ids=BAD)
def test_what_cannot_be_found_is_told(vyre: Vyre, named: str, code: int, message: str) -> None:
    Path("raises.py").write_text("def divide():\n    return 1\nprint(divide() / 0)\n", "utf-8")
    Path("exits.py").write_text("raise SystemExit\n", "utf-8")
    Path("syntax.py").write_text("x = 1\ndef f(:\n", "utf-8")
    found = vyre("show", named)
    assert found.code == code
    assert message in found.err
    assert "Fix: " in found.err
    assert "Traceback" not in found.err


def test_a_mistake_in_a_kernel_is_underlined(vyre: Vyre) -> None:
    found = vyre("run", "kernel.py:wrong", "--in", "y=1", *SCALAR)
    assert found.code == 1
    assert "y[0] = y[0] + nowhere" in found.err
    assert "^^^" in found.err
    assert vyre("validate", "kernel.py:wrong").code == 1


def test_literals_of_a_generic_kernel_need_a_type(vyre: Vyre) -> None:
    found = vyre("run", "kernel.py:scale", "--in", "n=2", "--in", "x=1,2", *SCALAR)
    assert found.code == 2
    assert "kernel.py:name:T=f32" in found.err


def test_unknown_and_missing_inputs_are_told(vyre: Vyre) -> None:
    assert "the inputs are a, x, y" in vyre("run", "kernel.py:saxpy", "--in", "b=1", *SCALAR).err
    assert "inputs `a`, `x`, `y` are missing" in vyre("run", "kernel.py:saxpy", *SCALAR).err


def test_the_search_path_is_left_as_it_was(vyre: Vyre) -> None:
    before = list(sys.path)
    vyre("show", "kernel.py:saxpy")
    assert sys.path == before


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters in brackets are of CPython 3.12")
def test_type_parameters_may_stand_in_brackets(vyre: Vyre) -> None:
    Path("bracket.py").write_text(
        "import vyre\nfrom vyre import In, Out, like\n\n"
        "@vyre.function\ndef twice[T](x: T) -> T:\n    return x + x\n\n"
        '@vyre.kernel\ndef scale[T](a: T, x: In[T], y: Out[T, like("x")]):\n'
        "    i = vyre.global_id()\n    if i < len(x):\n        y[i] = a * twice(x[i])\n",
        "utf-8",
    )
    np.save("x.npy", np.arange(3, dtype=np.int32))
    by_array = vyre("run", "bracket.py", "--in", "a=2", "--in", "x=@x.npy", "--json", *SCALAR)
    assert by_array.json["outputs"][0]["first"] == [0, 4, 8]
    assert "x @1 read f32" in vyre("show", "bracket.py:scale:T=f32").out


def test_what_the_validator_refuses_in_a_kernel_is_underlined(vyre: Vyre) -> None:
    Path("waits.py").write_text(
        "import vyre\nfrom vyre import InOut, f32\n@vyre.kernel\ndef waits(y: InOut[f32]):\n"
        "    if vyre.global_id() < 3:\n        vyre.barrier()\n",
        "utf-8",
    )
    found = vyre("run", "waits.py", "--in", "y=1", *SCALAR)
    assert found.code == 1
    assert " 6 |         vyre.barrier()\n   |         ^^^^^^^^^^^^^^\n" in found.err
    assert "Fix: move the barrier" in found.err
