"""Exhaustive proof that every transcendental function is correctly rounded for all 2^32 inputs.

``python -m benchmarks.correct_rounding [FUNCTION...]`` compiles the C form of each binary64 program and runs
it over every f32.  A result is judged by the libm in double precision where that decides the rounding even
with an error of 2^-47, else by the libm in x87 extended precision with an error of 2^-58, else by mpmath; a
result that any of them contradicts goes to mpmath too.  NumPy's evaluator is compared with the C build on
every ``--stride``-th input and on all patched ones.

Finished chunks of 2^26 inputs are kept in the record, so an interrupted run goes on where it stopped, and a
program whose digest has not changed is not run again.  The record is ``benchmarks/results/correct-rounding.json``;
the checksums of all results, for comparing devices, are ``tests/data/function_checksums.json``: word k of a
function is the sum over the inputs x of chunk k of bits(f(x)) * (2x + 1) modulo 2^64.

Needs gcc, x86-64 (for extended precision) and mpmath.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import mpmath
import numpy as np
from numpy.typing import NDArray

from benchmarks.f64_program_c import c_source
from vyre.domain.ir.operators import TRANSCENDENTALS, UnaryOp
from vyre.domain.numerics.evaluate import evaluate_lanes
from vyre.domain.numerics.f64_program import F64Program
from vyre.domain.numerics.transcendentals import patched_inputs, transcendental

ROOT: Final = Path(__file__).resolve().parent.parent
RECORD: Final = ROOT / "benchmarks" / "results" / "correct-rounding.json"
CHECKSUMS: Final = ROOT / "tests" / "data" / "function_checksums.json"

CHUNKS: Final = 64
CHUNK: Final = 2**32 // CHUNKS
FLAGS: Final = ("-O2", "-std=gnu11", "-ffp-contract=off", "-fno-fast-math", "-shared", "-fPIC")

_DRIVER: Final = r"""
#include <math.h>

#define DOUBLE_ERROR 0x1p-47
#define EXTENDED_ERROR 0x1p-58L

void evaluate_many(const uint32_t *x, uint32_t *y, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) y[i] = evaluate(x[i]);
}

/* Judges n inputs from first on. Inputs that only mpmath can judge go to undecided (at most capacity are kept);
   counts: [0] checksum, [1] inputs that needed extended precision, [2] undecided inputs. */
