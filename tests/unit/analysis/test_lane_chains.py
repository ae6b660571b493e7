"""What a lane does one operation after the other."""

from __future__ import annotations

import pytest

from vyre.adapters.cpu.llvm.program_facts import vector_inputs
from vyre.adapters.cpu.native.features import CpuFeatures
from vyre.domain.analysis.lane_chains import LaneChains, lane_chains
from vyre.domain.ir.program import Program
from vyre.domain.ir.text import parse_program


def program(body: str, declarations: str = "", shape: str = "64, 1, 1") -> Program:
    return parse_program(
        f"""workgroup_size {shape}
        buffer x @0 read u32[runtime]
        buffer y @1 read_write u32[runtime]
        buffer f @2 read_write f32[runtime]
        buffer p @- private u32[4]
        {declarations}
        body {{ {body} }}"""
    )


AVX2 = CpuFeatures("x86_64", ("avx", "avx2"), 256)
SUM = "let s = 0u for k in 0u .. 9u { s := s + k } y[gid.x] = s"
CASES = {
    "no loop": ("y[gid.x] = x[gid.x]", LaneChains()),
    "a loop that carries nothing": ("for k in 0u .. 9u { y[gid.x + k] = k }", LaneChains(loops_access_memory=True)),
    "a sum": (SUM, LaneChains(1)),
    "a local of the round": (
        "for k in 0u .. 9u { let s = k s := s + 1u y[k] = s }",
        LaneChains(loops_access_memory=True),
    ),
    "a local of the outer round": (
        "for j in 0u .. 9u { let s = 0u for k in 0u .. 9u { s := s + k } y[j] = s }",
        LaneChains(1, loops_access_memory=True),
    ),
    "a name that two loops declare": (
        "for j in 0u .. 9u { let s = 0u s := s + j } let s = 0u for k in 0u .. 9u { s := s + k }",
        LaneChains(1),
    ),
    "an assignment under a condition": (
        "let s = 0u for k in 0u .. 9u { if x[k] == 1u { s := s + k } } y[0u] = s",
        LaneChains(1, loops_access_memory=True),
    ),
    "a load of one element": ("let s = 0u for k in 0u .. 9u { s := s + x[3u] } y[0u] = s", LaneChains(1)),
    "a load in a loop": (
        "let s = 0u for k in 0u .. 9u { s := s + x[k] } y[0u] = s",
        LaneChains(1, loops_access_memory=True),
    ),
    "an atomic in a loop": (
        "for k in 0u .. 9u { let old = atomic_add(y, 0u, 1u) }",
        LaneChains(loops_access_memory=True),
    ),
    "the most of any loop": (
        "let a = 0u let b = 0u let c = 0u for k in 0u .. 9u { a := a + k }"
        " for k in 0u .. 9u { b := b + k c := c + b } y[0u] = a + b + c",
        LaneChains(2),
    ),
    "an assignment outside of loops": ("let s = 0u s := x[0u] y[0u] = s", LaneChains()),
    "a function": ("f[gid.x] = sin(f[gid.x])", LaneChains(functions=True)),
    "a square root": ("f[gid.x] = sqrt(f[gid.x])", LaneChains()),
    "bounds from memory at an index of the lane": (
        "for k in x[gid.x] .. x[gid.x + 1u] { y[k] = k }",
        LaneChains(ragged_loops=True, loops_access_memory=True, scattered=True),
    ),
    "elements of rows": (
        "let s = 0u for k in x[gid.x] .. x[gid.x + 1u] { s := s + x[x[k]] } y[gid.x] = s",
        LaneChains(1, ragged_loops=True, loops_access_memory=True, scattered=True, windowed=True),
    ),
    "elements of rows that start together": (
        "let s = 0u for k in 0u .. x[gid.x] { s := s + x[k] } y[gid.x] = s",
        LaneChains(1, ragged_loops=True, loops_access_memory=True),
    ),
    "elements of rows, and an index from memory in another loop": (
        "let s = 0u for k in x[gid.x] .. x[gid.x + 1u] { s := s + x[k] } for k in 0u .. 9u { y[x[k]] = s }",
        LaneChains(1, ragged_loops=True, loops_access_memory=True, scattered=True),
    ),
    "elements of rows in memory that is written": (
        "let s = 0u for k in x[gid.x] .. x[gid.x + 1u] { s := s + y[k] } y[gid.x] = s",
        LaneChains(1, ragged_loops=True, loops_access_memory=True, scattered=True),
    ),
    "bounds by a local from memory": (
        "let n = x[lid.x] + 1u let m = n * 2u for k in 0u .. m { y[k] = k }",
        LaneChains(ragged_loops=True, loops_access_memory=True),
    ),
    "bounds by an atomic": (
        "let n = atomic_add(y, 0u, 1u) for k in 0u .. n { y[k] = 1u }",
        LaneChains(ragged_loops=True, loops_access_memory=True),
    ),
    "a load at an index from memory": (
        "for k in 0u .. 9u { let j = x[gid.x] let v = f[j + k] }",
        LaneChains(loops_access_memory=True, scattered=True),
    ),
    "a store at an index from memory": (
        "let j = x[gid.x] for k in 0u .. 9u { y[j] = k }",
        LaneChains(loops_access_memory=True, scattered=True),
    ),
    "an atomic at an index from memory": (
        "for k in 0u .. 9u { let old = atomic_add(y, x[gid.x + k], 1u) }",
        LaneChains(loops_access_memory=True, scattered=True),
    ),
    "an index from memory outside of loops": (
        "y[x[gid.x]] = 1u for k in 0u .. 9u { y[gid.x] = k }",
        LaneChains(loops_access_memory=True),
    ),
    "an index from memory into memory of the lane": (
        "let j = x[gid.x] for k in 0u .. 9u { p[j & 3u] = k }",
        LaneChains(),
    ),
    "bounds from one element": ("for k in 0u .. x[0u] { y[gid.x + k] = k }", LaneChains(loops_access_memory=True)),
    "bounds of the workgroup from memory": (
        "for k in 0u .. x[wid.x] { y[k] = k }",
        LaneChains(loops_access_memory=True),
    ),
    "bounds that differ without memory": ("for k in gid.x .. 99u { y[k] = k }", LaneChains(loops_access_memory=True)),
    "bounds that differ by a number in memory": (
        "for k in gid.x .. gid.x + x[3u] { y[k] = k }",
        LaneChains(loops_access_memory=True),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_chains(name: str) -> None:
    body, expected = CASES[name]
    found = program(body)
    assert lane_chains(found) == expected
    assert lane_chains(found) is lane_chains(found)


def test_words_of_programs_with_values_of_64_bits() -> None:
    assert lane_chains(program(SUM, "buffer w @3 read u64[4]")) == LaneChains(2)
    assert lane_chains(program("let w = 9u64 " + SUM)) == LaneChains(2)


def test_loops_in_loops_of_great_depth() -> None:
    body = "y[0u] = 1u"
    for level in range(30):
        body = f"let s{level} = 0u for k{level} in 0u .. 2u {{ s{level} := s{level} + 1u {body} }}"
    assert lane_chains(program(body)) == LaneChains(1, loops_access_memory=True)


@pytest.mark.parametrize(
    ("shape", "lanes", "row"),
    [("64, 1, 1", 64, 0), ("8, 4, 1", 32, 8), ("8, 1, 4", 32, 8), ("1, 64, 1", 64, 1), ("1, 1, 1", 1, 0)],
)
def test_inputs_of_the_vector_width(shape: str, lanes: int, row: int) -> None:
    found = vector_inputs(program(SUM, shape=shape), AVX2, forced=4, joined=True)
    assert (found.workgroup_lanes, found.row_lanes, found.vector_bits) == (lanes, row, 256)
    assert (found.forced, found.joined, found.subgroup_operations) == (4, True, False)
    assert found.chains == LaneChains(1)
    assert not found.slow_gathers and not found.in_step
    assert vector_inputs(program(SUM), AVX2._replace(slow_gathers=True)).slow_gathers
    tickets = program("y[gid.x] = atomic_add(y, 0u, 1u)")
    assert vector_inputs(tickets, AVX2).in_step
    assert vector_inputs(program("y[gid.x] = subgroup_add(x[0u])"), AVX2).subgroup_operations
