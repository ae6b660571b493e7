"""Each pass with a fault: the comparison of programs before and after it must notice."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from support.optimizer.disguised_programs import disguised
from support.optimizer.optimized_programs import check_passes_kept, random_cases
from support.optimizer.pass_texts import program_of
from support.small_programs import case_of
from vyre.domain.dialects.laws.law import Law
from vyre.domain.dialects.laws.subgroups import SubgroupLaw
from vyre.domain.errors import VyreError
from vyre.domain.ir import nodes
from vyre.domain.ir.expr import Binary, Literal
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.stmt import Body
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.constants import folded
from vyre.domain.optimize.branches import KnownConditions
from vyre.domain.optimize.egraph.rules import Rules
from vyre.domain.optimize.hoisting import _Hoisting
from vyre.domain.optimize.pass_list import PASSES
from vyre.domain.optimize.saturation import _Saturation
from vyre.domain.optimize.value_table import Value

SEEDS = range(200)
PACKAGE = "vyre.domain.optimize"


class Fault(NamedTuple):
    """A fault of a pass: what stands for a name of a module.  ``body``: a program that few random ones resemble."""

    name: str
    target: str
    wrong: Any
    body: str = ""


def _adds_one(node: Any) -> int:
    return folded(node) ^ (type(node) is Binary and node.op is BinaryOp.ADD)


def _forgets(walk: Any, body: Body, live: int) -> Body:
    """A walk over a body behind which nothing is read."""
    walk._live = 0
    made: Body = walk.body(body)
    return made


def _taking_all_buffers(begin: Callable[..., None], names: str) -> Callable[..., None]:
    """Begins a walk that takes every buffer for one that the program never writes."""

    def wrong(walk: Any, program: Any, *arguments: Any) -> None:
        begin(walk, program, *arguments)
        setattr(walk, names, {buffer.name for buffer in program.buffers})

    return wrong


BRANCH = "let x = gid.x + 1u\nlet y = x\nif x < 3u {\nx := 9u\n}\nout[gid.x] = y"
STORED = "let x = data[gid.x]\ndata[gid.x] = x + 1u\nlet y = data[gid.x]\ndata[gid.x] = 5u\nout[gid.x] = y"
DEEP = "\n".join(["let v0 = gid.x * 3u", *(f"let v{k + 1} = v{k} + {k}u" for k in range(200)), "out[gid.x] = v200"])
_learn = KnownConditions.learn


def _learn_the_opposite(known: KnownConditions, condition: Value, truth: bool) -> None:
    _learn(known, condition, not truth)


CHANGED = "let a = data[gid.x]\ndata[gid.x] = 5u\nout[gid.x] = data[gid.x] - a"
FALSE_LAW = Law("false.zero", "x + 0", "0", frozenset({ScalarType.U32}))
ALIASED = "mine[n % 2u] = 3u\nmine[gid.x % 2u] = 5u\nout[gid.x] = mine[n % 2u]"
REPEATED = "mine[n % 2u] = 3u\nfor i in 0u .. 2u {\nout[gid.x] = mine[n % 2u]\nmine[gid.x % 2u] = 5u\n}"
RELOADED = "for i in 0u .. 2u {\nmine[i] = 1u\nout[i] = mine[0u] + i\n}"
LEFT = "for i in 0u .. 3u {\nout[i] = 1u\nif i == n % 2u { break }\n}"
SUMMED = "let x = n\nfor i in 0u .. 3u {\nout[i] = x * 3u\nx := x + 1u\n}"
SHUFFLED = "out[gid.x] = subgroup_shuffle(gid.x, 0u)"
FULL = SubgroupLaw("false.full", "subgroup_ballot(true)", "-1", frozenset({ScalarType.U32}))
NOTHING_IMPURE = SimpleNamespace(**{**vars(nodes), "IMPURE": frozenset()})
FAULTS = [
    Fault("folding", "folding.folded", _adds_one),
    Fault(
        "branches",
        "branches.KnownConditions.learn",
        _learn_the_opposite,
    ),
    Fault("branches", "branches.ir", NOTHING_IMPURE, "if atomic_add(count, 0u, 1u) >= 0u { out[0u] = 1u }"),
    Fault("narrowing", "narrowing._fits", lambda value: True, "out[0u] = cast<u32>((cast<i32>(n % 3u) - 5i) / 2i)"),
    Fault("forwarding", "forwarding._are_apart", lambda one, other: True, ALIASED),
    Fault("forwarding", "forwarding._Forwarding.repeated", lambda walk, stmt: walk.body(stmt.body), REPEATED),
    Fault("forwarding", "forwarding._zero", lambda element, loc: Literal(ScalarType.U32, 1), "out[0u] = mine[0u]"),
    Fault("hoisting", "hoisting._assigned_levels", lambda body: {}, SUMMED),
    Fault(
        "hoisting",
        "hoisting._Hoisting.__init__",
        _taking_all_buffers(_Hoisting.__init__, "_unwritten"),
        "for i in 0u .. 2u {\nmine[i] = 1u\nout[i] = mine[0u]\n}",
    ),
    Fault("strength", "value_table._is_left", lambda op, left, right: op is BinaryOp.MOD, "out[0u] = n % 3u"),
    Fault("strength", "strength.OPPOSITE", {op: op for op in BinaryOp}, "if not(n < 3u) { out[0u] = 1u }"),
    Fault("strength", "strength.SubgroupRules._is_uniform", lambda rules, node: True, SHUFFLED),
    Fault("strength", "strength.SUBGROUP_LAWS", (FULL,), "out[gid.x] = subgroup_ballot(true)"),
    Fault("folding", "folding.ir", NOTHING_IMPURE, "out[0u] = atomic_add(count, 0u, 1u) * 0u"),
    Fault("copies", "flow.FlowRewriter.touch", lambda walk, key: None),
    Fault("inlining", "inlining._Inlining._may_move", lambda walk, pending: True),
    Fault("inlining", "inlining._Inlining.is_unchanged", lambda walk, keys, since: True),
    Fault("inlining", "inlining.MAX_EXPRESSION_DEPTH", 1 << 20, DEEP),
    Fault("dead_code", "dead_code._Liveness._is_pure", lambda walk, *exprs: True),
    Fault("dead_code", "dead_code._Liveness._apart", _forgets),
    Fault("dead_code", "dead_code._unseen_buffers", lambda program: {"mine"}, "mine[0u] = 3u\nout[gid.x] = mine[0u]"),
    Fault("numbering", "numbering.COMMUTING", frozenset(BinaryOp), "let a = gid.x - 7u\nout[gid.x] = 7u - gid.x"),
    Fault("numbering", "numbering._Numbering.time", lambda walk, key: 0, STORED),
    Fault(
        "saturation",
        "saturation._Saturation.__init__",
        _taking_all_buffers(_Saturation.__init__, "_unchanging"),
        CHANGED,
    ),
    Fault("saturation", "saturation.RULES", Rules([FALSE_LAW]), "out[0u] = (input[0u] + 0u) * 3u"),
    Fault("saturation", "egraph.graph.folded", lambda head, bits: 5, "out[0u] = 2u + 4u"),
    Fault("copies", "flow.FlowRewriter.end_branches", lambda walk: None, BRANCH),
]


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.target for fault in FAULTS])
def test_a_fault_is_noticed(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{PACKAGE}.{fault.target}", fault.wrong)
    assert _is_noticed(fault)


def _is_noticed(fault: Fault) -> bool:
    written = [case_of(program_of(fault.body))] if fault.body else []
    for case in chain(written, map(disguised, random_cases(SEEDS), SEEDS)):
        try:
            check_passes_kept(case, [PASSES[fault.name]])
        except (AssertionError, VyreError):
            return True
    return False
