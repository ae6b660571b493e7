"""``vyre conform``: faithful backends pass, seeded defects are found, and certificates say no more than was run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pytest

from support.command_line import vyre_command
from support.conform_defects import DEFECTS, Defect, defective
from vyre.domain.dispatch import DispatchTiming, OutputArena
from vyre.domain.errors import MalformedJson, UnsupportedFeature
from vyre.domain.ir.operators import ATOMIC_ELEMENTS, BINARY, UNARY, AtomicOp
from vyre.domain.ir.program import OpId
from vyre.domain.ir.stmt import STMT_TYPES, IndirectDispatch
from vyre.domain.validation.validator import check_rules
from vyre.ports.backend import Backend
from vyre.ports.execution import ProgramExecutor
from vyre.ports.requests import DispatchRequest, OutputStorage
from vyre.testing.conform.campaign import Campaign, run_campaign
from vyre.testing.conform.cases import Cases, ConformCase, Group
from vyre.testing.conform.certificate import Certificate, Subject, certificate_of
from vyre.testing.conform.checking import opened
from vyre.testing.conform.judging import Judged, Judgement, expected_of, judge
from vyre.testing.conform.minimising import minimised
from vyre.testing.conform.verification import verify
from vyre.testing.conform.witness_rows import LEAST_WITNESSES, boundaries, operation_rows
from vyre.testing.execution import open_backend
from vyre.testing.filetest_syntax import parse_filetest
from vyre.testing.operations import operations

REFERENCE: Final = open_backend("reference")
ALL: Final = Cases(0, canonical_order=True, counts_steps=True)


class Few(Cases):
    """One of ``step`` cases of each group that ends."""

    step = 9

    def group(self, group: Group) -> Iterator[ConformCase]:
        return islice(super().group(group), 0, None, 1 if group is Group.RANDOM else self.step)


def campaign(backend: Backend, *, programs: int = 6, step: int = 9, **options: Any) -> Campaign:
    cases = Few(0, canonical_order=True, **options)
    cases.step = step
    return run_campaign(backend, REFERENCE, cases, budget_s=1e9, random_programs=programs)


def certificate(found: Campaign, backend: str = "reference", version: str = "1") -> Certificate:
    subject = Subject(backend, version, {}, None, canonical_order=True, counts_steps=False)
    return certificate_of(found, subject, 0, ())


# ---------------------------------------------------------------- the cases
def test_every_operation_is_run_at_every_type_on_a_thousand_operands() -> None:
    names = {operation.name.split()[0] for operation in operations()}
    assert {op.name.lower() for op in (*BINARY, *UNARY)} <= names
    atomics = {operation.name for operation in operations() if operation.updated}
    assert len(atomics) == len(AtomicOp) * len(ATOMIC_ELEMENTS)
    for operation in operations():
        rows = operation_rows(operation, 0)
        assert check_rules(operation.program(len(rows))).ok, operation.name
        values = 1
        for dtype in operation.operands:
            values *= len(boundaries(dtype)) if dtype.text in ("bool", "u8", "i8", "bool8") else LEAST_WITNESSES
        assert len(rows) >= min(values, 1000), operation.name


def test_operations_see_all_pairs_of_boundary_values() -> None:
    operation = next(each for each in operations() if each.name == "add f32 f32")
    pairs = set(operation_rows(operation, 3))
    values = boundaries(operation.operands[0])
    assert {(left, right) for left in values for right in values} <= pairs


def test_every_narrow_value_is_stored_and_loaded() -> None:
    for operation in operations():
        if operation.name.startswith("load ") and operation.operands[0].size < 4:
            width = 2 if operation.operands[0].text == "bool8" else operation.operands[0].bits
            assert len(set(operation_rows(operation, 0))) >= min(256, 1 << width)
            if operation.operands[0].size == 2:
                assert len(set(operation_rows(operation, 0))) == 1 << 16


@pytest.mark.parametrize("group", list(Group))
def test_a_group_and_a_key_name_one_case(group: Group) -> None:
    for case in islice(ALL.group(group), 0, 40, 7):
        again = Cases(0, canonical_order=True, counts_steps=True).find(group, case.key)
        assert again.identity() == case.identity() and again.name == case.name
    with pytest.raises(KeyError):
        ALL.find(group, "no such case")


def test_examples_that_see_the_order_of_lanes_need_a_backend_that_promises_it() -> None:
    everywhere = {case.key for case in Cases(0).group(Group.GALLERY)}
    sensitive = {case.key for case in ALL.group(Group.GALLERY) if check_rules(case.case.program).order_sensitive}
    assert "frontier-bfs" in sensitive
    assert everywhere == {case.key for case in ALL.group(Group.GALLERY)} - sensitive


def test_another_seed_has_other_operands() -> None:
    key = "mul u32 u32"
    first, second = Cases(0).find(Group.OPERATIONS, key), Cases(1).find(Group.OPERATIONS, key)
    assert first.identity() != second.identity() and first.case.program == second.case.program


# ---------------------------------------------------------------- faithful backends
@pytest.mark.parametrize(("name", "step"), [("cpu", 29), ("cuda-machine", 37), ("reference-scalar", 61)])
def test_faithful_backends_pass(name: str, step: int) -> None:
    with opened(name) as found:
        result = campaign(found.backend, programs=5, step=step, counts_steps=found.subject.counts_steps)
    assert result.failures == [] and result.counts == {Judgement.AGREED.value: len(result.records)}
    assert {record.group for record in result.records} == {group.value for group in Group}


def test_random_programs_reach_every_statement() -> None:
    found = run_campaign(REFERENCE, REFERENCE, _Unrun(), budget_s=1e9, random_programs=60)
    assert {name for name, number in found.statements.items() if not number} == {IndirectDispatch.__name__}
    assert len(found.statements) == len(STMT_TYPES)


class _Unrun(Few):
    """Random programs alone."""

    def __init__(self) -> None:
        super().__init__(0, canonical_order=True, counts_steps=True)

    def group(self, group: Group) -> Iterator[ConformCase]:
        return super().group(group) if group is Group.RANDOM else iter(())


# ---------------------------------------------------------------- defects
def test_each_seeded_defect_is_found() -> None:
    """The cases come in the order of a check, and each defect leaves at the first case that shows it."""
    assert len(DEFECTS) >= 40
    left = list(DEFECTS)
    random_programs = 400
    for case in _in_order(random_programs):
        expected, unchanged = None, _unchanged(case)
        for defect in list(left):
            if defect.of(case.case.program) == unchanged:
                continue
            expected = expected_of(REFERENCE, case.case) if expected is None else expected
            if judge(defective(defect), case.case, expected).failed:
                left.remove(defect)
        if not left:
            break
    assert [defect.name for defect in left] == []


def _in_order(random_programs: int) -> Iterator[ConformCase]:
    yield from ALL.group(Group.OPERATIONS)
    yield from islice(ALL.group(Group.RANDOM), random_programs)


def _unchanged(case: ConformCase) -> Any:
    return Defect("none", lambda node, types: node).of(case.case.program)


@dataclass(frozen=True, slots=True)
class _Stale:
    """An executor that remembers the answer of a program, whatever its inputs."""

    inner: ProgramExecutor
    answers: dict[bytes, list[bytes]]

    def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
        key = request.program.digest
        if key not in self.answers:
            arena = OutputArena()
            self.inner.execute(request, arena)
            self.answers[key] = list(arena.to_bytes())
        answers = self.answers[key]
        for place, data in zip(outputs.begin(tuple(map(len, answers))), answers, strict=True):
            place[:] = data
        return DispatchTiming(wall_ns=0)


def test_a_backend_that_remembers_answers_is_found() -> None:
    stale = replace(REFERENCE, executor=_Stale(REFERENCE.executor, {}), compiler=None)
    failures = campaign(stale, programs=0, step=40).failures
    assert failures and {failure.group for failure in failures} == {Group.AGAIN.value}


def test_a_failure_is_made_small_and_can_be_run_as_a_filetest() -> None:
    defect = next(each for each in DEFECTS if each.name == "i32 / 0 is all ones")
    failing = ALL.find(Group.OPERATIONS, "div i32 i32")
    backend = defective(defect)
    judged = judge(backend, failing.case, expected_of(REFERENCE, failing.case))
    assert judged.judgement is Judgement.DIFFERS and "`y`[" in judged.text and "0xffffffff" in judged.text
    text = minimised(backend, REFERENCE, failing, judged, 20.0)
    test = parse_filetest(text, "small.vyre")
    assert test.program is not None and len(test.runs) == 1
    assert all(len(data) == 4 for data in test.runs[0].inputs.values())
    small = replace(failing.case, program=test.program, inputs=test.runs[0].inputs)
    assert judge(backend, small, expected_of(REFERENCE, small)).failed
    assert not judge(REFERENCE, small, expected_of(REFERENCE, small)).failed


def test_what_a_backend_declares_to_lack_is_refused_and_not_failed() -> None:
    fma = OpId("vyre.fma")
    lacking = replace(REFERENCE, supported_ops=REFERENCE.supported_ops - {fma})
    case = ALL.find(Group.OPERATIONS, "fma f32").case
    assert judge(lacking, case, expected_of(REFERENCE, case)) == Judged(Judgement.REFUSED, "vyre.fma")


@dataclass(frozen=True, slots=True)
class _Raising:
    error: Exception

    def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
        raise self.error


@pytest.mark.parametrize(
    ("error", "judgement"),
    [
        (UnsupportedFeature(feature="subgroups", backend="b"), Judgement.REFUSED),
        (ZeroDivisionError("oops"), Judgement.RAISED),
        (MemoryError(), Judgement.RAISED),
    ],
)
def test_errors_that_the_language_does_not_define(error: Exception, judgement: Judgement) -> None:
    case = ALL.find(Group.OPERATIONS, "add u32 u32").case
    raising = replace(REFERENCE, executor=_Raising(error), compiler=None)
    assert judge(raising, case, expected_of(REFERENCE, case)).judgement is judgement


# ---------------------------------------------------------------- certificates
@pytest.fixture(scope="module")
def written() -> Certificate:
    return certificate(campaign(REFERENCE, step=120), version="a version that is not here")


def test_a_certificate_verifies(written: Certificate) -> None:
    again = Certificate.from_json(written.to_json())
    assert again == written
    found = verify(again)
    assert found.ok and found.computed == len(written.cases)
    assert "another version or device" in found.absent and found.reran == 0


def test_a_budget_leaves_a_rest_that_the_certificate_names() -> None:
    ticks = iter(range(1000))
    few = Few(0)
    few.step = 40
    found = run_campaign(REFERENCE, REFERENCE, few, budget_s=3.0, random_programs=2, clock=lambda: float(next(ticks)))
    result = certificate(found)
    assert not result.complete and result.unfinished["operations"] > 0
    total = sum(result.unfinished.values()) + len(result.cases)
    assert total == sum(1 for group in Group if group is not Group.RANDOM for _ in few.group(group))


def _resealed(certificate: Certificate, **changes: Any) -> Certificate:
    return Certificate.from_json(replace(certificate, **changes).to_json())


def test_what_a_certificate_claims_and_was_not_run_is_noticed(written: Certificate) -> None:
    case = written.cases[0]
    inflated = {**written.witnesses, case.key: 10**6}
    assert any("witnesses are claimed" in each for each in verify(_resealed(written, witnesses=inflated)).objections)
    for changes, words in (
        ({"expected": "0" * 64}, "another result"),
        ({"identity": "0" * 64}, "another one"),
        ({"key": "no such"}, "no such case"),
    ):
        forged = _resealed(written, cases=(case._replace(**changes), *written.cases[1:]))
        objections = verify(forged).objections
        assert any(words in each for each in objections), words


def test_a_backend_that_is_present_is_run_again(tmp_path: Path) -> None:
    with opened("cpu") as found:
        result = campaign(found.backend, programs=3, step=180, counts_steps=found.subject.counts_steps)
        written = certificate_of(result, found.subject, 0, ())
    again = verify(written)
    assert again.ok and again.reran == len(written.cases) and not again.absent
    lying = _resealed(written, cases=(written.cases[0]._replace(judgement="differs"), *written.cases[1:]))
    assert any("the certificate says differs" in each for each in verify(lying).objections)


def test_damage_is_noticed(written: Certificate) -> None:
    text = written.to_json()
    document = json.loads(text)
    for broken in (
        text.replace('"seed": 0', '"seed": 1'),
        text[:-10],
        "[]",
        json.dumps(document | {"version": 2}),
        json.dumps(document | {"cases": []}),
    ):
        with pytest.raises(MalformedJson):
            Certificate.from_json(broken)


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"cases": ({},)},
        {"witnesses": {"add u32 u32": "many"}},
        {"seed": "0"},
    ],
)
def test_sealed_nonsense_is_refused(written: Certificate, changes: dict[str, Any]) -> None:
    from vyre.testing.conform.certificate import _FORM

    content = json.loads(written.to_json())
    content.pop("blake3")
    with pytest.raises(MalformedJson):
        Certificate.from_json(_FORM.seal(content | changes))


# ---------------------------------------------------------------- the command
def test_the_command_checks_and_verifies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vyre = vyre_command(capsys, "conform")
    path = tmp_path / "report.json"
    outcome = vyre("--backend", "reference", "--budget", "2", "--programs", "2", "--out", path)
    assert outcome.code == 0 and "0 failed" in outcome.out
    assert [each.name for each in tmp_path.iterdir()] == ["report.json"]
    written = Certificate.read(path)
    assert written.cases and not written.failures
    few = replace(written, cases=written.cases[:3], witnesses={})
    path.write_text(few.to_json())
    checked = vyre("--verify", path, "--json")
    assert checked.code == 0 and checked.json["computed"] == 3 == checked.json["reran"]


def test_a_backend_that_ends_the_process_leaves_the_name_of_the_case(tmp_path: Path) -> None:
    """The second case runs and is wrong, and the process dies while a smaller program is looked for."""
    script = """
