"""Runs MLIR modules on vyre and compares all that they leave in memory with NumPy.

python run_modules.py                      # the modules of this folder
python run_modules.py --tests CHECKOUT     # what MLIR's own tests have, by way of mlir-opt
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from lowering import Kernel, lower
from operators import width
from reading import Refused, Shape, Unreadable, attribute, integers, name_of, read, stored, symbol
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation

import vyre
from machine import Machine, Undefined, base_of, functions, strided

HERE: Final = Path(__file__).resolve().parent
BACKENDS: Final = ("reference", "cpu", "cuda-machine")
FOLDERS: Final = (
    "Integration/GPU", "Integration/Dialect/Arith", "Integration/Dialect/Memref", "Integration/Dialect/Standard",
    "mlir-cpu-runner", "mlir-vulkan-runner", "mlir-spirv-cpu-runner",
    "Dialect/Arith", "Dialect/Math", "Dialect/SCF", "Dialect/MemRef", "Dialect/GPU", "Dialect/Func", "Dialect/Affine",
    "Dialect/Index", "Conversion", "Transforms",
)  # fmt: skip
"""The folders of ``mlir/test`` in which modules of the dialects are."""
MLIR_OPT: Final = ("mlir-opt-16", "mlir-opt")
PASSES: Final = ("--allow-unregistered-dialect", "-lower-affine", "-gpu-kernel-outlining", "--mlir-print-op-generic")
CLOSE: Final = {"float16": 2e-3, "float32": 5e-7, "float64": 1e-15}
"""The relative difference that NumPy's functions are allowed, such as its ``exp``; all else is equal bit for bit."""
DRAWS: Final = 4


class Different(Exception):
    """An answer of vyre that is not NumPy's."""


class Case(NamedTuple):
    """A launch with its memory before, and what NumPy leaves."""

    name: str
    kernel: Kernel
    grid: tuple[int, int, int]
    arguments: dict[str, Any]  # arrays and numbers, by buffer
    after: dict[str, Any]
    approximate: bool


class Runner:
    """Sessions on some backends, and all the cases that ran on them."""

    def __init__(self, backends: tuple[str, ...]) -> None:
        self.sessions = {name: vyre.open(name, cache=False) for name in backends}
        self.cases: list[Case] = []

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()

    # -- whole programs, kernels and functions --------------------------------------------------------

    def host(self, module: Operation, name: str, text: str) -> int:
        """Runs ``main`` of a module, compares each launch, and what is printed with the text's own expectations."""
        machine = Machine(module)

        def launch(func: Operation, grid: Any, block: Any, arguments: list[Any]) -> None:
            kernel = lower(func, machine.functions, block)
            given = bound(kernel, arguments, machine.globals)
            machine.launch(func, grid, block, arguments)
            after = bound(kernel, arguments, machine.globals)
            self.compared(Case(name, kernel, grid, given, after, machine.approximate), {})

        machine.on_launch = launch
        before = len(self.cases)
        machine.call(machine.functions["main"], [])
        expected = [
            each.strip()
            for each in re.findall(r"^\s*// CHECK[A-Z-]*: *(\[.*\])\s*$", text, re.M)
            if each.count("[") == each.count("]")
        ]
        printed = [each.replace(" ", "").replace("\n", "") for each in machine.printed]
        if len(expected) == len(printed):
            for wanted, got in zip(expected, printed, strict=True):
                check_line(wanted, got)
        return len(self.cases) - before

    def function(self, func: Operation, module: Operation, name: str, grid: Any = None, block: Any = (1, 1, 1)) -> None:
        """Runs a function on arguments drawn for it.  With a grid, it is a kernel."""
        machine = Machine(module)
        kernel = lower(func, machine.functions, block)
        if not kernel.written and not kernel.results:
            raise Refused(func, "a function that leaves nothing to compare", "store something")
        undefined = None
        for seed in range(DRAWS):
            machine = Machine(module)
            arguments = drawn(func, seed)
            given = bound(kernel, arguments, machine.globals)
            try:
                if grid:
                    machine.launch(func, grid, block, arguments)
                    results = []
                else:
                    results = machine.call(func, arguments)
            except Undefined as error:
                undefined = error
                continue
            if any(not isinstance(each, np.generic) for each in results):
                raise Refused(func, "a result that is no number", "pass memory as an argument")
            after = bound(kernel, arguments, machine.globals)
            after |= {key: np.array([value]) for key, value in zip(kernel.results, results, strict=True)}
            self.compared(Case(name, kernel, grid or (1, 1, 1), given, after, machine.approximate), after)
            return
        assert undefined is not None
        raise undefined

    def compared(self, case: Case, results: dict[str, Any]) -> None:
        empty = {key: np.zeros_like(results[key]) for key in case.kernel.results}
        for backend, session in self.sessions.items():
            race = {"race_check": True} if backend == "reference" else {}
            got = session.dispatch(case.kernel.program, case.arguments | empty, grid=case.grid, **race)
            for name in (*case.kernel.written, *case.kernel.results):
                same(case, name, case.after[name], got[name], backend)
        self.cases.append(case._replace(arguments=case.arguments | empty))


