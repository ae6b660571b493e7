"""Kernels that other compilers lowered give NumPy's answers, and the same bytes on every engine.

``examples/tinygrad/record_kernels.py`` and ``examples/xdsl/run_modules.py`` recorded them, with the bytes that the
reference left in memory.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import vyre
from support.recorded_kernels import MLIR, TINYGRAD, recorded_case, recorded_programs, recorded_works
from vyre.ir import ScalarType

ORACLE_WORK: Final = 5_000
"""The scalar oracle runs the cases of at most so much work."""
RUNS: Final = [
    pytest.param(backend, archive, name, id=f"{backend}-{name}")
    for backend in ("reference", "reference-scalar", "cpu", "cuda-machine")
    for archive in (TINYGRAD, MLIR)
    for name, work in recorded_works(archive).items()
    if backend != "reference-scalar" or work <= ORACLE_WORK
]


@cache
def session_on(backend: str) -> vyre.Session:
    """The session of all cases on a backend: it compiles each program once."""
    return vyre.open(backend, cache=False)


def test_there_are_many_kernels_and_all_types_in_memory() -> None:
    programs = recorded_programs(TINYGRAD)
    assert len(programs) >= 200
    elements = {buffer.element for program in programs.values() for buffer in program.buffers}
    assert elements == {
        each for each in ScalarType if each not in (ScalarType.BOOL, ScalarType.BF16)
    }  # NumPy has no bf16


def test_mlirs_own_tests_and_the_modules_of_the_example_are_there() -> None:
    own = {path.stem for path in (Path(__file__).parents[2] / "examples" / "xdsl" / "modules").glob("*.mlir")}
    modules = {name.rpartition("/")[2].split(".")[0] for name in recorded_works(MLIR)}
    assert len(modules & own) >= 15
    assert len({name.split(".")[0] for name in recorded_works(MLIR) if "/" in name}) >= 15


@pytest.mark.parametrize("archive", [TINYGRAD, MLIR], ids=lambda archive: archive.stem)
def test_every_program_is_launched_and_has_its_name(archive: Path) -> None:
    programs = recorded_programs(archive)
    assert all(program.digest.hex().startswith(name) for name, program in programs.items())
    cases = [recorded_case(archive, name) for name in recorded_works(archive)]
    launched = {launch.program.digest for case in cases for launch in case.launches}
    assert launched == {program.digest for program in programs.values()}


@pytest.mark.parametrize(("backend", "archive", "name"), RUNS)
def test_the_answer_is_numpys_and_the_bytes_are_the_references(backend: str, archive: Path, name: str) -> None:
    case, session = recorded_case(archive, name), session_on(backend)
    memory = {}
    for array, content in case.memory.items():
        memory[array] = session.resident(len(content))
        memory[array].upload(content)
    for launch in case.launches:
        arguments = {key: memory[value] if isinstance(value, str) else value for key, value in launch.arguments.items()}
        session.dispatch(launch.program, arguments, grid=launch.grid)
    answer = memory[case.answer].download().view(case.expected.dtype).reshape(case.expected.shape)
    np.testing.assert_allclose(answer, case.expected, rtol=case.close, atol=case.close)
    digest = sha256()
    for each in memory.values():
        digest.update(each.download().tobytes())
        each.close()
    assert digest.hexdigest() == case.after
