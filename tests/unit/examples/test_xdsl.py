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

x = rng.integers(-150, 150, 13).astype(np.int32)
signs = np.where((x > 100) | (np.fmod(x, 3) == 0), 100, 1) * np.sign(x)
assert np.array_equal(ran("branches", x, np.zeros(13, np.int32))[0], signs)

a, b = rng.integers(-99, 99, (2, 16)).astype(np.int32)
got = ran("loops_of_blocks", a, b, np.zeros((3, 16), np.int32))[0]
assert np.array_equal(got[0], np.gcd(a, b))
for limit, where, value in zip(abs(a), got[1], got[2], strict=True):  # sums over rows and columns up to a limit
    total, end = 0, None
    for row in range(12):
        before = total
        for column in range(7):
            if total + row * column > limit:
                end = column
                break
            part, total = total, total + row * column
        if end is not None:
            break
        total = part if (row + 1) % 2 else total
    assert (where, value) == ((end, total) if end is not None else (12, total))

m = rng.normal(size=(8, 4, 6)).astype(np.float32)
sums = np.full(8, np.float32(0.1))
for j in range(4):
    for k in range(1, 6, 2):  # in this order, so bit for bit
        sums = sums + m[:, j, k] * m[:, j, k]
sums_and_largest = ran("reductions", m, np.zeros((2, 8), np.float32), block=(4, 1, 1))[0]
assert np.array_equal(sums_and_largest, [sums, m[:, :, 1::2].max((1, 2))])

flat, some = rng.integers(-9, 9, 48).astype(np.int32), rng.integers(-9, 9, (10, 6)).astype(np.int32)
wide = np.tile(some.reshape(5, 2, 6).sum(0), (4, 1))
shaped = ran("reshaped", flat, some, np.zeros((3, 2, 6), np.int32), block=(4, 1, 1))[0]
assert np.array_equal(shaped[1].reshape(12)[:8], (flat.reshape(8, 6) * wide).sum(1))

def bf16(values):  # to the nearest, and to even in the middle
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)

def f32(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)

p, q = bf16(rng.normal(size=(2, 16)))
n = rng.integers(-30000, 30000, 16).astype(np.int16)
short, g = ran("floats_bf16", p, q, n, np.zeros((8, 16), np.uint16), np.zeros(16, np.float32))
u, v, tenth = f32(p), f32(q), f32(bf16(0.1))
positive, product = f32(bf16(abs(v) + tenth)), bf16(u * v)
wanted = [bf16(f32(bf16(u + v)) - tenth), product, bf16(u / positive), bf16(np.sqrt(positive)), bf16(np.maximum(u, v)),
          bf16(n), np.where(u < v, p, bf16(n)), bf16(f32(product) ** 2)]
assert np.array_equal(short, wanted) and np.array_equal(g, f32(product) ** 2)

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
from operations import Malformed, Refused
from reading import Unreadable, read

try:
    found = functions(read(sys.stdin.read(), "kernel.mlir"))
    lower(found["f"], found, (8, 1, 1))
except (Malformed, Refused, Unreadable) as error:
    print(error)
"""

STOPPED: Final = """
import sys
import numpy as np
import vyre
from lowering import lower
from machine import functions
from reading import read

found = functions(read(sys.stdin.read(), "kernel.mlir"))
kernel = lower(found["f"], found, (8, 1, 1))
values = [np.zeros(4, np.float32), 2.0, 1, 7]
given = {each.buffer: values[each.source] for each in kernel.parameters}
config = vyre.DispatchConfig(grid=1, CONFIG)
for backend in BACKENDS:
    with vyre.open(backend) as session:
        try:
            session.dispatch(kernel.program, given, config)
        except vyre.VyreError as error:
            loc = error.races[0].first.loc if isinstance(error, vyre.DataRaceError) else error.loc
            print(type(error).__name__, loc)
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
        assert printed.startswith("kernel.mlir:4: ")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('%r = "arith.addi"(%x, %x) : (f32, f32) -> f32', "`arith.addi` is malformed"),
        ('%r = "arith.addf"(%x, %k) : (f32, i32) -> f32', "`arith.addf` is malformed"),
        ('%r = "index.add"(%i, %k) : (index, i32) -> index', "its types are not index index -> index"),
        ('%r = "arith.maxf"(%x) : (f32) -> f32', "its types are not t t -> t"),
        ('%r = "arith.cmpi"(%k, %k) {predicate = 10 : i64} : (i32, i32) -> i1', "a predicate that is none"),
        ('%r = "memref.load"(%m, %i, %i) : (memref<4xf32>, index, index) -> f32', "`memref.load` is malformed"),
        ('%r = "memref.cast"(%m) : (memref<4xf32>) -> memref<4xi32>', "memory of two element types"),
        ('%r = "memref.cast"(%m) : (memref<4xf32>) -> memref<5xf32>', "memory of two shapes"),
        (
            '%r = "memref.collapse_shape"(%m) {reassociation = [[1]]} : (memref<4xf32>) -> memref<4xf32>',
            "its groups are not all axes in their order",
        ),
        (
            '"memref.store"(%r, %m, %i) : (f32, memref<4xf32>, index) -> ()\n'
            '    %r = "arith.addf"(%x, %x) : (f32, f32) -> f32',
            "an operand whose definition does not dominate it",
        ),
        ('"gpu.return"() : () -> ()', "`gpu.return` is malformed"),
    ],
)
def test_what_does_not_verify_is_malformed_with_its_line(line: str, said: str) -> None:
    printed = ran(REFUSED, KERNEL.replace("LINE", line))
    assert said in printed and "Fix: " in printed and printed.startswith("kernel.mlir:4: ")