def bound(kernel: Kernel, arguments: list[Any], globals_: dict[str, Any]) -> dict[str, Any]:
    """Returns what the buffers of a program are given, with copies of memory."""
    counts = {buffer.name: buffer.count for buffer in kernel.program.buffers}
    given: dict[str, Any] = {}
    for buffer, source, part, axis in kernel.parameters:
        value = globals_[source] if isinstance(source, str) else arguments[source]
        if not isinstance(value, np.ndarray):
            given[buffer] = value.item()
        elif part == "data":
            whole = base_of(value).reshape(-1)
            given[buffer] = whole[: counts[buffer] or whole.size].copy()
        elif part == "size":
            given[buffer] = value.shape[axis]
        elif part == "stride":
            given[buffer] = value.strides[axis] // value.itemsize
        else:
            start = value.__array_interface__["data"][0] - base_of(value).__array_interface__["data"][0]
            given[buffer] = start // value.itemsize
    return given


def same(case: Case, name: str, wanted: Any, got: Any, backend: str) -> None:
    """Raises ``Different`` where bits differ, but for NaN and for functions whose last bit NumPy does not promise."""
    got = np.asarray(got).reshape(wanted.shape)
    if case.approximate and wanted.dtype.kind == "f":
        equal = np.allclose(got, wanted, rtol=CLOSE[wanted.dtype.name], atol=0, equal_nan=True)
    else:
        nan = np.isnan(wanted) if wanted.dtype.kind == "f" else np.zeros(wanted.shape, bool)
        equal = bool(np.all(nan == (got != got))) and wanted[~nan].tobytes() == got[~nan].tobytes()
    if not equal:
        raise Different(f"{case.name}: {name} on {backend} is {got}, and NumPy's is {wanted}")


def check_line(wanted: str, got: str) -> None:
    """Compares a printed array with an expectation of MLIR's tests, in which {{...}} is a regular expression."""
    parts = re.split(r"\{\{(.*?)\}\}(?!\})", wanted)
    pattern = "".join(
        part.replace(" ", "") if n % 2 else re.escape(part.replace(" ", "")) for n, part in enumerate(parts)
    )
    if re.fullmatch(pattern, got) is None:
        raise Different(f"printed {got}, expected {wanted}")


def drawn(func: Operation, seed: int) -> list[Any]:
    """Returns arguments for a function: small numbers, and arrays of them."""
    rng = np.random.default_rng(seed)
    inputs = func.regions[0].blocks[0].args[: len(attribute(func, "function_type").inputs)]
    made = []
    for argument in inputs:
        shape = Shape(func, argument.type) if isinstance(argument.type, MemRefType) else None
        element = shape.element if shape else stored(func, argument.type)
        sizes, strides, offset = filled(shape) if shape else ([], [], 0)
        count = offset + sum((n - 1) * stride for n, stride in zip(sizes, strides, strict=True)) + 1
        if element.is_float:
            values = rng.integers(-64, 64, count) / 8 + rng.integers(0, 2, count) / 1024
        elif width(element) == 1:
            values = rng.integers(0, 2, count)
        else:
            values = rng.integers(*((0, 4) if seed % 2 or not shape else (-100, 100)), count)
        values = values.astype(element.numpy_name)
        made.append(strided(values, offset, sizes, strides) if shape else values[0])
    return made


def filled(shape: Shape) -> tuple[list[int], list[int], int]:
    """Returns sizes, strides and offset of a memref, with numbers for those that are not known before it runs."""
    sizes = [6 if each is None else each for each in shape.sizes]
    strides = [math.prod(sizes[n + 1 :]) if each is None else each for n, each in enumerate(shape.strides)]
    return sizes, strides, 2 if shape.offset is None else shape.offset


