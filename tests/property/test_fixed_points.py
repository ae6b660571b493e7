"""Fixed points of random graphs and random steps: every executor has the rounds and bytes of a loop by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.fixed_points import DISTANCES, LABELS, Graph, bound, keeping_session
from support.llvm import NEEDS_LLVM
from vyre import DispatchConfig, FixpointExecutor, PlanError, Program, ProgramBuilder, Session, Step, u32
from vyre.domain import guarding
from vyre.domain.validation.validator import validate

BACKENDS: Final = ["reference", "reference-scalar", pytest.param("cpu", marks=NEEDS_LLVM), "cuda-machine"]


@pytest.fixture(scope="module", params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with keeping_session(request.param) as opened:
        yield opened


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    nodes = draw(st.integers(1, 40))
    ends = st.integers(0, nodes - 1)
    return Graph.of(nodes, draw(st.lists(st.tuples(ends, ends), max_size=60)))


@settings(max_examples=25)
@given(graph=graphs(), limit=st.integers(1, 45), distances=st.booleans(), early_exit=st.booleans())
def test_random_graphs(session: Session, graph: Graph, limit: int, distances: bool, early_exit: bool) -> None:
    program = DISTANCES if distances else LABELS
    values, rounds, converged = graph.answer(program, limit)
    for executor in (None, *FixpointExecutor):
        try:
            found = bound(session, graph, program, limit, executor=executor, early_exit=early_exit)
        except PlanError:
            continue
        result = found.run()
        assert result.iterations == (rounds if early_exit else limit)
        assert result.converged == (converged if early_exit else graph.answer(program, limit)[2])
        np.testing.assert_array_equal(found.content(), values)


# ---------------------------------------------------------------- random steps that count their rounds
class Recipe:
    """Steps of various shapes on two arrays, and what they do to them in plain NumPy."""

    @staticmethod
    def reverse() -> Program:
        """Within each workgroup, through workgroup memory, with a barrier in the middle."""
        with ProgramBuilder("reverse", workgroup=8) as p:
            x = p.inout("x", u32)
            shared = p.workgroup("shared", u32, 8)
            shared[p.local_id()] = x[p.global_id()]
            p.barrier()
            x[p.global_id()] = shared[7 - p.local_id()] * 3 + 1
        return p.build()

    @staticmethod
    def early() -> Program:
        """Odd lanes return at once."""
        with ProgramBuilder("early", workgroup=4) as p:
            x = p.inout("x", u32)
            i = p.global_id()
            with p.if_((i & 1) == 1):
                p.return_()
            x[i] = x[i] ^ (i + 5)
        return p.build()

    @staticmethod
    def grid() -> Program:
        """A loop, constants, a grid of its own."""
        with ProgramBuilder("grid", workgroup=4) as p:
            k = p.param("k", u32)
            x = p.inout("x", u32)
            total = p.var(k)
            with p.for_(0, 5) as j:
                total.assign(total + x[j])
            x[p.group_id()] = total
        return p.build()


REVERSE, EARLY, GRID = Recipe.reverse(), Recipe.early(), Recipe.grid()
TICK: Final = Program.from_text("""
    workgroup_size 1, 1, 1
    param most @0 u32
    buffer n @1 read_write u32[1]
    buffer changed @2 read_write u32[1]
    body { if gid.x == 0u { n[0u] = n[0u] + 1u if n[0u] < most { changed[0u] = 0x100u } } }
