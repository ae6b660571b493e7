"""Waves of launches joined to one program: rounds, tables, the division of workgroups, and what cannot be joined."""

from __future__ import annotations

import random
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from support.optimizer.stage_chains import Array, call
from vyre.domain.fusion.stages import CannotJoin, Refused, StageCall
from vyre.domain.fusion.wave_rounds import Blocks, Round, divided, pieces_of, shortest_round, unrolled
from vyre.domain.fusion.waves import JoinedWaves, WaveArgument, join_waves
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.program_report import InvalidProgram

X, Y, Z = (Array(name, 4, 4 * 64) for name in "xyz")
MOVE = Program.from_text("""
    program move
    workgroup_size 8, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 read_write u32[runtime]
    body { if gid.x < len(y) { y[gid.x] = x[63u - gid.x] } }
""")
LEVEL = Program.from_text("""
    program level
    workgroup_size 8, 1, 1
    buffer x @0 read_write u32[runtime]
    param n @1 u32
    body { if gid.x < n { x[gid.x] = x[gid.x] + num_groups.x } }
""")


def move(source: Array, target: Array, grid: int = 8) -> StageCall:
    return call(MOVE, [source, target], grid=grid)


def level(n: int, grid: int) -> StageCall:
    return call(LEVEL, [X, Literal(ScalarType.U32, n)], grid=grid)


def waves(*found: list[StageCall], **options: Any) -> JoinedWaves:
    made = join_waves(found, **options)
    assert isinstance(made, JoinedWaves), made
    return made


THERE, BACK = [move(X, Y)], [move(Y, X)]


# ---------------------------------------------------------------- rounds
@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ([THERE], Round(1, 1, 0)),
        ([THERE, BACK], Round(2, 1, 0)),
        ([THERE] * 5, Round(1, 5, 0)),
        ([THERE, BACK] * 3, Round(2, 3, 0)),
        ([THERE, BACK, THERE, BACK, THERE], Round(2, 2, 1)),
        ([THERE, THERE, BACK] * 2 + [THERE], Round(3, 2, 1)),
        ([[level(3, 1)], [level(7, 2)], [level(9, 3)]], Round(1, 3, 0)),
    ],
)
def test_the_shortest_round_is_found(found: list[list[StageCall]], wanted: Round) -> None:
    assert shortest_round(found) == wanted


@pytest.mark.parametrize("seed", range(20))
def test_rounds_and_pieces_stand_for_all_waves(seed: int) -> None:
    rng = random.Random(seed)
    kinds = [THERE, BACK, [move(X, Z)], [level(3, 1)]]
    found = [rng.choice(kinds[: rng.randint(1, 4)]) for _ in range(rng.randint(1, 40))]
    width, times, rest = shortest_round(found)
    assert width * times + rest == len(found)
    assert all(found[at] is found[at % width] for at in range(len(found)))
    for most in (1, 3, 8):
        pieces = pieces_of(found, most)
        assert [at for piece in pieces for at in piece] == list(range(len(found)))
        for piece in pieces:
            part = found[piece.start : piece.stop]
            shortest = shortest_round(part)
            assert len(piece) <= most or shortest.waves + shortest.rest <= most


def test_a_short_round_is_written_out() -> None:
    def of(found: list[list[StageCall]], times: int = 1) -> tuple[int, Round, int, int]:
        given, round_, rows, loops = unrolled(found, times, 32)
        return len(given), round_, rows, loops

    assert of([THERE] * 8) == (8, Round(4, 2, 0), 2, 2)
    assert of([THERE] * 7) == (7, Round(2, 3, 1), 3, 3)
    assert of([THERE], 12) == (4, Round(4, 1, 0), 1, 3)
    assert of([THERE], 7) == (1, Round(1, 1, 0), 1, 7)
    assert of([THERE, BACK], 6) == (4, Round(4, 1, 0), 1, 3)
    assert of([THERE, BACK, THERE], 6) == (3, Round(3, 1, 0), 1, 6), "a cut round is not repeated"


# ---------------------------------------------------------------- the program
def test_waves_without_a_round_have_barriers_between_them() -> None:
    found = waves(THERE, [move(Y, Z)], [move(Z, X)])
    assert (found.barriers, found.rounds, found.stages, found.table) == (2, 1, 3, b"")
    assert found.program.to_text().count("barrier(grid_sync)") == 2
    assert found.arguments == ((0, 0), (0, 1), (1, 1))
    assert "grid_loop" not in found.program.to_text()


