"""MLIR runs on vyre: what ``examples/xdsl`` promises, in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from support.limits import LIMIT_S

ROOT: Final = Path(__file__).parents[3]
EXAMPLE: Final = ROOT / "examples" / "xdsl"
RECORD: Final = ROOT / "benchmarks" / "results" / "xdsl-modules.json"
MODULES: Final = sorted(path.stem for path in (EXAMPLE / "modules").glob("*.mlir"))
pytestmark = pytest.mark.skipif(
    find_spec("xdsl") is None, reason="xDSL is not installed: it is in the dependency group xdsl"
)

FORMULAS: Final = """
import numpy as np
import vyre
from lowering import lower
from machine import functions
from reading import read

def ran(name, *values, grid=(2, 1, 1), block=(8, 1, 1)):
    found = functions(read(open(f"modules/{name}.mlir").read(), name))
    kernel = lower(found[name], found, block)
    given = {each.buffer: values[each.source] for each in kernel.parameters if each.part == "data"}
    given |= {each.buffer: values[each.source].shape[each.axis] for each in kernel.parameters if each.part == "size"}
    with vyre.open(BACKEND) as session:
        result = session.dispatch(kernel.program, given, grid=grid)
    return [np.asarray(result[name]).reshape(values[int(name[3:])].shape) for name in kernel.written]

rng = np.random.default_rng(5)
x, y = rng.normal(size=(2, 11)).astype(np.float32)
assert np.array_equal(ran("saxpy", np.float32(3), x, y)[0], np.float32(3) * x + y)  # 16 lanes, of which 5 do nothing

a, b = rng.integers(-9, 9, (16, 12)).astype(np.float32), rng.integers(-9, 9, (12, 8)).astype(np.float32)
assert np.array_equal(ran("matmul", a, b, np.zeros((16, 8), np.float32), block=(8, 8, 1))[0], a @ b)

t = rng.integers(-99, 99, (2, 4, 8)).astype(np.int32)
given = np.zeros((2, 8, 4), np.int32)
assert np.array_equal(ran("transposed", t, given, block=(8, 4, 1))[0], t.swapaxes(1, 2))

s = rng.normal(size=(2, 32)).astype(np.float32)
e = np.exp(s.astype(np.float64))
assert np.allclose(ran("softmax", s, block=(32, 1, 1))[0], e / e.sum(1, keepdims=True), rtol=1e-6)

k = rng.integers(0, 2**31, 16).astype(np.int32)
assert np.array_equal(ran("histogram", k, np.zeros(8, np.int32))[0], np.bincount(k & 7, minlength=8))
rows = rng.integers(-99, 99, (16, 8)).astype(np.int32)
assert np.array_equal(ran("sorted_rows", rows)[0], np.sort(rows, 1))

nan, zeros = np.float32("nan"), np.zeros((4, 16), np.float32)
p = np.array([4, nan, nan, 0.0] * 4, np.float32)  # the square roots are 2, NaN, NaN, 0
q = np.array([nan, 1, nan, -0.0] * 4, np.float32)
strict_max, strict_min, larger, smaller = ran("extrema", p, q, zeros)[0]
assert np.isnan(strict_max[:3]).all() and np.isnan(strict_min[:3]).all()
assert larger[0] == smaller[0] == 2 and larger[1] == smaller[1] == 1 and np.isnan(larger[2])
assert not np.signbit(strict_max[3]) and np.signbit(strict_min[3])
"""

WRONG: Final = """
import operators
operators.PROPAGATE = ()  # as if maximumf were maxnumf
import run_modules, sys
sys.argv[1:] = ["modules/extrema.mlir", "modules/orders.mlir", "--backends", "reference"]
raise SystemExit(run_modules.main())
"""

REFUSED: Final = """
import sys
from lowering import lower
from machine import functions
from reading import Refused, Unreadable, read

try:
    found = functions(read(sys.stdin.read(), "kernel.mlir"))
    lower(found["f"], found, (8, 1, 1))
except (Refused, Unreadable) as error:
    print(error)
