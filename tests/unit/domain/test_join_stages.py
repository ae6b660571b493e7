"""Launches joined into one program: what becomes of values, memory, guards and barriers."""

from __future__ import annotations

import pytest

import vyre
from vyre.domain.fusion.joining import join_stages
from vyre.domain.fusion.stages import CannotJoin, JoinedStages, StageBarrier, StageCall
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType

S = ScalarType
N = 1000


def scaled(factor: float, element: ScalarType = S.F32, workgroup: int = 256) -> Program:
    """y[i] = x[i] * factor + 0.5"""
    with ProgramBuilder("scaled", workgroup=workgroup) as p:
        x = p.input("x", element)
        y = p.output("y", element, like=x)
        i = p.let(p.global_id(), "i")
        with p.if_(i < x.length):
            y[i] = x[i] * factor + 0.5
    return p.build()


def stage(program: Program, *names: str, count: int = N, groups: int = 0, **given: object) -> StageCall:
    """A launch on arrays of ``count`` elements each; None stands for a parameter."""
    sizes = [buffer.element.size for buffer in program.abi_buffers if isinstance(buffer.element, ScalarType)]
    counts = tuple(1 if b.is_push else count for b in program.abi_buffers)
    return StageCall(
        program,
        (groups or -(-count // program.workgroup_size[0]), 1, 1),
        program.workgroup_size,
        counts,
        names,
        nbytes=tuple(size * n for size, n in zip(sizes, counts, strict=True)),
        **given,  # type: ignore[arg-type]
    )


def joined(stages: list[StageCall], temporary: tuple[str, ...] = ()) -> JoinedStages:
    found = join_stages(stages, temporary)
    assert isinstance(found, JoinedStages), found
    return found


def refused(stages: list[StageCall]) -> CannotJoin:
    found = join_stages(stages)
    assert isinstance(found, CannotJoin)
    return found


def chain(length: int, element: ScalarType = S.F32) -> list[StageCall]:
    return [stage(scaled(k + 1.0, element), f"t{k}", f"t{k + 1}") for k in range(length)]


def test_a_chain_of_maps_is_one_branch_with_one_load_and_one_store() -> None:
    found = joined(chain(4), ("t1", "t2", "t3"))
    text = found.program.to_text()
    assert text.count("if ") == 1
    assert text.count("x[") == 1 and sum(line.strip().startswith("y_3[") for line in text.splitlines()) == 1
    assert found.unallocated == {"t1", "t2", "t3"}
    assert found.arguments == ((0, 0), (3, 1))
    assert found.barriers == (StageBarrier.NONE,) * 3
    assert [b.is_output for b in found.program.abi_buffers] == [False, False]  # every element is stored: no zeroing


def test_what_is_read_later_is_stored_but_not_loaded() -> None:
    text = joined(chain(2)).program.to_text()
    assert text.count("x[") == 1
    assert len(joined(chain(2)).program.abi_buffers) == 3


@pytest.mark.parametrize("element", [S.F16, S.BF16])
def test_a_narrow_temporary_still_rounds(element: ScalarType) -> None:
    text = joined(chain(2, element), ("t1",)).program.to_text()
    assert f"narrow<{element.text}>" in text


def test_arrays_of_other_lengths_keep_their_own_bounds() -> None:
    short = StageCall(scaled(2.0), (4, 1, 1), (256, 1, 1), (N, 900), ("a", "b"), nbytes=(4 * N, 3600))
    with ProgramBuilder("read", workgroup=256) as p:
        b, c = p.input("b", S.F32), p.inout("c", S.F32)
        i = p.let(p.global_id(), "i")
        with p.if_(i < c.length):
            c[i] = b[i]
    found = joined([short, StageCall(p.build(), (4, 1, 1), (256, 1, 1), (900, N), ("b", "c"))], ("b",))
    text = found.program.to_text()
    assert "select(" in text and "0.0f" in text
    assert found.unallocated == {"b"}
    assert "900u" in text  # the temporary is gone, and no buffer has its length


def neighbours() -> Program:
    with ProgramBuilder("neighbours", workgroup=256) as p:
        x, y = p.input("x", S.F32), p.inout("y", S.F32)
        i = p.let(p.global_id(), "i")
        y[i] = x[i] + x[i + 1]
    return p.build()


def test_a_stage_that_reads_neighbours_waits_for_the_grid() -> None:
    found = joined([stage(scaled(2.0), "a", "b"), stage(neighbours(), "b", "c")], ("b",))
    assert found.barriers == (StageBarrier.GRID,)
    assert found.unallocated == frozenset()
    assert "grid_sync" in found.program.to_text()


def test_lanes_of_one_workgroup_wait_for_each_other() -> None:
    with ProgramBuilder("reversed", workgroup=256) as p:
        x, y = p.input("x", S.F32), p.inout("y", S.F32)
        y[p.global_id()] = x[p.group_id() * 256 + (255 - p.local_id())]
    found = joined([stage(scaled(2.0), "a", "b"), stage(p.build(), "b", "c")])
    assert found.barriers == (StageBarrier.WORKGROUP,)


def reversed_in_groups(element: ScalarType = S.F32) -> Program:
    with ProgramBuilder("reversed", workgroup=256) as p:
        x, y = p.input("x", element), p.inout("y", element)
        y[p.global_id()] = x[p.group_id() * 256 + (255 - p.local_id())]
    return p.build()


@pytest.mark.parametrize("element", [S.F32, S.F16])
def test_a_temporary_of_one_workgroup_lives_in_workgroup_memory(element: ScalarType) -> None:
    stages = [stage(scaled(2.0, element), "a", "b"), stage(reversed_in_groups(element), "b", "c")]
    found = joined(stages, ("b",))
    assert found.unallocated == {"b"} and found.barriers == (StageBarrier.WORKGROUP,)
    (held,) = (b for b in found.program.buffers if b.is_workgroup)
    assert (held.count, held.element) == (256, element)
    assert len(found.program.abi_buffers) == 2
    small = join_stages(stages, ("b",), shared_nbytes=256)
    assert isinstance(small, JoinedStages) and small.unallocated == frozenset()


def test_a_temporary_that_the_grid_waits_for_stays_in_memory() -> None:
    stages = [
        stage(scaled(2.0), "a", "b"),
        stage(reversed_in_groups(), "b", "c"),
        stage(neighbours(), "c", "d"),
        stage(reversed_in_groups(), "b", "e"),
    ]
    found = joined(stages, ("b",))
    assert StageBarrier.GRID in found.barriers and found.unallocated == frozenset()


def test_overwriting_what_others_still_read_waits_too() -> None:
    stages = [stage(neighbours(), "a", "b"), stage(scaled(1.0), "c", "a")]
    assert joined(stages).barriers == (StageBarrier.GRID,)


def test_a_return_ends_its_own_stage_alone() -> None:
    with ProgramBuilder("early", workgroup=256) as p:
        x, y = p.input("x", S.F32), p.inout("y", S.F32)
        i = p.let(p.global_id(), "i")
        with p.if_(x[i] > 3.0):
            p.return_()
        y[i] = x[i]
    found = joined([stage(p.build(), "a", "b"), stage(scaled(2.0), "a", "c")])
    assert "return" not in found.program.to_text()


def test_a_smaller_grid_becomes_a_guard_with_its_own_number_of_groups() -> None:
    with ProgramBuilder("groups", workgroup=256) as p:
        y = p.inout("y", S.U32)
        y[p.global_id()] = p.num_groups()
    few = stage(p.build(), "a", groups=2)
    many = stage(p.build(), "b", groups=4)
    text = joined([few, many]).program.to_text()
    assert "if wid.x < 2u" in text and "= 2u" in text
    assert joined([few, many]).grid == (4, 1, 1)


def test_one_memory_as_two_types_is_held_as_unsigned() -> None:
    with ProgramBuilder("bits", workgroup=256) as p:
        x = p.inout("x", S.U32)
        i = p.let(p.global_id(), "i")
        with p.if_(i < x.length):
            x[i] = x[i] ^ 1
    found = joined([stage(scaled(2.0), "a", "b"), stage(p.build(), "b")])
    assert {b.element for b in found.program.abi_buffers} == {S.F32, S.U32}
    assert "bitcast<u32>" in found.program.to_text()


def test_one_memory_with_elements_of_two_sizes_is_refused() -> None:
    with ProgramBuilder("bytes", workgroup=256) as p:
        x = p.inout("x", S.U8)
        x[p.global_id()] = x[p.global_id()] + 1
    found = refused([stage(scaled(2.0), "a", "b"), stage(p.build(), "b", count=4 * N)])
    assert found.stage == 1 and "1 instead of 4 bytes" in found.reason


def trapping() -> Program:
    with ProgramBuilder("trap", workgroup=256) as p:
        x = p.inout("x", S.F32)
        with p.if_(x[0] > 1.0):
            p.trap(0, "bad")
    return p.build()


def order_sensitive() -> Program:
    with ProgramBuilder("ticket", workgroup=256) as p:
        x, y = p.inout("x", S.U32), p.inout("y", S.U32)
        y[p.global_id()] = x.atomic_add(0, 1)
    return p.build()


@pytest.mark.parametrize(
    ("program", "reason"),
    [(trapping(), "it may trap"), (order_sensitive(), "its result depends on the order of atomics")],
)
def test_stages_that_stay_apart(program: Program, reason: str) -> None:
    names = [f"z{k}" for k in range(len(program.abi_buffers))]
    assert refused([stage(scaled(2.0), "a", "b"), stage(program, *names)]) == CannotJoin(reason, 1)


def counted(op: str) -> Program:
    with ProgramBuilder(op, workgroup=256) as p:
        x, y = p.input("x", S.U32), p.inout("y", S.U32)
        getattr(y, f"atomic_{op}")(x[p.global_id()], 1)
    return p.build()


def test_atomics_that_do_not_commute_stay_apart() -> None:
    alike = joined([stage(counted("add"), "a", "b"), stage(counted("add"), "c", "b")])
    assert alike.barriers == (StageBarrier.NONE,)
    found = refused([stage(counted("add"), "a", "b"), stage(counted("max"), "c", "b")])
    assert found.stage == 1 and "order of atomics" in found.reason


def with_barrier(workgroup: int) -> Program:
    with ProgramBuilder("barrier", workgroup=workgroup) as p:
        x, y = p.input("x", S.F32), p.inout("y", S.F32)
        shared = p.workgroup("shared", S.F32, workgroup)
        shared[p.local_id()] = x[p.global_id()]
        p.barrier()
        y[p.global_id()] = shared[workgroup - 1 - p.local_id()]
    return p.build()


def test_other_workgroups_with_barriers_are_refused() -> None:
    found = refused([stage(with_barrier(64), "a", "b"), stage(with_barrier(128), "b", "c")])
    assert found.stage == 1 and "other workgroups" in found.reason
    mixed = joined([stage(scaled(2.0, workgroup=256), "a", "b"), stage(with_barrier(64), "b", "c")])
    assert mixed.program.workgroup_size == (64, 1, 1)


def parameters(count: int) -> Program:
    with ProgramBuilder("parameters", workgroup=256) as p:
        y = p.inout("y", S.F64)
        total = p.param("p0", S.F64)
        for k in range(1, count):
            total = total + p.param(f"p{k}", S.F64)
        y[p.global_id()] = total
    return p.build()


def test_parameters_beyond_the_limit_become_constants_if_they_are_known() -> None:
    program = parameters(20)
    names = ("a", *["-"] * 20)
    assert "320 bytes" in refused([stage(program, *names), stage(program, "b", *names[1:])]).reason
    known = [{f"p{k}": Literal.of(S.F64, float(100 * number + k)) for k in range(20)} for number in range(2)]
    stages = [stage(program, n, *names[1:], values=v) for n, v in zip("ab", known, strict=True)]
    found = joined(stages)
    assert sum(b.is_push for b in found.program.abi_buffers) == 32


def test_zeroing_of_an_output_that_others_use_before_is_refused() -> None:
    with ProgramBuilder("even", workgroup=256) as p:
        x = p.input("x", S.F32)
        y = p.output("y", S.F32, like=x)
        i = p.let(p.global_id(), "i")
        with p.if_(i % 2 == 0):
            y[i] = x[i]
    even = p.build()
    assert refused([stage(scaled(2.0), "a", "b"), stage(even, "a", "b")]).stage == 1
    alone = joined([stage(even, "a", "b"), stage(scaled(2.0), "b", "c")])
    assert [b.is_output for b in alone.program.abi_buffers] == [False, True, False]


def test_an_index_that_is_in_range_for_some_lanes_stores_not_everything() -> None:
    with ProgramBuilder("some", workgroup=256) as p:
        x = p.input("x", S.F32)
        y = p.output("y", S.F32, like=x)
        i = p.let(p.global_id().cast(S.U64), "i")
        y[vyre.select(i < 5, i, (1 << 64) - 1)] = x[i]
    found = joined([stage(p.build(), "a", "b"), stage(scaled(2.0), "b", "c")])
    assert [b.is_output for b in found.program.abi_buffers] == [False, True, False]


def test_specialization_constants_keep_their_values() -> None:
    with ProgramBuilder("spec", workgroup=256) as p:
        y = p.inout("y", S.U32)
        y[p.global_id()] = p.spec("k", 1) + 0
    stages = [stage(p.build(), n, spec={"k": Literal.of(S.U32, v)}) for n, v in (("a", 5), ("b", 7))]
    text = joined(stages).program.to_text()
    assert "5u" in text and "7u" in text


def test_nothing_is_joined_of_nothing() -> None:
    assert join_stages([]) == CannotJoin("there is no stage", 0)


def test_a_stage_with_fewer_elements_takes_the_values_inside_its_own_guard() -> None:
    with ProgramBuilder("fewer", workgroup=256) as p:
        b, c = p.input("b", S.F32), p.inout("c", S.F32)
        i = p.let(p.global_id(), "i")
        with p.if_(i >= c.length):
            p.return_()
        c[i] = b[i]
    few = StageCall(p.build(), (4, 1, 1), (256, 1, 1), (N, 900), ("b", "c"), nbytes=(4 * N, 3600))
    found = joined([stage(scaled(2.0), "a", "b"), few], ("b",))
    text = found.program.to_text()
    assert found.unallocated == {"b"} and text.count("if ") == 2 and "select" not in text
    more = StageCall(p.build(), (5, 1, 1), (256, 1, 1), (N, 1100), ("b", "c"), nbytes=(4 * N, 4400))
    assert joined([stage(scaled(2.0), "a", "b"), more], ("b",)).unallocated == frozenset()


def rows(width: int | None, shift: int = 0) -> Program:
    """y[row, column] = x[row, column + shift] * 2; without a width, it is a parameter."""
    with ProgramBuilder("rows", workgroup=(16, 16)) as p:
        x, y = p.input("x", S.F32), p.inout("y", S.F32)
        columns = p.param("columns", S.U32) if width is None else width
        of_x, of_y = p.view2d(x, columns), p.view2d(y, columns)
        column, row = p.let(p.global_id(0), "column"), p.let(p.global_id(1), "row")
        of_y[row, column] = of_x[row, column + shift] * 2.0
    return p.build()


def image(program: Program, *names: str, values: dict[str, Literal] | None = None) -> StageCall:
    held = (*names, "-") if len(program.abi_buffers) == 3 else names
    found = stage(program, *held, values=values or {})
    return StageCall(
        program, (3, 2, 1), (16, 16, 1), found.counts, found.buffers, found.values, found.spec, found.nbytes
    )


def test_rows_and_columns_belong_to_lanes_if_the_width_is_known() -> None:
    both: tuple[tuple[int | None, dict[str, Literal]], ...] = ((40, {}), (None, {"columns": Literal.of(S.U32, 40)}))
    for width, known in both:
        stages = [image(rows(width), "a", "b", values=known), image(rows(width), "b", "c", values=known)]
        found = joined(stages, ("b",))
        assert found.barriers == (StageBarrier.NONE,) and found.unallocated == {"b"}
    unknown = [image(rows(None), "a", "b"), image(rows(None), "b", "c")]
    assert joined(unknown, ("b",)).barriers == (StageBarrier.GRID,)
    neighbour = [image(rows(40), "a", "b"), image(rows(40, shift=1), "b", "c")]
    assert joined(neighbour, ("b",)).barriers == (StageBarrier.GRID,)
    narrower = [image(rows(40), "a", "b"), image(rows(20), "b", "c")]  # the same elements under other coordinates
    assert joined(narrower, ("b",)).barriers == (StageBarrier.GRID,)


def test_grids_of_other_shapes_are_refused() -> None:
    """Lanes for every row of the one and every element of the other would mostly do nothing."""
    found = refused([image(rows(40), "a", "b"), stage(scaled(2.0, workgroup=16), "b", "c")])
    assert found == CannotJoin("its grid has another shape than those of the stages before", 1)


def test_indices_without_a_bound_on_columns_are_shared_by_lanes() -> None:
    with ProgramBuilder("flat", workgroup=(16, 16)) as p:
        x, y = p.input("x", S.F32), p.inout("y", S.F32)
        at = p.let(p.global_id(1) * 40 + p.global_id(0), "at")  # 48 lanes a row
        y[at] = x[at]
    stages = [image(p.build(), "a", "b"), image(p.build(), "b", "c")]
    assert joined(stages).barriers == (StageBarrier.GRID,)


def between_guards(kind: str) -> Program:
    """A value that is read between two equal guards, of which the first changes it."""
    with ProgramBuilder(kind, workgroup=64) as p:
        x, y = p.input("x", S.U32), p.inout("y", S.U32)
        i = p.let(p.global_id(), "i")
        if kind == "variable":
            held = p.var(p.let(i, "start"), "held")
            with p.if_(i < x.length):
                held.assign(x[i])
            read = p.let(held + 1, "read")
        else:
            memory = p.array("memory", S.U32, 1)
            with p.if_(i < x.length):
                memory[0] = x[i]
            read = p.let(memory[0] + 1, "read")
        with p.if_(i < x.length):
            y[i] = read
    return p.build()


@pytest.mark.parametrize("kind", ["variable", "private"])
def test_what_is_read_between_guards_is_what_the_first_one_left(kind: str) -> None:
    program = between_guards(kind)
    text = joined([stage(program, "a", "b"), stage(program, "b", "c")]).program.to_text()
    lines = [line.strip() for line in text.splitlines()]
    changed = next(n for n, line in enumerate(lines) if ":= x[" in line or "= x[i]" in line)
    read = next(n for n, line in enumerate(lines) if line.startswith("let read ="))
    assert changed < read, text