def test_rounds_are_a_loop() -> None:
    found = waves(*[THERE, BACK] * 100)
    assert (found.rounds, found.stages, found.barriers) == (50, 4, 203)
    assert found.arguments == ((0, 0), (0, 1), WaveArgument.FLAG)
    text = found.program.to_text()
    assert "grid_loop(1u," in text and "in 0u .. 50u" in text and text.count("barrier(grid_sync)") == 3
    assert waves(THERE, BACK, times=100).program.digest == found.program.digest


def test_what_differs_is_in_a_table() -> None:
    found = waves(*([level(8 * k + 3, k + 1)] for k in range(1, 6)))
    assert (found.rounds, found.stages, found.grid) == (2, 3, (6, 1, 1))
    assert found.arguments[-2:] == (WaveArgument.TABLE, WaveArgument.FLAG)
    words = memoryview(found.table).cast("I").tolist()
    assert len(words) % 2 == 0 and {11, 19, 27, 35} <= set(words)
    # A value that is the same in all rounds stays a parameter.
    alike = waves(*([level(9, k + 1)] for k in range(1, 6)))
    assert (0, 1) in alike.arguments


def test_a_wave_takes_as_many_workgroups_as_it_has_and_no_more_than_there_may_be() -> None:
    wave = [move(X, Y, 5), move(X, Z, 3)]
    assert waves(wave, BACK).grid == (8, 1, 1)
    small = waves(wave, BACK, most_groups=4)
    assert small.grid == (4, 1, 1) and "for wave_group" in small.program.to_text()


@pytest.mark.parametrize("seed", range(30))
def test_workgroups_are_divided_in_proportion(seed: int) -> None:
    rng = random.Random(seed)
    groups = [rng.choice((0, 1, 2, 5, 50, 1000)) for _ in range(rng.randint(1, 8))]
    wave: Any = [SimpleNamespace(grid=(count, 1, 1)) for count in groups]
    most = rng.randint(max(1, sum(count > 0 for count in groups)), 1200)
    found = divided(wave, most)
    assert [blocks.groups for blocks in found] == groups
    assert found[0].first == 0 and all(one.first + one.share == other.first for one, other in pairwise(found))
    assert sum(blocks.share for blocks in found) == min(most, sum(groups))
    for blocks in found:
        assert (blocks.share > 0) is (blocks.groups > 0) and blocks.share <= blocks.groups
        if sum(groups) > most:  # never more than one workgroup from the exact share, besides the one that each has
            exact = most * blocks.groups / sum(groups)
            assert abs(blocks.share - exact) <= 1 + len(groups)


def test_more_launches_than_workgroups_are_refused() -> None:
    wave: Any = [SimpleNamespace(grid=(9, 1, 1))] * 3
    assert divided(wave, 3) == [Blocks(0, 1, 9), Blocks(1, 1, 9), Blocks(2, 1, 9)]
    with pytest.raises(Refused):
        divided(wave, 2)


# ---------------------------------------------------------------- what cannot be joined
def test_refusals_name_the_launch() -> None:
    traps = Program.from_text("""
        workgroup_size 8, 1, 1
        buffer x @0 read_write u32[runtime]
        body { if x[gid.x] == 5u { trap(1u, "five") } }
    """)
    other = Program.from_text(MOVE.to_text().replace("workgroup_size 8", "workgroup_size 4"))
    for found, stage, why in (
        ([THERE, [call(traps, [Y], grid=8)], BACK], 1, "it may trap"),
        ([THERE, [call(other, [Y, X], grid=8)]], 1, "workgroups of"),
        ([[move(X, Y)], []], 0, "a wave without a launch"),
        ([], 0, "no wave"),
    ):
        made = join_waves(found)
        assert isinstance(made, CannotJoin) and made.stage == stage and why in made.reason, made
    many = [[call(MOVE, [Array(f"a{k}", 4, 256), Array(f"a{k + 1}", 4, 256)], grid=8)] for k in range(40)]
    made = join_waves(many)
    assert isinstance(made, CannotJoin) and made.stage == 32 and "the code of 40 launches" in made.reason


def test_programs_that_are_not_valid_are_refused() -> None:
    bad = Program.from_text(MOVE.to_text().replace("y[gid.x] = x[63u - gid.x]", "y[gid.x] = 1.0f"))
    with pytest.raises(InvalidProgram):
        join_waves([[call(bad, [X, Y], grid=8)], BACK])
