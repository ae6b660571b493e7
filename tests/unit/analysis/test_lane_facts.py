"""Which lanes can have an effect, with private memory, switches and chains of ``else if``."""

from __future__ import annotations

from support.kernels import BUFFERS, GID, LID, OWN, TRUE, equal, kernel, less, lit, load, loop, op, store, when
from vyre.domain.analysis.lane_facts import LaneBound, LaneFacts, lane_facts
from vyre.domain.ir.expr import BufferLength
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.stmt import Arm, If, Return, Stmt, Switch
from vyre.domain.validation.validator import validate

AT_LENGTH = BufferLength("out")


def _facts(*body: Stmt) -> LaneFacts:
    program = kernel(*body, buffers=(*BUFFERS, OWN))
    assert validate(program).ok
    return lane_facts(program)


def _switch(*bodies: tuple[Stmt, ...]) -> Switch:
    arms = tuple(Arm((lit(n),), body) for n, body in enumerate(bodies))
    return Switch(load("inp", GID), arms, (store(lit(1), index=GID),))


def test_a_store_to_private_memory_is_no_effect_and_is_not_shared() -> None:
    facts = _facts(store(LID, "own", lit(0)), store(load("own", lit(1)), index=GID))
    assert facts.shared_writes == ()
    assert facts.bounds == (LaneBound("out"),) and not facts.unbounded
    shared = _facts(store(LID, "sh", lit(0)), store(load("sh", lit(1)), index=GID))
    assert shared.shared_writes == ("sh",) and shared.unbounded


def test_the_length_of_private_memory_bounds_lanes_by_its_count() -> None:
    facts = _facts(when(less(GID, BufferLength("own")), store(lit(1), index=lit(0))))
    assert facts.bounds == (LaneBound(lanes=OWN.count),)


def test_a_loop_whose_bounds_are_in_private_memory_has_no_foreseeable_length() -> None:
    write = store(load("inp", GID), "own", lit(0))
    assert _facts(write, loop("k", load("own", lit(0)))).unbounded
    assert not _facts(loop("k", load("own", lit(0)))).unbounded  # nobody writes it


def test_effects_in_all_bodies_of_a_switch_are_found() -> None:
    guarded = when(less(GID, lit(9)), _switch((store(lit(1), index=lit(0)),)))
    assert _facts(guarded).bounds == (LaneBound(lanes=9), LaneBound("out"))
    assert _facts(_switch((store(lit(1), index=lit(0)),))).unbounded
    assert not _facts(_switch((store(lit(1), index=GID),))).unbounded


def test_each_link_of_a_chain_is_guarded_by_its_condition_and_by_those_that_failed_before() -> None:
    def chain(first: BinaryOp, otherwise: Stmt) -> LaneFacts:
        unknown = equal(load("inp", GID), lit(3))
        link = If(unknown, (store(lit(2), index=lit(0)),), (otherwise,))
        return _facts(If(op(first, GID, AT_LENGTH), (Return(),), (link,)))

    for otherwise in (store(lit(3), index=lit(1)), when(TRUE, store(lit(4), index=lit(1)))):
        assert chain(BinaryOp.GE, otherwise).bounds == (LaneBound("out"),)
        assert not chain(BinaryOp.GE, otherwise).unbounded
        assert chain(BinaryOp.LE, otherwise).unbounded
