"""The kernels of ``tests/data/kernels``, which other compilers lowered, with inputs, and for many with answers."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

import numpy as np
import numpy.typing as npt

from support.programs import Case, Order
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.witnesses import buffer_bytes

FOLDER: Final = Path(__file__).parents[1] / "data" / "kernels"
TINYGRAD: Final = FOLDER / "cases.zip"
MLIR: Final = FOLDER / "mlir.zip"
NAMES: Final = tuple(sorted(path.stem for path in FOLDER.glob("*.vyre")))


def kernel(name: str) -> Program:
    """The program of a kernel."""
    return Program.from_text((FOLDER / f"{name}.vyre").read_text("utf-8"))


def kernel_case(name: str) -> Case:
    """A dispatch of two workgroups of a kernel on values at which arithmetic goes wrong."""
    program = kernel(name)
    inputs = {}
    for buffer in program.abi_buffers:
        assert isinstance(buffer.element, ScalarType)
        if buffer.takes_input:
            inputs[buffer.name] = buffer_bytes(buffer.binding, buffer.element, buffer.count)
    return Case(program, inputs, DispatchConfig(grid=(2, 1, 1)), Order.INDEPENDENT)


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of a recorded case: a program, arguments, of which texts name memory, and the grid."""

    program: Program
    arguments: dict[str, str | float]
    grid: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class RecordedCase:
    """Launches that compute an expression of another compiler.

    ``memory`` has the bytes of each array before the first launch.  The array ``answer`` holds the result at the end,
    and ``expected`` is NumPy's, from which it differs by at most ``close`` of its size.  ``after`` is the SHA-256 of
    all memory at the end, one array after the other.
    """

    memory: dict[str, bytes]
    launches: tuple[Launch, ...]
    answer: str
    expected: npt.NDArray[Any]
    close: float
    after: str


@cache
def recorded_works(archive: Path) -> dict[str, int]:
    """The number of statements over all lanes of each case of a file, one in a loop counted once, by name."""
    return {name: each["work"] for name, each in _listed(archive).items()}


@cache
def recorded_programs(archive: Path) -> dict[str, Program]:
    """The programs of a file, by the first sixteen digits of their digests."""
    with ZipFile(archive) as file:
        names = [name for name in file.namelist() if name.endswith(".vyre")]
        return {name.removesuffix(".vyre"): Program.from_text(file.read(name).decode()) for name in names}


def recorded_case(archive: Path, name: str) -> RecordedCase:
    """The case of a file that has a name."""
    case, arrays, programs = _listed(archive)[name], _arrays(archive), recorded_programs(archive)
    memory = {}
    for array, size in case["memory"].items():
        key = f"{name}/{array}"
        memory[array] = arrays[key].tobytes() if key in arrays else bytes(size)
    launches = (Launch(programs[each["program"]], each["arguments"], tuple(each["grid"])) for each in case["launches"])
    expected = arrays[f"{name}/answer"]
    return RecordedCase(memory, tuple(launches), case["answer"], expected, case["close"], case["after"])


@cache
def _listed(archive: Path) -> dict[str, dict[str, Any]]:
    with ZipFile(archive) as file:
        return {each["name"]: each for each in json.loads(file.read("cases.json"))}


@cache
def _arrays(archive: Path) -> dict[str, npt.NDArray[Any]]:
    with ZipFile(archive) as file:
        return dict(np.load(io.BytesIO(file.read("arrays.npz"))))
