"""Launches joined to rounds of one program: its arguments, its barriers, its zeroing, and what cannot be joined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre
from support.optimizer.stage_chains import Array, call
from vyre import DispatchConfig
from vyre.domain.fusion.rounds import JoinedRounds, LoopArgument, join_rounds
from vyre.domain.fusion.stages import CannotJoin, StageCall
from vyre.domain.ir.program import Program

X, Y, FLAG = Array("x", 4, 4 * 64), Array("y", 4, 4 * 64), Array("flag", 4, 4)
MOVE = Program.from_text("""
    program move
    workgroup_size 8, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 read_write u32[runtime]
    body { if gid.x < len(y) { y[gid.x] = x[gid.x + 1u] } }
""")
BACK = Program.from_text("""
    program back
    workgroup_size 8, 1, 1
    buffer y @0 read u32[runtime]
    buffer x @1 read_write u32[runtime]
    buffer changed @2 read_write u32[1]
    body { if gid.x < len(x) { if x[gid.x] != y[gid.x] { changed[0u] = 1u } x[gid.x] = y[gid.x] } }
""")
CORNER = Program.from_text("""
    program corner
    workgroup_size 4, 2, 1
    buffer x @0 read_write u32[runtime]
    buffer y @1 write f32[20]
    body { if gid.x == 7u and gid.y == 3u { x[0u] = x[0u] + 1u y[x[0u]] = 2.0f } }
""")


def rounds(*stages: StageCall, flag: str = "flag") -> JoinedRounds:
    found = join_rounds(stages, flag)
    assert isinstance(found, JoinedRounds), found
    return found


def test_the_arguments_of_the_loop_come_last() -> None:
    found = rounds(call(MOVE, [X, Y], grid=8), call(BACK, [Y, X, FLAG], grid=8))
    assert found.arguments == ((0, 0), (0, 1), (1, 2), LoopArgument.LIMIT, LoopArgument.ROUNDS)
    assert (found.grid, found.barriers, found.program.name) == ((8, 1, 1), 1, "move+back")
    assert [b.name for b in found.program.abi_buffers if b.is_push] == ["round_limit"]
    other = rounds(call(MOVE, [X, Y], grid=8))
    assert other.arguments == ((0, 0), (0, 1), LoopArgument.FLAG, LoopArgument.LIMIT, LoopArgument.ROUNDS)
    assert other.barriers == 0, "the one that ends a round is not counted"


def test_names_that_the_stages_use_are_left_to_them() -> None:
    text = MOVE.to_text().replace("buffer y ", "buffer round_limit ").replace("y[", "round_limit[")
    found = rounds(call(Program.from_text(text.replace("len(y)", "len(round_limit)")), [X, Y], grid=8))
    assert {"round_limit", "round_limit_"} <= {buffer.name for buffer in found.program.abi_buffers}


@pytest.mark.parametrize("grid", [(2, 2, 1), (2, 1, 2)], ids=["rows", "layers"])
def test_outputs_are_zeroed_by_the_lanes_of_all_axes(grid: tuple[int, int, int]) -> None:
    """With a stage that stores to one element a round, only that of the last round is left."""
    text = (
        CORNER.to_text() if grid[1] == 2 else CORNER.to_text().replace("4, 2, 1", "4, 1, 2").replace("gid.y", "gid.z")
    )
    output = Array("y", 4, 80)
    found = rounds(call(Program.from_text(text), [X, output], grid=grid))
    assert not any(buffer.is_output for buffer in found.program.abi_buffers) and found.barriers == 1
    x, y = np.zeros(64, np.uint32), np.full(20, 9, np.float32)
    with vyre.open("reference") as session:
        given: dict[str, Any] = {
            "x": x,
            "y": y,
            "round_flag": np.ones(1, np.uint32),
            "round_limit": 3,
            "rounds_run": np.zeros(1, "u4"),
        }
        result = session.dispatch(found.program, given, DispatchConfig(grid=found.grid))
        assert result["rounds_run"] == [1], "nothing sets the flag"
        assert result["y"].tolist() == [0, 2, *[0] * 18]
        result = session.dispatch(
            found.program, given | {"x": result["x"], "y": result["y"]}, DispatchConfig(grid=grid)
        )
        assert result["y"].tolist() == [0, 0, 2, *[0] * 17]


def test_a_flag_of_another_type_is_refused() -> None:
    text = BACK.to_text().replace("changed @2 read_write u32", "changed @2 read_write f32").replace("= 1u", "= 1.0f")
    found = join_rounds([call(MOVE, [X, Y], grid=8), call(Program.from_text(text), [Y, X, FLAG], grid=8)], "flag")
    assert found == CannotJoin("`changed` is the flag, and holds f32", 1)


def test_lanes_beyond_32_bits_are_refused() -> None:
    found = join_rounds([call(CORNER, [X, Array("y", 4, 80)], grid=(1 << 15, 1 << 15, 1))], "flag")
    assert found == CannotJoin("its lanes have no numbers of 32 bits", 0)


def test_no_stage_is_no_round() -> None:
    assert join_rounds([], "flag") == CannotJoin("there is no stage", 0)