"""

KERNEL: Final = """"gpu.module"() ({
  "gpu.func"() ({
  ^bb0(%m: memref<4xf32>, %x: f32, %i: index, %k: i32):
    LINE
    "gpu.return"() : () -> ()
  }) {function_type = (memref<4xf32>, f32, index, i32) -> (), gpu.kernel, sym_name = "f"} : () -> ()
}) {sym_name = "kernels"} : () -> ()
"""


def ran(script: str, given: str = "", code: int = 0) -> str:
    """Returns what a script prints that runs in the folder of the example."""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=EXAMPLE, env=os.environ | {"PYTHONPATH": "."}, input=given,
        capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_the_installed_release_is_the_pinned_one() -> None:
    assert f'"xdsl=={version("xdsl")}"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize("backend", ["reference", "cpu", "cuda-machine"])
def test_all_modules_of_the_example_give_what_the_numpy_machine_gives(backend: str) -> None:
    script = (
        f"import run_modules, sys; sys.argv[1:] = ['--backends', '{backend}']; raise SystemExit(run_modules.main())"
    )
    printed = ran(script)
    equal = {line.split(".")[0] for line in printed.splitlines() if line.rstrip().endswith(" equal")}
    assert equal == set(MODULES)


@pytest.mark.parametrize("backend", ["reference", "cpu", "cuda-machine"])
def test_kernels_give_what_numpys_formulas_give(backend: str) -> None:
    ran(FORMULAS.replace("BACKEND", repr(backend)))


def test_a_wrong_lowering_is_seen() -> None:
    printed = ran(WRONG, code=1)
    assert "extrema.extrema: different" in printed
    assert "orders.orders" in printed and "orders.orders: different" not in printed


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('%r = "vector.splat"(%x) : (f32) -> vector<4xf32>', "`vector.splat`: no such operation here"),
        ('%r = "arith.remf"(%x, %x) : (f32, f32) -> f32', "`arith.remf`: no such operator of f32"),
        ('%r = "math.erf"(%x) : (f32) -> f32', "`math.erf`: no such operator of f32"),
        ('%r = "arith.extf"(%x) : (f32) -> f128', "`arith.extf`: values of type f128"),
        ('%r = "arith.trunci"(%k) : (i32) -> i4', "`arith.trunci`: values of type i4"),
        ('%r = "arith.constant"() {value = dense<0> : tensor<2xi32>} : () -> tensor<2xi32>', "no number"),
        ('%r = "memref.alloc"(%i) {operandSegmentSizes = array<i32: 1, 0>} : (index) -> memref<?xf32>', "run time"),
        ('%r = "memref.dim"(%m, %i) : (memref<4xf32>, index) -> index', "an axis that is no constant"),
        (
            '%r = "memref.atomic_rmw"(%x, %m, %i) {kind = 0 : i64} : (f32, memref<4xf32>, index) -> f32',
            "`memref.atomic_rmw`: kind 0 of f32",
        ),
        (
            '%r = "gpu.subgroup_reduce"(%k) {op = #gpu<all_reduce_op mul>} : (i32) -> i32',
            "a sum of 32 or 64 bits",
        ),
        ('"cf.br"()[^bb1] : () -> ()\n  ^bb1:\n    "cf.br"()[^bb1] : () -> ()\n  ^bb2:', "`cf.br`: a jump back"),
        (
            '"memref.copy"(%m, %n) : (memref<4xf32>, memref<4xf32>) -> ()',
            "Fix: write the generic form",
        ),  # no %n
    ],
)  # fmt: skip
def test_what_is_not_lowered_is_refused_with_its_line(line: str, said: str) -> None:
    printed = ran(REFUSED, KERNEL.replace("LINE", line))
    assert said in printed and "Fix: " in printed
    if "generic form" not in said:
        assert printed.startswith(f"kernel.mlir:{6 if 'jump back' in said else 4}: ")


def test_the_page_shows_what_is_recorded() -> None:
    recorded = json.loads(RECORD.read_text())
    script = "import run_modules, json, sys; print(run_modules.table(json.load(sys.stdin)))"
    assert ran(script, json.dumps(recorded)).strip() in (EXAMPLE / "README.md").read_text()
    assert recorded["functions"]["equal"] >= 15
    assert not recorded["functions"].get("different")