# -- modules of this folder, and of MLIR's tests ------------------------------------------------------


def outcomes(runner: Runner, text: str, name: str, source: str) -> Iterator[tuple[str, str, str]]:
    """Yields what became of each function of a module: its name, a word, and the reason."""
    try:
        module = read(text, name)
    except Unreadable as error:
        yield name, "unreadable", str(error)[-200:]
        return
    every = functions(module)
    hosts = {symbol(op) for op in every.values() if any(name_of(each) == "gpu.launch_func" for each in op.walk())}
    called = {"main"} if hosts and "main" in every else set()
    launched: set[str] = set()
    for each in [*called, *(key for key in every if key not in hosts | called)]:
        func = every[each]
        if not func.regions[0].blocks or each in launched:
            continue
        label = f"{name.removesuffix('.mlir')}.{each}"
        try:
            if each in called:
                if not runner.host(module, label, source):
                    continue
                launched |= {key for key, op in every.items() if name_of(op) == "gpu.func"}
            elif name_of(func) == "gpu.func":
                sizes = integers(func, "gpu.known_block_size", "known_block_size")
                runner.function(func, module, label, (2, 1, 1), tuple(sizes) or (4, 1, 1))
            else:
                runner.function(func, module, label)
            yield label, "equal", ""
        except Refused as error:
            yield label, "refused", error.reason
        except Undefined as error:
            yield label, "undefined", error.reason
        except Different as error:
            yield label, "different", str(error)
        except vyre.VyreError as error:
            yield label, "refused", f"vyre: {type(error).__name__}: {str(error).splitlines()[0][:160]}"


def generic(text: str) -> str | None:
    """Returns a module in the generic form as ``mlir-opt`` writes it, or None if it does not take the text."""
    tool = next(filter(None, map(shutil.which, MLIR_OPT)), None)
    if tool is None:
        raise SystemExit("there is no mlir-opt. Fix: apt-get install mlir-16-tools.")
    done = subprocess.run([tool, *PASSES], input=text, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout if done.returncode == 0 else None


def tests_of(checkout: Path) -> Iterator[tuple[str, str]]:
    """Yields the parts of all files of MLIR's tests with their names."""
    root = next(
        (each for each in (checkout / "mlir" / "test", checkout / "test", checkout) if (each / "Dialect").is_dir()),
        None,
    )
    if root is None:
        raise SystemExit(f"{checkout} has no MLIR tests. Fix: pass a checkout of llvm-project, with mlir/test in it.")
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*.mlir")):
            parts = re.split(r"^// -----.*$", file.read_text("utf-8", "replace"), flags=re.M)
            for number, part in enumerate(parts):
                yield f"{file.relative_to(root).with_suffix('')}.{number}", part


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="*", type=Path, default=sorted((HERE / "modules").glob("*.mlir")))
    parser.add_argument("--tests", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--backends", nargs="+", default=BACKENDS)
    parser.add_argument("--record", type=Path)
    chosen = parser.parse_args()
    runner = Runner(tuple(chosen.backends))
    sources = tests_of(chosen.tests) if chosen.tests else ((file.name, file.read_text()) for file in chosen.files)
    counts, reasons, found, bad = Counter[str](), Counter[str](), Counter[str](), []
    for name, text in sources:
        if chosen.only not in name:
            continue
        found["modules"] += 1
        form = generic(text) if chosen.tests else text
        if form is None:
            found["modules that mlir-opt refuses"] += 1
            continue
        words = set()
        for label, became, why in outcomes(runner, form, name, text):
            counts[became] += 1
            words.add(became)
            if became in ("refused", "undefined"):
                reasons[f"{became}: {why}"] += 1
            elif became != "equal":
                bad.append(f"{label}: {became}: {why}")
                print(bad[-1], flush=True)
            if not chosen.tests:
                print(f"{label:40} {became} {why}", flush=True)
        found["modules with a function that ran equal"] += "equal" in words
        found["modules with a kernel of gpu that ran equal"] += "equal" in words and "gpu.func" in form
    runner.close()
    summary = {"found": dict(found), "functions": dict(counts), "reasons": dict(reasons.most_common()), "bad": bad}
    print(json.dumps({**summary, "reasons": dict(reasons.most_common(40))}, indent=1))
    if chosen.record:
        chosen.record.write_text(json.dumps(summary, indent=1) + "\n")
    return int(bool(counts["different"]))


if __name__ == "__main__":
    sys.exit(main())
