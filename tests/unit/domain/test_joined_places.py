"""Nodes that a pass has joined keep the places of all their origins."""

from __future__ import annotations

from collections import Counter

import pytest

from vyre import Program, ProgramBuilder, TrapError, u32
from vyre.domain.fusion.joining import join_stages
from vyre.domain.fusion.stages import JoinedStages, StageCall
from vyre.domain.ir.location_table import table_of
from vyre.domain.optimize.pass_list import PASSES
from vyre.domain.source_location import MOST_PLACES, joined_places
from vyre.ir import Assign, If, Let, SourceLocation, Store, walk_statements


def at(line: int) -> SourceLocation:
    return SourceLocation("prog.mini", line)


def lines(loc: SourceLocation | None) -> list[int]:
    assert loc is not None
    return [place.line for place in loc.places]


def test_places_are_flat_distinct_and_few() -> None:
    assert joined_places() is None and joined_places(None, None) is None
    one = joined_places(None, at(1), at(1))
    assert one == at(1) and lines(one) == [1]
    two, other = joined_places(at(1), at(2)), joined_places(at(3), at(2), at(4))
    both = joined_places(two, other)
    assert lines(both) == [1, 2, 3, 4] and both is not None and not any(place.others for place in both.others)
    assert lines(joined_places(*map(at, range(1, 100)))) == list(range(1, MOST_PLACES + 1))
    assert lines(joined_places(joined_places(at(5), at(6)), at(5))) == [5, 6]


def test_errors_name_the_first_places() -> None:
    error = TrapError(tag="t", address=0, global_id=(0, 0, 0))
    place = joined_places(*map(at, (4, 2, 7, 9)))
    assert place is not None
    error.place(place)
    assert error.message.startswith("prog.mini:4, prog.mini:2, prog.mini:7, ...: ")


def after(name: str, program: Program) -> Program:
    changed = PASSES[name].run(program, Counter())
    assert changed is not program
    return changed


def written_back(program: Program) -> Program:
    """The program after it was written with its locations, which several places of one node must survive."""
    read = Program.from_wire(program.to_wire(locations=True))
    assert table_of(read) == table_of(program)
    return read


def test_a_value_that_is_shared_has_the_places_of_all_its_uses() -> None:
    with ProgramBuilder("p", workgroup=64) as p:
        x, y = p.input("x", u32), p.inout("y", u32)
        for line in (1, 2, 3):
            with p.at(at(line)):
                y[p.global_id() + line] = x[p.global_id()] * x[p.global_id() + 9]
    changed = written_back(after("numbering", p.build()))
    shared = [stmt for stmt in changed.body if isinstance(stmt, Let)]
    assert [1, 2, 3] in [lines(stmt.loc) for stmt in shared]
    assert [lines(stmt.loc) for stmt in changed.body if isinstance(stmt, Store)] == [[1], [2], [3]]


def test_conditions_and_branches_that_become_one_statement_keep_their_places() -> None:
    with ProgramBuilder("p", workgroup=64) as p:
        y = p.inout("y", u32)
        i = p.global_id()
        with p.at(at(1)):
            below = i < 9
        with p.at(at(2)):
            above = i > 3
        with p.if_(below, loc=at(1)), p.if_(above, loc=at(2)):
            y[i] = 1
            y[i + 1] = 2
    changed = written_back(after("branches", p.build()))
    (merged,) = [stmt for stmt in walk_statements(changed.body) if isinstance(stmt, If)]
    assert lines(merged.loc) == [1, 2] and lines(merged.condition.loc) == [1, 2]

    with ProgramBuilder("p", workgroup=64) as p:
        y = p.inout("y", u32)
        v = p.var(y[0], loc=at(1))
        with p.if_(p.global_id() < 9, loc=at(2)):
            v.assign(3, loc=at(3))
        with p.else_():
            v.assign(4, loc=at(5))
        y[p.global_id()] = v
    changed = written_back(after("branches", p.build()))
    (chosen,) = [stmt for stmt in walk_statements(changed.body) if isinstance(stmt, Assign)]
    assert lines(chosen.loc) == [2, 3, 5]


def test_equal_branches_keep_the_places_of_both() -> None:
    with ProgramBuilder("p", workgroup=64) as p:
        y = p.inout("y", u32)
        i = p.global_id()
        with p.if_(i < 9, loc=at(1)), p.at(at(2)):
            y[i] = 7
        with p.else_(), p.at(at(4)):
            y[i] = 7
    changed = written_back(after("branches", p.build()))
    (store,) = [stmt for stmt in walk_statements(changed.body) if isinstance(stmt, Store)]
    assert lines(store.loc) == [2, 4]


@pytest.mark.parametrize("name", ["numbering", "branches"])
def test_no_digest_depends_on_places(name: str) -> None:
    def program(first: int) -> Program:
        with ProgramBuilder("p", workgroup=64) as p:
            y = p.inout("y", u32)
            for line in (first, first + 1):
                with p.at(at(line)):
                    y[p.global_id()] = y[p.global_id() + 1] * 3 + y[p.global_id() + 1] * 3
        return p.build()

    assert PASSES[name].run(program(1), Counter()).digest == PASSES[name].run(program(50), Counter()).digest


def test_joined_stages_keep_the_places_of_programs_arrays_and_guards() -> None:
    def stage(first: int, source: str, target: str) -> StageCall:
        with ProgramBuilder("p", workgroup=64, loc=at(first)) as p:
            x, y = p.input("x", u32, loc=at(first + 1)), p.output("y", u32, like="x", loc=at(first + 2))
            with p.if_(p.global_id() < x.length, loc=at(first + 3)):
                y[p.global_id()] = x[p.global_id()] + 1
        return StageCall(p.build(), (16, 1, 1), (64, 1, 1), (1000, 1000), (source, target), nbytes=(4000, 4000))

    fused = join_stages([stage(1, "a", "b"), stage(11, "b", "c")], ())
    assert isinstance(fused, JoinedStages)
    assert lines(fused.program.loc) == [1, 11]
    assert [3, 12] in [lines(buffer.loc) for buffer in fused.program.buffers]
    (guard,) = [stmt for stmt in walk_statements(fused.program.body) if isinstance(stmt, If)]
    assert lines(guard.loc) == [4, 14]
    written_back(fused.program)
