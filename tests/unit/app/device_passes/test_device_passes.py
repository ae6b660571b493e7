"""Passes of the optimizer that run as kernels give the programs and the counts of those of the host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import pytest

import vyre
from support.optimizer.pass_corpus import difference, random_programs, written_programs
from support.profiles import SOAK
from vyre.app.device_passes.passes import passes_on
from vyre.domain.ir.program import Program
from vyre.domain.optimize.flat_program import flatten, unflatten
from vyre.domain.optimize.pass_list import PASSES
from vyre.domain.optimize.passes import Pass

NAMES = ("folding", "numbering", "dead_code")
Sessions: TypeAlias = Callable[[str], vyre.Session]


@pytest.fixture(scope="module")
def sessions() -> Iterator[Sessions]:
    found: dict[str, vyre.Session] = {}

    def session(backend: str) -> vyre.Session:
        if backend not in found:
            found[backend] = vyre.open(backend)
        return found[backend]

    yield session
    for each in found.values():
        each.close()


def check(ours: Pass, programs: Sequence[Program]) -> None:
    host = PASSES[ours.name]
    assert ours.version == host.version
    for program in programs:
        assert difference(program, host, ours) == ""
    assert sum(host.run(program, Counter()) is not program for program in programs) >= len(programs) // 20


@pytest.mark.parametrize("name", NAMES)
def test_a_pass_on_written_programs(sessions: Sessions, name: str) -> None:
    assert len(written_programs()) > 100
    check(passes_on(sessions("cpu"))[name], written_programs())


@pytest.mark.parametrize("walks", [1, 3, 200])
@pytest.mark.parametrize("name", NAMES)
def test_a_pass_on_random_programs(sessions: Sessions, name: str, walks: int) -> None:
    check(passes_on(sessions("cpu"), walks)[name], random_programs(150, 300)[walks % 4 :: 4 if SOAK else 8])


@pytest.mark.parametrize("name", NAMES)
def test_a_pass_on_the_reference(sessions: Sessions, name: str) -> None:
    check(passes_on(sessions("reference"))[name], random_programs(150, 300)[::30])


@pytest.mark.parametrize("name", NAMES)
def test_a_pass_on_the_emulated_device(sessions: Sessions, name: str) -> None:
    check(passes_on(sessions("cuda-machine"), 7)[name], random_programs(150, 300)[150::60])


HEAD = """program edge
workgroup_size 32, 1, 1
buffer y @0 read_write u32[4]
buffer z @1 read_write u32[runtime]
"""
EDGES = {
    "a store behind the end": ("folding", "y[2u + 2u] = 1u + 2u"),
    "a store to the last element": ("folding", "y[2u + 1u] = 1u + 2u"),
    "a negative index": ("folding", "z[1i - 2i] = 1u + 2u"),
    "a negative index of 64 bits": ("folding", "y[1i64 - 2i64] = 1u + 2u"),
    "an open length": ("folding", "z[4294967295u + 0u] = len(z) + len(y)"),
    "a loop that stands still": ("folding", "for k in 0u .. 4u step 1u - 1u { y[k] = 1u + 1u }"),
    "an operand that stands twice": ("folding", "y[0u] = len(y) * len(y)"),
    "the same load around a store": (
        "numbering",
        """
        let a = z[0u] * 3u
        z[1u] = a
        y[0u] = z[0u] * 3u + a""",
    ),
    "a branch that changes a local": (
        "numbering",
        """
        let a = gid.x
        y[0u] = a * 7u + 1u
        if gid.x < 2u {
          a := 3u
          y[1u] = a * 7u + 1u
        } else {
          y[2u] = a * 7u + 1u
        }
        y[3u] = a * 7u + 1u""",
    ),
    "a loop that changes a buffer": (
        "numbering",
        """
        let a = z[5u] * 3u + 1u
        for k in 0u .. 4u step 1u {
          y[k] = z[5u] * 3u + a
          z[k] = z[5u] * 3u + k
        }
        y[0u] = z[5u] * 3u + 1u""",
    ),
}


@pytest.mark.parametrize("backend", ["cpu", "reference", "cuda-machine"])
@pytest.mark.parametrize("edge", EDGES)
def test_a_pass_on_an_edge(sessions: Sessions, edge: str, backend: str) -> None:
    name, body = EDGES[edge]
    program = vyre.ir.Program.from_text(f"{HEAD}body {{\n{body}\n}}\n")
    assert vyre.validate(program).ok
    assert difference(program, PASSES[name], passes_on(sessions(backend))[name]) == ""


def test_columns_keep_a_program() -> None:
    for program in (*written_programs(), *random_programs(150, 300)):
        flat = flatten(program)
        assert unflatten(flat) == program
        assert len(flat.exprs) == len({id(expr) for expr in flat.exprs})