""")


@settings(max_examples=25)
@given(
    kinds=st.lists(st.sampled_from(["reverse", "early", "grid", "thrice"]), min_size=1, max_size=4),
    most=st.integers(1, 9),
    limit=st.integers(1, 9),
    seed=st.integers(0, 2**32 - 1),
)
def test_random_steps(session: Session, kinds: list[str], most: int, limit: int, seed: int) -> None:
    """All executors agree with as many rounds of a plain sequence; the tick step decides how many."""
    start = np.random.default_rng(seed).integers(0, 2**32, 32, np.uint32)
    rounds = min(most, limit)

    def steps(x: Any) -> list[Step]:
        made = {
            "reverse": Step(REVERSE, {"x": x}),
            "early": Step(EARLY, {"x": x}),
            "grid": Step(GRID, {"k": seed, "x": x}, grid=6),
            "thrice": Step(EARLY, {"x": x}, DispatchConfig(fixpoint_iterations=3)),
        }
        return [made[kind] for kind in kinds]

    plain = session.resident(start)
    session.sequence(steps(plain))(rounds)
    for executor in (None, *FixpointExecutor):
        x, n = session.resident(start), session.resident(np.zeros(1, np.uint32))
        changed = session.resident(np.full(1, 3, np.uint32))
        tick = Step(TICK, {"most": most, "n": n, "changed": changed})
        try:
            run = session.fixpoint([tick, *steps(x)], changed=changed, limit=limit, executor=executor)
        except PlanError:
            continue
        result = run()
        assert (result.iterations, result.converged) == (rounds, most <= limit)
        np.testing.assert_array_equal(x.download(), plain.download())
        assert changed.download()[0] == (0 if most <= limit else 0x100)


# ---------------------------------------------------------------- steps that one kernel can run
def _steps_between() -> dict[str, Program]:
    """Steps on one array or from one to another, of which a kernel that runs all of them has to keep the order."""
    made: dict[str, Program] = {}
    with ProgramBuilder("mapped", workgroup=8) as p:
        x = p.inout("x", u32)
        with p.if_(p.global_id() < x.length):
            x[p.global_id()] = x[p.global_id()] * 3 + p.global_id()
    made["mapped"] = p.build()
    with ProgramBuilder("halves", workgroup=8) as p:
        x = p.inout("x", u32)
        with p.if_(p.global_id() < 5):
            x[p.global_id()] = x[p.global_id()] + x[p.global_id() + 20]
    made["halves"] = p.build()
    with ProgramBuilder("shifted", workgroup=8) as p:
        x, y = p.input("x", u32), p.inout("y", u32)
        with p.if_(p.global_id() < y.length):
            y[p.global_id()] = y[p.global_id()] ^ x[p.global_id() + 1]
    made["shifted"] = p.build()
    with ProgramBuilder("summed", workgroup=8) as p:
        x, y = p.input("x", u32), p.inout("y", u32)
        with p.if_(p.global_id() < x.length):
            y.atomic_add(p.global_id() & 3, x[p.global_id()])
    made["summed"] = p.build()
    with ProgramBuilder("odd", workgroup=8) as p:
        x = p.input("x", u32)
        y = p.output("y", u32, like=x)
        with p.if_((p.global_id() < x.length) & ((x[p.global_id()] & 1) == 1)):
            y[p.global_id()] = x[p.global_id()] + 7
    made["odd"] = p.build()
    return made


BETWEEN: Final = _steps_between()
TICK_OF_EIGHT: Final = Program.from_text(TICK.to_text().replace("workgroup_size 1, 1, 1", "workgroup_size 8, 1, 1"))


@settings(max_examples=20)
@given(
    kinds=st.lists(st.tuples(st.sampled_from(sorted(BETWEEN)), st.permutations(range(3))), min_size=1, max_size=4),
    most=st.integers(1, 7),
    limit=st.integers(1, 7),
    seed=st.integers(0, 2**32 - 1),
)
def test_random_steps_in_one_kernel(
    session: Session, kinds: list[tuple[str, list[int]]], most: int, limit: int, seed: int
) -> None:
    """Only a step whose zeroed output an earlier step uses as well cannot be joined."""
    start = np.random.default_rng(seed).integers(0, 2**32, (3, 37), np.uint32)
    rounds = min(most, limit)

    def steps(arrays: list[Any]) -> list[Step]:
        found = []
        for kind, (one, other, _) in kinds:
            memory = {"x": arrays[one], "y": arrays[other]}
            names = {buffer.name for buffer in BETWEEN[kind].abi_buffers}
            found.append(Step(BETWEEN[kind], {name: memory[name] for name in names}))
        return found

    plain, joined = ([session.resident(each) for each in start] for _ in range(2))
    session.sequence(steps(plain), modes={"fused": False})(rounds)
    n, changed = session.resident(np.zeros(1, np.uint32)), session.resident(np.full(1, 3, np.uint32))
    tick = Step(TICK_OF_EIGHT, {"most": most, "n": n, "changed": changed})
    try:
        run = session.fixpoint([tick, *steps(joined)], changed=changed, limit=limit, executor="cooperative")
    except PlanError as error:
        assert "its output `y` starts at zero" in str(error)
        assert any(kind == "odd" for kind, _ in kinds)
        return
    result = run()
    assert (result.iterations, result.converged) == (rounds, most <= limit)
    for one, other in zip(plain, joined, strict=True):
        np.testing.assert_array_equal(other.download(), one.download())


# ---------------------------------------------------------------- guards
@pytest.mark.parametrize("program", [REVERSE, EARLY, GRID, TICK, LABELS], ids=lambda program: program.name or "tick")
def test_guarded_steps_are_programs_that_do_nothing_or_the_same(session: Session, program: Program) -> None:
    made = guarding.guarded(program)
    assert made is not None
    assert validate(made).ok
    assert made.digest != program.digest
    assert guarding.guarded(program) is made
    for go in (0, 1):
        control = np.array([go] + [0] * (guarding.CONTROL_WORDS - 1), np.uint32)
        data = {
            buffer.name: np.arange(1, 9, dtype=np.uint32)[: buffer.count or 8] if not buffer.is_push else 3
            for buffer in program.abi_buffers
        }
        before = {name: np.copy(value) for name, value in data.items()}
        name = made.abi_buffers[-1].name
        found = session.dispatch(made, data | {name: control}, grid=2)
        same = session.dispatch(program, before, grid=2)
        for buffer in program.abi_buffers:
            if buffer.is_returned:
                expected = same[buffer.name] if go else before[buffer.name]
                np.testing.assert_array_equal(found[buffer.name], expected)


@pytest.mark.parametrize(
    "text",
    [
        "workgroup_size 4, 1, 1 buffer y @0 write u32[4] body { y[gid.x] = 1u }",
        "workgroup_size 1, 1, 1 buffer x @0 read_write u32[4] body { x[1u] = 1u barrier(grid_sync) x[gid.x] = x[0u] }",
    ],
    ids=["output", "grid barrier"],
)
def test_what_cannot_be_guarded(text: str) -> None:
    assert guarding.guarded(Program.from_text(text)) is None


def test_the_name_of_the_control_buffer_is_free() -> None:
    program = Program.from_text("""
        workgroup_size 4, 1, 1
        buffer grid_control @3 read_write u32[4]
        buffer control1 @1 read u32[4]
        body { grid_control[gid.x] = control1[gid.x] }
    """)
    made = guarding.guarded(program)
    assert made is not None and [b.name for b in made.abi_buffers] == ["control1", "grid_control", "grid_control_"]
