"""Kernels that another compiler lowered give NumPy's answers, and the same bytes on every engine.

``examples/tinygrad/record_kernels.py`` recorded them, with the bytes that the reference left in memory.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from typing import Final

import numpy as np
import pytest

import vyre
from support.recorded_kernels import recorded_case, recorded_programs, recorded_works
from vyre.ir import ScalarType

ORACLE_WORK: Final = 5_000
"""The scalar oracle runs the cases of at most so much work."""
RUNS: Final = [
    (backend, name)
    for backend in ("reference", "reference-scalar", "cpu", "cuda-machine")
    for name, work in recorded_works().items()
    if backend != "reference-scalar" or work <= ORACLE_WORK
]


@cache
def session_on(backend: str) -> vyre.Session:
    """The session of all cases on a backend: it compiles each program once."""
    return vyre.open(backend, cache=False)


def test_there_are_many_kernels_and_all_types_in_memory() -> None:
    programs = recorded_programs()
    assert len(programs) >= 200
    assert all(program.digest.hex().startswith(name) for name, program in programs.items())
    launched = {launch.program.digest for name in recorded_works() for launch in recorded_case(name).launches}
    assert launched == {program.digest for program in programs.values()}
    elements = {buffer.element for program in programs.values() for buffer in program.buffers}
    assert elements == {
        each for each in ScalarType if each not in (ScalarType.BOOL, ScalarType.BF16)
    }  # NumPy has no bf16


@pytest.mark.parametrize(("backend", "name"), RUNS)
def test_the_answer_is_numpys_and_the_bytes_are_the_references(backend: str, name: str) -> None:
    case, session = recorded_case(name), session_on(backend)
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
