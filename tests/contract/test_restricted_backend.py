"""A backend without 64-bit types is certified for what it declares; one that declares too much fails."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

import vyre
from support.restricted_backend import LACKED_OPERATORS, LACKED_OPS, LACKED_TYPES, PROFILE, RESTRICTED
from vyre.domain.ir.expr import Atomic, Binary, Unary
from vyre.domain.ir.operators import OperatorAt, operators_at
from vyre.domain.ir.types import ScalarType
from vyre.domain.missing import missing_from, undeclared
from vyre.ports.backend import Backend, BackendRegistration, BackendServices
from vyre.testing.backend_contract import CASES, Subject, run_cases
from vyre.testing.backend_contract.bench import FACETS, FEATURES
from vyre.testing.conform.cases import Cases, Group
from vyre.testing.conform.checking import check, opened_registration
from vyre.testing.conform.judging import Judged, Judgement, expected_of, judge
from vyre.testing.execution import Scheduled, open_backend
from vyre.testing.operations import operations
from vyre.testing.outcomes import Verdict

OTHERS = (
    "lacks", "folds no grid", "bytes of workgroup memory", "pipelines", "device recovery", "emulates", "native",
    "allows",
)  # fmt: skip
"""The texts of skips that have nothing to do with declared types and operators."""


def declaring(**facts: object) -> BackendRegistration:
    """The same backend with another profile."""

    def make(services: BackendServices) -> Backend:
        backend = RESTRICTED.factory(services)
        return replace(backend, profile=replace(backend.profile, **facts))  # type: ignore[arg-type]

    return replace(RESTRICTED, factory=make, probe=lambda: make(BackendServices()).profile)


def test_the_whole_contract_passes_with_skips_by_reason() -> None:
    with Subject(RESTRICTED) as subject:
        outcomes = list(run_cases(CASES, subject))
    assert [outcome for outcome in outcomes if outcome.verdict is Verdict.FAILED] == []
    reasons = [outcome.reason for outcome in outcomes if outcome.verdict is Verdict.SKIPPED]
    undeclared = Counter(name for r in reasons for name in named(r))
    assert {dtype.text for dtype in LACKED_TYPES} | LACKED_OPS <= undeclared.keys()
    offered = {dtype.text for dtype in PROFILE.element_types} | {str(each) for each in PROFILE.operators}
    assert offered.isdisjoint(undeclared)
    others = [r for r in reasons if not named(r) and not re.search(r"has no facet|does not claim", r)]
    assert [r for r in others if not any(known in r for known in OTHERS)] == []
    assert sum(outcome.verdict is Verdict.PASSED for outcome in outcomes) > 900
    assert {*re.findall(r"has no facet (\w+)", "\n".join(reasons))} <= {*FACETS}
    assert {*re.findall(r"does not claim (\w+)", "\n".join(reasons))} <= {*FEATURES}


def named(reason: str) -> list[str]:
    found = re.search(r"does not declare (.*)", reason)
    return [] if found is None else found[1].split(", ")


def test_it_is_certified_for_what_it_has() -> None:
    with opened_registration(Scheduled(RESTRICTED, canonical_order=True)) as found:
        certificate = check(found, seed=5, budget_s=0.1, random_programs=0)
    assert certificate.failures == () and certificate.cases
    assert {*certificate.missing_operations} == undeclared(PROFILE, found.backend.supported_ops)
    assert {"f64", "exp f32", "vyre.fma", "supports_subgroup_ops"} <= {*certificate.missing_operations}


@pytest.mark.parametrize(
    ("group", "keys"),
    [(Group.OPERATIONS, [each.name for each in operations()[::12]]), (Group.RANDOM, [str(n) for n in range(30)])],
)
def test_cases_agree_or_name_what_is_not_declared(group: Group, keys: list[str]) -> None:
    """Random programs are made of what is declared, so that none is refused."""
    backend, reference = RESTRICTED.make(), open_backend("reference")
    lacking = undeclared(backend.profile, backend.supported_ops)
    cases, agreed = Cases(5, True, True, lacking), 0
    for key in keys:
        case = cases.find(group, key).case
        verdict = judge(backend, case, expected_of(reference, case))
        assert verdict == Judged(Judgement.AGREED) or {*verdict.text.split(", ")} <= lacking, (key, verdict)
        agreed += verdict.judgement is Judgement.AGREED
    assert agreed > 10 and (agreed == len(keys)) is (group is Group.RANDOM)


def test_what_is_not_declared_is_missing_by_name() -> None:
    for operation in operations():
        program = operation.program(0)
        wanted = {dtype.text for dtype in {*operation.operands, operation.result} & LACKED_TYPES}
        if isinstance(operation.value, Binary | Unary | Atomic) and operation.value.op in LACKED_OPERATORS:
            used = OperatorAt(operation.value.op, operation.operands[0])
            wanted |= {str(used)} - {str(OperatorAt(used.operator, dtype)) for dtype in LACKED_TYPES}
        found = {each.name for each in missing_from(program, PROFILE, RESTRICTED.make().supported_ops)}
        assert wanted <= found, operation.name


@pytest.mark.parametrize(
    ("facts", "group"),
    [
        ({"element_types": frozenset(ScalarType)}, "elements.*f64"),
        ({"operators": operators_at()}, "operators.*sin*"),
        ({"element_types": PROFILE.element_types - {vyre.u32}}, "claims.types*"),
        ({"max_shared_memory_bytes": 1 << 15}, "profile.workgroup_memory*"),
    ],
)
def test_a_profile_that_declares_what_is_not_there_fails(facts: dict[str, object], group: str) -> None:
    with Subject(declaring(**facts)) as subject:
        assert Verdict.FAILED in {outcome.verdict for outcome in run_cases(CASES, subject, group)}