import os
from vyre.app.cli import main
from vyre.testing.conform import campaign
from vyre.testing.conform.judging import Judged, Judgement

verdicts = iter([Judged(Judgement.AGREED), Judged(Judgement.DIFFERS, "`y`[3] is wrong")])
campaign.judge = lambda *arguments: next(verdicts)
campaign.minimised = lambda *arguments: os._exit(9)
main(["conform", "--backend", "reference", "--out", "report.json"])
"""
    ran = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, timeout=300, check=False)
    assert ran.returncode == 9
    assert [path.name for path in tmp_path.iterdir()] == ["report.json.running"]
    name, _, verdict, *_ = (tmp_path / "report.json.running").read_text("utf-8").splitlines()
    assert name == next(islice(ALL.group(Group.OPERATIONS), 1, None)).name and verdict == "`y`[3] is wrong"


def test_a_certificate_that_cannot_be_written_is_refused_before_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "missing" / "report.json"
    outcome = vyre_command(capsys, "conform")("--backend", "reference", "--budget", "1e9", "--out", path)
    assert outcome.code != 0 and "cannot write" in outcome.err and "Fix:" in outcome.err


def test_a_certificate_verifies_in_a_fresh_process(tmp_path: Path, written: Certificate) -> None:
    path = tmp_path / "report.json"
    path.write_text(replace(written, cases=written.cases[:4], witnesses={}).to_json())
    command = [sys.executable, "-m", "vyre", "conform", "--verify", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "4 cases, 4 computed again on the reference" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), 2),
        (("--backend", "nope"), 3),
        (("--backend", "cpu", "--verify", "x.json"), 2),
        (("--verify", "missing.json"), 2),
        (("--backend", "cpu", "--schedule", "sideways"), 2),
        (("--backend", "cpu", "--schedule", "reverse"), 3),
    ],
)
def test_mistaken_command_lines(
    arguments: tuple[str, ...],
    code: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = vyre_command(capsys, "conform")(*arguments)
    assert outcome.code == code and "Fix:" in outcome.err
