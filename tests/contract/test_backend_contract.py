"""Every backend of the catalog that can run here keeps the contract of the port."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest

from support.llvm import NEEDS_LLVM
from vyre.adapters.cpu.registration import cpu_catalog
from vyre.adapters.cpu.runtime.options import CpuOptions
from vyre.adapters.discovery import load_catalog
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.errors import BackendError
from vyre.domain.geometry import LaunchLimits
from vyre.domain.ir.program import Program
from vyre.domain.names import OpId
from vyre.domain.op_ids import ALL_OPS, INDIRECT_DISPATCH, required_ops
from vyre.ports.backend import Backend, BackendRegistration, BackendRole, BackendServices
from vyre.ports.execution import ProgramExecutor
from vyre.ports.requests import DispatchRequest, OutputStorage
from vyre.testing.backend_contract import CASES, Case, Skipped, Subject, check_case, run_case, run_cases
from vyre.testing.backend_contract.bench import Bench, Kernel
from vyre.testing.backend_contract.catalog import GROUPS
from vyre.testing.backend_contract.foreign import FOREIGN
from vyre.testing.backend_contract.planning import PLANNING
from vyre.testing.execution import Scheduled, find_scheduled
from vyre.testing.fakes import registration_of
from vyre.testing.machine import cuda_machine
from vyre.testing.outcomes import Verdict


def _why_not(registration: BackendRegistration) -> str | None:
    try:
        registration.probe()
    except BackendError as error:
        return error.message
    return None


CATALOG = load_catalog().by_precedence()
MISSING = {str(r.id): reason for r in CATALOG if (reason := _why_not(r)) is not None}


def _subjects(schedule: str | None = None) -> Iterator[object]:
    """Yields the backends that can run here; with a schedule, the emulated ones with lanes in that order."""
    for registration in CATALOG:
        name = str(registration.id)
        if schedule is not None and registration.role is BackendRole.EMULATION:
            yield pytest.param(find_scheduled(registration.id, schedule, 1), id=f"{name}-{schedule}")
        elif schedule is None and registration.id not in MISSING:
            yield pytest.param(find_scheduled(name), id=name, marks=[pytest.mark.gpu] if name == "cuda" else [])


@pytest.fixture(scope="module", params=_subjects())
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    yield from _opened(request.param)


@pytest.fixture(scope="module", params=_subjects("shuffled"))
def shuffled(request: pytest.FixtureRequest) -> Iterator[Subject]:
    yield from _opened(request.param)


def _opened(scheduled: Scheduled) -> Iterator[Subject]:
    with Subject(scheduled.registration, canonical_order=scheduled.canonical_order) as subject:
        yield subject


def _check(case: Case, subject: Subject) -> None:
    try:
        check_case(case, subject)
    except Skipped as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_contract(subject: Subject, case: Case) -> None:
    _check(case, subject)


LANE_BY_LANE: Final = ("operators.", "narrow.")
"""Groups of cases in which no lane sees another one, so that no order of lanes can show."""


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.id) for case in CASES if not case.id.startswith(LANE_BY_LANE)]
)
def test_contract_in_another_order_of_lanes(shuffled: Subject, case: Case) -> None:
    _check(case, shuffled)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in FOREIGN.cases])
def test_foreign_memory_of_an_emulated_device_that_exports_its_addresses(case: Case) -> None:
    machine = cuda_machine(export_fake=True)
    with Subject(registration_of(machine.backend, role=BackendRole.EMULATION)) as subject:
        check_case(case, subject)


@NEEDS_LLVM
@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in PLANNING.cases])
def test_plans_of_the_processor_where_costs_decide(case: Case) -> None:
    registration = cpu_catalog(CpuOptions(list_after="costs")).get("cpu")
    assert registration is not None
    with Subject(registration) as subject:
        check_case(case, subject)


@pytest.mark.parametrize("backend", MISSING)
def test_backends_that_cannot_run_here_are_named(backend: str) -> None:
    pytest.skip(f"`{backend}` is not judged: {MISSING[backend]}")


# ---------------------------------------------------------------- the cases themselves
def test_cases_are_told_apart_by_their_ids() -> None:
    assert len({case.id for case in CASES}) == len(CASES)


def test_every_case_says_its_rule() -> None:
    assert [case.id for case in CASES if not case.rule.endswith(".")] == []


def test_every_group_has_cases() -> None:
    assert [group.name for group in GROUPS if not group.cases] == []


def test_every_operation_but_one_that_nobody_runs_is_run_by_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    run: set[OpId] = set()
    complete, program_for = load_catalog().get("reference"), Bench.program
    assert complete is not None

    def noted(bench: Bench, kernel: Kernel) -> Program:
        program = program_for(bench, kernel)
        run.update(required_ops(program))
        return program

    monkeypatch.setattr(Bench, "program", noted)
    with Subject(complete) as subject:
        for group in ("flow", "parallel", "tiles", "grid_loops", "config", "elements", "narrow"):
            assert Verdict.FAILED not in {each.verdict for each in run_cases(CASES, subject, f"{group}.*")}
    assert run == ALL_OPS - {INDIRECT_DISPATCH}


def test_every_limit_has_cases() -> None:
    """A limit that is added fails here until cases run at it and one beyond it."""
    tested = {"max_invocations_per_workgroup", "max_workgroup_size", "max_grid_size", "max_unfolded_grid"}
    assert {*LaunchLimits._fields} - {"backend"} == tested | {"max_shared_memory_bytes", "max_storage_buffer_bytes"}
    known = {case.id for case in CASES if case.id.startswith("profile.")}
    for at_it, beyond in (
        ("the_largest_workgroup_runs.workgroup_x", "a_larger_workgroup_is_refused.workgroup_x"),
        ("the_largest_workgroup_runs.workgroup_z", "too_many_lanes_together_are_refused"),
        ("the_largest_grid_runs.grid_y", "a_larger_grid_is_refused.grid_y"),
        ("the_largest_grid_runs.grid_x", "a_folded_grid_has_a_limit_in_all"),
        ("workgroup_memory_up_to_the_limit.the_limit", "more_workgroup_memory_is_refused"),
        ("storage_buffers_up_to_the_limit.the_limit", "storage_buffers_up_to_the_limit.one_more"),
    ):
        assert {f"profile.{at_it}", f"profile.{beyond}", "profile.a_compilation_is_refused_as_a_dispatch_is"} <= known


def test_cases_with_operations_that_a_backend_does_not_list_are_skipped_by_name() -> None:
    """The backend fails at every operation that it does not list, so no case may run one."""
    complete = load_catalog().get("reference")
    assert complete is not None
    lacking = frozenset(map(OpId, ("vyre.node.if", "vyre.node.loop", "vyre.atomic")))

    class Incomplete:
        def __init__(self, executor: ProgramExecutor) -> None:
            self._executor = executor

        def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
            assert not required_ops(request.program) & lacking
            return self._executor.execute(request, outputs)

    def make(services: BackendServices) -> Backend:
        backend = complete.make(services)
        return replace(
            backend, supported_ops=backend.supported_ops - lacking, executor=Incomplete(backend.executor), compiler=None
        )

    with Subject(replace(complete, factory=make)) as subject:
        outcomes = [
            run_case(case, subject) for case in CASES if case.id.split(".")[0] in ("flow", "atomics", "threads")
        ]
    assert [outcome for outcome in outcomes if outcome.verdict is Verdict.FAILED] == []
    reasons = {outcome.reason for outcome in outcomes if outcome.verdict is Verdict.SKIPPED}
    assert {f"`reference` does not declare {op}" for op in lacking} <= reasons
    assert sum(outcome.verdict is Verdict.PASSED for outcome in outcomes) > 30