void judge(uint64_t first, uint64_t n, uint32_t *undecided, uint64_t capacity, uint64_t *counts) {
    uint64_t checksum = 0, extended = 0, left = 0;
    for (uint64_t i = first; i < first + n; i++) {
        uint32_t x = (uint32_t)i, y = evaluate(x);
        checksum += (uint64_t)y * (2 * i + 1);
        double r = LIBM((double)f32_of(x));
        if (r != r) {
            if (y == 0x7fc00000u) continue;
        } else {
            uint32_t low = bits32((float)(r * (1 - DOUBLE_ERROR))), high = bits32((float)(r * (1 + DOUBLE_ERROR)));
            if (low == high) {
                if (y == low) continue;
            } else {
                extended++;
                long double l = LIBML((long double)f32_of(x));
                low = bits32((float)(l * (1 - EXTENDED_ERROR)));
                high = bits32((float)(l * (1 + EXTENDED_ERROR)));
                if (low == high && y == low) continue;
            }
        }
        if (left < capacity) undecided[left] = x;
        left++;
    }
    counts[0] = checksum;
    counts[1] = extended;
    counts[2] = left;
}
"""
_CAPACITY: Final = 1 << 20

_EXACT: Final[dict[UnaryOp, Callable[[Any], Any]]] = {
    UnaryOp.SIN: mpmath.sin,
    UnaryOp.COS: mpmath.cos,
    UnaryOp.TAN: mpmath.tan,
    UnaryOp.ASIN: mpmath.asin,
    UnaryOp.ACOS: mpmath.acos,
    UnaryOp.ATAN: mpmath.atan,
    UnaryOp.SINH: mpmath.sinh,
    UnaryOp.COSH: mpmath.cosh,
    UnaryOp.TANH: mpmath.tanh,
    UnaryOp.EXP: mpmath.exp,
    UnaryOp.EXP2: lambda x: mpmath.mpf(2) ** x,
    UnaryOp.LOG: mpmath.log,
    UnaryOp.LOG2: lambda x: mpmath.log(x, 2),
}


def nearest_f32(value: Any) -> int:
    """Bits of the f32 nearest to an mpmath number, ties to even, subnormals and overflow included."""
    if isinstance(value, mpmath.mpc) or mpmath.isnan(value):  # mpmath leaves the reals where f32 has NaN
        return 0x7FC0_0000
    sign = 0x8000_0000 if value < 0 else 0
    value = abs(value)
    if value == 0:
        return sign
    if mpmath.isinf(value):
        return sign | 0x7F80_0000
    _, exponent = mpmath.frexp(value)  # value = m * 2^exponent, 1/2 <= m < 1
    place = max(exponent - 24, -149)
    units = int(mpmath.nint(mpmath.ldexp(value, -place)))  # nint takes ties to even
    bits: int = min(((place + 149) << 23) + units, 0x7F80_0000)
    return sign | bits


def correct_result(op: UnaryOp, x: int) -> int:
    """The correctly rounded result by mpmath, for a finite input at which the function is defined."""
    number = struct.unpack("<f", struct.pack("<I", x))[0]
    # 200 bits: no f32 input brings any of the functions closer than about 2^-90 to a midpoint without reaching it.
    with mpmath.workprec(200):
        return nearest_f32(_EXACT[op](mpmath.mpf(number)))


class Build:
    """The shared library of one program."""

    def __init__(self, op: UnaryOp, program: F64Program, folder: Path) -> None:
        name = op.name.lower()
        source, library = folder / f"{name}.c", folder / f"{name}.so"
        source.write_text(c_source(program) + _DRIVER)
        defines = (f"-DLIBM={name}", f"-DLIBML={name}l")
        subprocess.run(["gcc", *FLAGS, *defines, "-o", library, source, "-lm"], check=True)
        self._library = ctypes.CDLL(str(library))

    def evaluate(self, x: NDArray[np.uint32]) -> NDArray[np.uint32]:
        y = np.empty_like(x)
        self._library.evaluate_many(
            x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(x.size)
        )
        return y

    def judge(self, first: int, n: int) -> tuple[int, int, list[int]]:
        """``(checksum, inputs that needed extended precision, undecided inputs)``."""
        undecided, counts = np.empty(_CAPACITY, np.uint32), (ctypes.c_uint64 * 3)()
        self._library.judge(
            ctypes.c_uint64(first),
            ctypes.c_uint64(n),
            undecided.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_uint64(_CAPACITY),
            counts,
        )
        if counts[2] > _CAPACITY:
            raise SystemExit(f"{counts[2]} inputs of a chunk are wrong or undecided. Fix: repair the program.")
        return counts[0], counts[1], undecided[: counts[2]].tolist()


def numpy_differences(program: F64Program, build: Build, x: NDArray[np.uint32]) -> int:
    with np.errstate(all="ignore"):
        ours = evaluate_lanes(program, x.view(np.float32)).view(np.uint32)
    return int(np.count_nonzero(ours != build.evaluate(x)))


def run_function(op: UnaryOp, entry: dict[str, Any], stride: int, save: Callable[[], None]) -> None:
    """Run the chunks that ``entry`` does not hold yet, saving after each."""
    program = transcendental(op)
    with tempfile.TemporaryDirectory() as folder:
        build = Build(op, program, Path(folder))
        patched = np.array(patched_inputs(op), dtype=np.uint32)
        entry["patched_inputs"] = [f"{x:#010x}" for x in patched.tolist()]
        if not entry["checksums"]:
            entry["numpy_compared"] += patched.size
            entry["numpy_differences"] += numpy_differences(program, build, patched)
        while (chunk := len(entry["checksums"])) < CHUNKS:
            started, first = time.perf_counter(), chunk * CHUNK
            checksum, extended, undecided = build.judge(first, CHUNK)
            wrong = [x for x in undecided if int(build.evaluate(np.array([x], np.uint32))[0]) != correct_result(op, x)]
            sample = np.arange(chunk % stride, CHUNK, stride, dtype=np.uint32) + np.uint32(first)
            entry["checksums"].append(f"{checksum:#018x}")
            entry["inputs"] += CHUNK
            entry["needed_extended"] += extended
            entry["needed_mpmath"] += len(undecided)
            entry["wrong"] += len(wrong)
            entry["wrong_inputs"] = (entry["wrong_inputs"] + [f"{x:#010x}" for x in wrong])[:64]
            entry["numpy_compared"] += sample.size
            entry["numpy_differences"] += numpy_differences(program, build, sample)
            entry["seconds"] = round(entry["seconds"] + time.perf_counter() - started, 1)
            save()
            progress = f"{op.name.lower():6} {chunk + 1:2}/{CHUNKS} {time.perf_counter() - started:6.1f} s"
            print(f"{progress}  wrong {entry['wrong']} {entry['wrong_inputs']}", flush=True)


def fresh_entry(program: F64Program) -> dict[str, Any]:
    return {
        "digest": program.digest.hex(),
        "inputs": 0,
        "wrong": 0,
        "wrong_inputs": [],
        "needed_extended": 0,
        "needed_mpmath": 0,
        "numpy_compared": 0,
        "numpy_differences": 0,
        "patched_inputs": [],
        "checksums": [],
        "seconds": 0.0,
    }


def environment() -> dict[str, str]:
    gcc = subprocess.run(["gcc", "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[0]
    cpu = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.machine(),
    )
    return {
        "machine": f"{platform.machine()}, {cpu}",
        "compiler": gcc,
        "flags": " ".join(FLAGS),
        "libm": " ".join(platform.libc_ver()),
        "numpy": np.__version__,
        "mpmath": mpmath.__version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def _lines(path: str) -> Iterable[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else ()


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(value, indent=1) + "\n")
    temporary.replace(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = sorted(op.name.lower() for op in TRANSCENDENTALS)
    parser.add_argument("functions", nargs="*", metavar="FUNCTION", help=f"of {' '.join(names)}; default: all")
    parser.add_argument("--stride", type=int, default=61, help="compare NumPy with C on every STRIDE-th input")
    parser.add_argument("--again", action="store_true", help="run even what the record already holds")
    arguments = parser.parse_args()
    if unknown := set(arguments.functions) - set(names):
        parser.error(f"unknown function {sorted(unknown)}")

    if shutil.which("gcc") is None or platform.machine() not in ("x86_64", "AMD64"):
        parser.error("this needs gcc on x86-64, whose long double has 64 bits of precision")

    record: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    functions: dict[str, Any] = record.setdefault("functions", {})
    for name in arguments.functions or names:
        op = UnaryOp[name.upper()]
        entry = functions.get(name)
        if arguments.again or entry is None or entry["digest"] != transcendental(op).digest.hex():
            entry = functions[name] = fresh_entry(transcendental(op))
        if len(entry["checksums"]) < CHUNKS:
            entry["environment"] = environment()
            run_function(op, entry, arguments.stride, lambda: _write(RECORD, record))
        complete = {k: v["checksums"] for k, v in sorted(functions.items()) if len(v["checksums"]) == CHUNKS}
        _write(CHECKSUMS, complete)
        print(f"{name}: {entry['inputs']} inputs, {entry['wrong']} wrong, {entry['numpy_differences']} differ in NumPy")
    failed = [n for n, e in functions.items() if e["wrong"] or e["numpy_differences"]]
    print(f"wrong: {failed}" if failed else "every function that ran is correctly rounded")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
