"""Validation ends after little work with a report for every program that can be constructed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.counting import at_most
from support.fuzzing.form_corpus import CORPUS
from support.kernels import GRID_SYNC, LID, TRUE, add, kernel, lit, store, var, when
from support.profiles import examples
from vyre.domain.analysis.uniformity import uniformity
from vyre.domain.identity import program_digest
from vyre.domain.ir import expr as x
from vyre.domain.ir import stmt as s
from vyre.domain.ir.limits import check_writable, is_known_valid
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.operators import AtomicOp, BinaryOp, Ordering, SubgroupOp, UnaryOp
from vyre.domain.ir.program import Access, Buffer, BufferHints, MemoryKind, Program
from vyre.domain.ir.types import EXECUTABLE_TYPES, ReservedType, ScalarType
from vyre.domain.ir.wire_encoder import encode_body
from vyre.domain.program_report import InvalidProgram
from vyre.domain.validation.validator import check_rules, validate
from vyre.gallery.registry import examples as gallery

VALID: Final = {
    **{name: program for name, program in CORPUS.items() if validate(program).ok},
    **{name: example.program() for name, example in gallery().items()},
}
CALLS = 3_000_000
"""Of functions, that a validation may take."""
_names = st.sampled_from(["a", "b", "sh", "x", "y", "", "é\n", "b#self-exclusive"])
_ints = st.integers(-2, 5) | st.integers()
_texts = _names | st.text(max_size=3)
_literals = st.sampled_from([lit(0), lit(1), lit(2.0, ScalarType.F32), lit(1, ScalarType.U64), TRUE])
_orderings = st.sampled_from(Ordering)


def _expressions(below: st.SearchStrategy[x.Expr]) -> st.SearchStrategy[x.Expr]:
    dtypes = st.sampled_from(ScalarType)
    return st.one_of(
        st.builds(x.Load, _names, below),
        st.builds(x.Binary, st.sampled_from(BinaryOp), below, below),
        st.builds(x.Unary, st.sampled_from(UnaryOp), below),
        st.builds(x.Select, below, below, below),
        st.builds(x.Cast, dtypes, below),
        st.builds(x.Bitcast, dtypes, below),
        st.builds(x.Fma, below, below, below),
        st.builds(x.Atomic, st.sampled_from(AtomicOp), _names, below, st.none() | below, below, _orderings),
        st.builds(x.SubgroupReduce, st.sampled_from(SubgroupOp), below),
        st.builds(x.SubgroupBallot, below),
        st.builds(x.SubgroupShuffle, below, below),
    )


_leaves: st.SearchStrategy[x.Expr] = st.one_of(
    _literals,
    st.builds(x.Var, _names),
    st.builds(x.BufferLength, _names),
    st.builds(x.LaunchId, st.sampled_from(x.IdKind), _ints),
    st.just(x.SubgroupLane()),
    st.just(x.SubgroupSize()),
    st.builds(x.SpecConst, _names, _literals),
)
_any_expression = st.recursive(_leaves, _expressions, max_leaves=5)


def _statements(below: st.SearchStrategy[s.Stmt]) -> st.SearchStrategy[s.Stmt]:
    body = st.lists(below, max_size=4).map(tuple)
    value = _any_expression
    return st.one_of(
        st.builds(s.If, value, body, body),
        st.builds(s.Loop, _names, value, value, value, body),
        st.builds(s.Block, body),
        st.builds(s.Region, _texts, body),
    )


_simple: st.SearchStrategy[s.Stmt] = st.one_of(
    st.builds(s.Let, _names, _any_expression),
    st.builds(s.Assign, _names, _any_expression),
    st.builds(s.Store, _names, _any_expression, _any_expression),
    st.sampled_from([s.Break(), s.Continue(), s.Return()]),
    st.builds(s.Barrier, _orderings),
    st.builds(s.AsyncLoad, _names, _names, _any_expression, _any_expression, _names),
    st.builds(s.AsyncStore, _names, _names, _any_expression, _any_expression, _names),
    st.builds(s.AsyncWait, _names),
    st.builds(s.Trap, _any_expression, _names),
    st.builds(s.IndirectDispatch, _names, _ints),
)
_bodies = st.lists(st.recursive(_simple, _statements, max_leaves=8), max_size=6).map(tuple)
_elements = st.sampled_from([*EXECUTABLE_TYPES, ScalarType.U8, ScalarType.BF16, ReservedType("bytes")])
_buffers = st.lists(
    st.builds(
        Buffer,
        _names,
        _ints,
        st.sampled_from(Access),
        _elements,
        _ints,
        st.booleans(),
        st.sampled_from(MemoryKind),
        st.none() | _names,
        st.none() | st.tuples(_ints, _ints),
        st.builds(BufferHints, st.none() | _ints, _ints),
    ),
    max_size=5,
).map(tuple)


@examples(50)
@given(_buffers, st.tuples(_ints, _ints, _ints), _bodies)
def test_any_program_gets_a_report(buffers: Any, workgroup: Any, body: Any) -> None:
    program = Program(buffers, workgroup, body)
    report = validate(program)
    assert report.render()
    assert all(found.fix for found in report.diagnostics)
    uniformity(program)


@pytest.mark.parametrize("name", VALID)
def test_a_valid_program_is_within_the_limits_of_every_written_form(name: str) -> None:
    """Validation stores the facts of a valid program; a walk over an equal program finds the same."""
    program = replace(VALID[name])
    assert not is_known_valid(program)
    assert check_rules(program).ok and is_known_valid(program)
    unchecked = replace(program)
    check_writable(unchecked)
    assert not is_known_valid(unchecked)
    assert encode_body(program) == encode_body(unchecked)
    assert node_facts(program) == node_facts(unchecked)


def test_an_invalid_program_is_not_known_to_be_within_limits() -> None:
    program = kernel(store(x.LaunchId(x.IdKind.GLOBAL, 3)))
    assert not check_rules(program).ok and not is_known_valid(program)
    with pytest.raises(InvalidProgram, match="the axis of a launch id is 3"):
        program_digest(program)


def _codes(program: Program) -> list[str]:
    with at_most(CALLS):
        return [found.code for found in validate(program).errors]


def test_expressions_10_000_deep() -> None:
    expr: x.Expr = LID
    for _ in range(10_000):
        expr = add(expr, lit(1))
    assert _codes(kernel(store(expr))) == ["V033"]


def test_statements_10_000_deep() -> None:
    body: s.Body = (store(LID),)
    for _ in range(10_000):
        body = (s.Block(body),)
    assert _codes(kernel(*body)) == ["V018"]


@pytest.mark.parametrize("doublings", [100, 50_000])
def test_expressions_shared_exponentially(doublings: int) -> None:
    expr: x.Expr = LID
    for _ in range(doublings):
        expr = add(expr, expr)
    assert set(_codes(kernel(store(expr)))) <= {"V019", "V033"}
    assert not validate(kernel(store(expr))).ok


def test_statements_shared_exponentially() -> None:
    body: s.Body = (store(LID),)
    for _ in range(60):
        body = (s.Block(body), s.Block(body))
    assert _codes(kernel(*body)) == ["V019"]


def test_the_limit_counts_shared_expressions_at_every_use() -> None:
    expr: x.Expr = LID
    for _ in range(17):
        expr = add(expr, expr)
    assert _codes(kernel(s.Let("x", expr))) == []  # 2^18 - 1 expressions and a statement
    assert _codes(kernel(s.Let("x", expr), s.Barrier())) == ["V019"]


def test_shared_expressions_within_the_limit_are_checked_once_a_statement() -> None:
    expr: x.Expr = LID
    for _ in range(16):
        expr = add(expr, expr)
    assert _codes(kernel(store(expr))) == []


def test_a_chain_of_assignments_that_carries_divergence_one_step_a_round() -> None:
    names = [f"v{i}" for i in range(1500)]
    lets = [s.Let(name, lit(0)) for name in names]
    chain = [s.Assign(a, var(b)) for a, b in pairwise(names)]
    rounds = s.Loop("k", lit(0), lit(9), lit(1), (*chain, s.Assign(names[-1], LID)))
    barrier = when(x.Binary(BinaryOp.EQ, var("v0"), lit(1)), s.Barrier())
    assert _codes(kernel(*lets, rounds, barrier)) == ["V010"]


def test_loops_nested_64_deep() -> None:
    names = [f"v{i}" for i in range(60)]
    swaps = [s.Assign(a, var(b)) for a, b in pairwise(names)]
    old = x.Atomic(AtomicOp.ADD, "out", lit(0), None, lit(1))
    body: s.Body = (*swaps, s.Assign("v59", LID), s.Barrier(), s.Let("o", old), s.Barrier(), store(LID))
    for depth in range(60):
        body = (s.Loop(f"k{depth}", lit(0), var(names[depth]), lit(1), body), s.Let("y", x.Load("out", lit(0))))
    codes = _codes(kernel(*(s.Let(name, lit(0)) for name in names), *body))
    assert set(codes) == {"V010"}


def test_many_grid_barriers() -> None:
    lets = [s.Let(f"v{i}", LID) for i in range(2000)]
    body = [part for let in lets for part in (let, GRID_SYNC)]
    assert _codes(kernel(*body, *(store(var(let.name)) for let in lets))) == []