@pytest.mark.parametrize(
    ("line", "config", "backends", "printed"),
    [
        (
            '%t = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index\n'
            '    %n = "arith.index_cast"(%t) : (index) -> i32\n'
            '    %r = "arith.sitofp"(%n) : (i32) -> f32\n'
            '    "memref.store"(%r, %m, %i) : (f32, memref<4xf32>, index) -> ()',
            "race_check=True",
            ["reference"],
            "DataRaceError kernel.mlir:7\n",
        ),
        (
            '%n = "index.constant"() {value = 100 : index} : () -> index\n'
            '    "scf.for"(%i, %n, %i) ({\n    ^bb0(%j: index):\n      "scf.yield"() : () -> ()\n'
            "    }) : (index, index, index) -> ()",
            "step_budget=50",
            ["reference", "reference-scalar", "cpu"],
            "StepBudgetExceeded kernel.mlir:5\n" * 3,
        ),
    ],
)
def test_what_stops_while_it_runs_names_the_line_of_the_module(
    line: str, config: str, backends: list[str], printed: str
) -> None:
    script = STOPPED.replace("CONFIG", config).replace("BACKENDS", repr(backends))
    assert ran(script, KERNEL.replace("LINE", line)) == printed


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['"cf.br"()[^bb1] : () -> ()', "^bb1:", '"cf.br"()[^bb1] : () -> ()', "^bb2:"], "a loop without an end"),
        (
            ['"cf.cond_br"(%c)[^bb1, ^bb2] {operandSegmentSizes = array<i32: 1, 0, 0>} : (i1) -> ()',
             "^bb1:", '"cf.cond_br"(%c)[^bb2, ^bb3] {operandSegmentSizes = array<i32: 1, 0, 0>} : (i1) -> ()',
             "^bb2:", '"cf.br"()[^bb1] : () -> ()', "^bb3:"],
            "an irreducible loop",
        ),
    ],
)  # fmt: skip
def test_jumps_without_a_structure_are_refused_by_name(lines: list[str], said: str) -> None:
    test = '%c = "arith.cmpi"(%k, %k) {predicate = 0 : i64} : (i32, i32) -> i1'
    printed = ran(REFUSED, KERNEL.replace("LINE", "\n    ".join([test, *lines])))
    assert said in printed and "Fix: " in printed


@pytest.mark.parametrize(("count", "flags"), [(204, []), (80, ["--jumps"])], ids=["changed", "jumps"])
def test_random_modules_end_in_errors_of_the_example_or_in_numpys_answers(count: int, flags: list[str]) -> None:
    arguments = ["--count", str(count), *flags]
    printed = ran(f"import fuzz_modules, sys; sys.argv[1:] = {arguments}; raise SystemExit(fuzz_modules.main())")
    assert printed.startswith(f"{count} modules, 0 defects:")
    assert int(printed.split(" equal")[0].split()[-1]) >= 10


def test_the_page_shows_what_is_recorded() -> None:
    recorded = json.loads(RECORD.read_text())
    script = "import run_modules, json, sys; print(run_modules.table(json.load(sys.stdin)))"
    assert ran(script, json.dumps(recorded)).strip() in (EXAMPLE / "README.md").read_text()
    assert recorded["functions"]["equal"] >= 15
    assert not recorded["functions"].get("different")
