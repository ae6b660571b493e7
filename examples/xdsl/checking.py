"""Compares what vyre leaves in memory with what the NumPy machine leaves there, launch by launch."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))

import numpy as np
from lowering import Kernel, lower
from operations import Malformed, Refused, Shape, attribute, integers, name_of, stored, symbol
from operators import width
from reading import Unreadable, read
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation

import vyre
from machine import ELEMENTS, STEPS, Machine, Undefined, base_of, bits_of_bf16, floats, functions, offset_of, strided
from recorded_cases import described, named, write
from vyre.ir import ScalarType

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
    left: dict[str, Any] | None = None  # what the first backend leaves


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
        machine, before = Machine(module), len(self.cases)

        def launch(func: Operation, grid: Any, block: Any, arguments: list[Any]) -> None:
            kernel = lower(func, machine.functions, block)
            given = bound(kernel, arguments, machine.globals)
            machine.launch(func, grid, block, arguments)
            after = bound(kernel, arguments, machine.globals)
            number = len(self.cases) - before
            self.compared(Case(f"{name}.{number}", kernel, grid, given, after, machine.approximate), {})

        machine.on_launch = launch
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
                if machine.steps > STEPS:
                    break
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
            given, race = case.arguments | empty, backend == "reference"
            got = session.dispatch(case.kernel.program, given, grid=case.grid, race_check=race)
            for name in (*case.kernel.written, *case.kernel.results):
                same(case, name, case.after[name], got[name], backend)
            case = case._replace(left=case.left or dict(got))
        if case.kernel.written or case.kernel.results:
            self.cases.append(case._replace(arguments=case.arguments | empty))

    def record(self, path: Path) -> None:
        """Writes the cases whose programs no other case has; what the first backend left is what all must leave."""
        cases, programs, arrays = [], dict[str, Any](), dict[str, Any]()
        for case in self.cases:
            program = case.kernel.program
            if named(program) in programs:
                continue
            programs[named(program)] = program
            memory = {name: each for name, each in case.arguments.items() if isinstance(each, np.ndarray)}
            arrays |= {f"{case.name}/{name}": each.view(np.uint8) for name, each in memory.items() if each.any()}
            answer = [*case.kernel.written, *case.kernel.results][-1]
            arrays[f"{case.name}/answer"] = case.after[answer]
            launch = (
                program,
                {name: name if name in memory else each for name, each in case.arguments.items()},
                case.grid,
            )
            close = CLOSE[case.after[answer].dtype.name] if case.approximate else 0.0
            left = (np.asarray((case.left or {}).get(name, each)).tobytes() for name, each in memory.items())
            sizes = {name: each.nbytes for name, each in memory.items()}
            cases.append(described(case.name, sizes, [launch], answer, close, left))
        write(path, cases, programs, arrays)


def bound(kernel: Kernel, arguments: list[Any], globals_: dict[str, Any]) -> dict[str, Any]:
    """Returns what the buffers of a program are given, with copies of memory."""
    counts = {buffer.name: buffer.count for buffer in kernel.program.buffers}
    given: dict[str, Any] = {}
    for buffer, source, part, axis in kernel.parameters:
        value = globals_[source] if isinstance(source, str) else arguments[source]
        if not isinstance(value, np.ndarray):
            given[buffer] = floats(value).item()
        elif part == "data":
            whole = base_of(value).reshape(-1)
            given[buffer] = whole[: counts[buffer] or whole.size].copy()
        elif part == "size":
            given[buffer] = value.shape[axis]
        elif part == "stride":
            given[buffer] = value.strides[axis] // value.itemsize
        else:
            given[buffer] = offset_of(value)
    return given


def same(case: Case, name: str, wanted: Any, got: Any, backend: str) -> None:
    """Raises ``Different`` where bits differ, but for NaN and for functions whose last bit NumPy does not promise."""
    got, wanted = floats(np.asarray(got).reshape(wanted.shape)), floats(wanted)
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
        if not 0 <= count <= ELEMENTS or min(strides, default=0) < 0:
            raise Refused(
                func, f"memory that runs backwards, or has more than {ELEMENTS} elements", "pass a part of it"
            )
        if element.is_float:
            values: Any = rng.integers(-64, 64, count) / 8 + rng.integers(0, 2, count) / 1024
        elif width(element) == 1:
            values = rng.integers(0, 2, count)
        else:
            values = rng.integers(*((0, 4) if seed % 2 or not shape else (-100, 100)), count)
        values = bits_of_bf16(values) if element is ScalarType.BF16 else values.astype(element.numpy_name)
        made.append(strided(values, offset, sizes, strides) if shape else values[0])
    return made


def filled(shape: Shape) -> tuple[list[int], list[int], int]:
    """Returns sizes, strides and offset of a memref, with numbers for those that are not known before it runs."""
    sizes = [6 if each is None else each for each in shape.sizes]
    strides = [math.prod(sizes[n + 1 :]) if each is None else each for n, each in enumerate(shape.strides)]
    return sizes, strides, 2 if shape.offset is None else shape.offset


def outcomes(runner: Runner, text: str, name: str, source: str) -> Iterator[tuple[str, str, str]]:
    """Yields what became of each function of a module: its name, a word, and the reason."""
    try:
        module = read(text, name)
    except (Unreadable, Malformed) as error:
        yield name, "unreadable", error.reason
        return
    every = functions(module)
    hosts = {symbol(op) for op in every.values() if any(name_of(each) == "gpu.launch_func" for each in op.walk())}
    called = {"main"} if hosts and "main" in every and not attribute(every["main"], "function_type").inputs else set()
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
            elif name_of(func) == "gpu.func" and not attribute(func, "function_type").outputs.data:
                sizes = integers(func, "gpu.known_block_size", "known_block_size")
                runner.function(func, module, label, (2, 1, 1), tuple(sizes) or (4, 1, 1))
            else:
                runner.function(func, module, label)
            yield label, "equal", ""
        except (Refused, Malformed) as error:
            yield label, "refused", error.reason
        except Undefined as error:
            yield label, "undefined", error.reason
        except Different as error:
            yield label, "different", str(error)
        except vyre.VyreError as error:
            codes = re.findall(r"\bV\d{3}\b", str(error))
            yield label, "refused", " ".join(["vyre:", type(error).__name__, *sorted(set(codes))])
