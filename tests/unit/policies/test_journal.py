"""Decisions are kept, written down and decided again."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Thread
from typing import Any

import pytest

from vectors.seeds.convergence import ConvergenceInputs, plan_convergence
from vyre.app.journal import DecisionJournal
from vyre.domain.errors import InvalidConfig, InvalidField, MalformedJson, PlanError
from vyre.domain.value_json import MAX_VALUE_DEPTH
from vyre.policies.concurrency.hazards import AccessMode
from vyre.policies.decision_records import (
    DecisionRecord,
    Known,
    Replayed,
    ReplayOutcome,
    from_lines,
    record_of,
    replay,
    to_lines,
)
from vyre.policies.journal import Decision, Policy, decide, name_of, sifted, verdict_label
from vyre.policies.launching.command_reuse import (
    CommandReuseInputs,
    CommandReuseThresholds,
    RecordAndReplay,
    decide_command_reuse,
)
from vyre.policies.launching.grid_sync_mode import GridSyncInputs, choose_grid_sync

POLICIES = {name_of(p): p for p in (decide_command_reuse, choose_grid_sync, plan_convergence)}
REUSE = CommandReuseInputs(100, 9_000, 10_000, 100)


def version(policy: Policy) -> str:
    return "v1"


def find(name: str) -> Known | None:
    policy = POLICIES.get(name)
    return None if policy is None else Known(policy, "v1")


def recorded(policy: Policy, *arguments: Any) -> DecisionRecord:
    return record_of(Decision(policy, arguments, policy(*arguments)), version)


RECORD = recorded(decide_command_reuse, REUSE)


# ---- keeping
def test_without_a_sink_a_policy_is_just_asked() -> None:
    given = [3, 1]
    assert decide(None, sorted, given) == [1, 3]


def test_a_sink_is_told_what_was_given_and_answered() -> None:
    journal = DecisionJournal()
    verdict = decide(journal, decide_command_reuse, REUSE)
    assert isinstance(verdict, RecordAndReplay)
    assert journal.decisions == (Decision(decide_command_reuse, (REUSE,), verdict),)


def test_a_sieve_passes_on_what_is_news() -> None:
    journal = DecisionJournal()
    sink = sifted(journal, lambda decision: decision.verdict == 2)
    assert [decide(sink, len, given) for given in ("a", "ab", "abc", "cd")] == [1, 2, 3, 2]
    assert [decision.arguments for decision in journal.decisions] == [("ab",), ("cd",)]
    assert sifted(None, lambda decision: True) is None


@dataclass
class Sink:
    """Forgets what it is told, though it may say that it keeps that."""

    keeps: bool

    def note(self, decision: Decision, /) -> None: ...


def test_a_sieve_keeps_what_its_sink_keeps() -> None:
    assert DecisionJournal().keeps
    for keeps in (True, False):
        sieve = sifted(Sink(keeps), lambda decision: True)
        assert sieve is not None and sieve.keeps is keeps


def test_what_can_be_read_once_is_kept() -> None:
    journal, given = DecisionJournal(), [2, 1]
    assert decide(journal, sorted, iter(given)) == [1, 2]
    assert decide(journal, sorted, given) == [1, 2]
    given.clear()
    assert [decision.arguments for decision in journal.decisions] == [((2, 1),), ((2, 1),)]


def test_a_refusal_is_told_and_raised() -> None:
    journal, inputs = DecisionJournal(), ConvergenceInputs(0, 0, 0)
    with pytest.raises(PlanError) as refusal:
        decide(journal, plan_convergence, inputs)
    (decision,) = journal.decisions
    assert decision.verdict is refusal.value
    written = record_of(decision, version)
    assert written.verdict == {"$error": "PlanError", "message": str(refusal.value)}
    assert replay(written, find).outcome is ReplayOutcome.SAME


def test_a_journal_keeps_the_latest() -> None:
    journal = DecisionJournal(limit=2)
    for repeats in range(5):
        decide(journal, decide_command_reuse, replace(REUSE, repeat_count=repeats))
    assert [d.arguments[0].repeat_count for d in journal.decisions] == [3, 4]  # type: ignore[attr-defined]
    assert (len(journal), journal.dropped) == (2, 3)


def test_nothing_is_lost_between_threads() -> None:
    journal = DecisionJournal(limit=10)
    threads = [Thread(target=lambda: [decide(journal, sorted, ()) for _ in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(journal), journal.dropped) == (10, 1990)


def test_a_journal_may_be_as_small_as_one_decision() -> None:
    journal = DecisionJournal(limit=1)
    for shapes in ((), (1,)):
        decide(journal, sorted, shapes)
    assert [decision.arguments for decision in journal.decisions] == [((1,),)]


@pytest.mark.parametrize("limit", [0, -1, 1.0, True, None])
def test_a_journal_has_room(limit: Any) -> None:
    with pytest.raises(InvalidConfig, match="Fix: keep at least one"):
        DecisionJournal(limit)


@dataclass
class Counted:
    count: int


@dataclass
class Labelled:
    mode: AccessMode
    label: str = "so it is"


@pytest.mark.parametrize(
    ("verdict", "label"),
    [
        (choose_grid_sync(GridSyncInputs(False, 1, 1, 1)), "split"),
        (decide_command_reuse(REUSE), "RecordAndReplay"),
        (AccessMode.READ, "read"),
        (Counted(3), "Counted"),
        (True, "true"),
        (False, "false"),
        (PlanError("ZeroBudget"), "PlanError"),
        ((1, 2), "some"),
        ((), "none"),
        (frozenset({AccessMode.READ}), "some"),
        (frozenset(), "none"),
        (Labelled(AccessMode.READ), "so it is"),
    ],
)
def test_a_verdict_has_a_label_for_counting(verdict: object, label: str) -> None:
    assert verdict_label(verdict) == label


# ---- writing
def test_a_record_is_one_canonical_line() -> None:
    text = RECORD.to_text()
    assert "\n" not in text
    assert text.startswith('{"form":1,"inputs":{"inputs":{"$type":"CommandReuseInputs","per_launch_overhead_ns":9000,')
    assert json.loads(text)["policy"] == "decide_command_reuse"
    assert json.loads(text)["thresholds"]["thresholds"]["min_repeats"] == CommandReuseThresholds().min_repeats
    assert DecisionRecord.from_text(text) == RECORD
    assert json.loads(text)["verdict"]["why"].startswith("100 ")


def test_a_version_is_that_of_the_policy() -> None:
    decision = Decision(decide_command_reuse, (REUSE,), decide_command_reuse(REUSE))
    assert record_of(decision, name_of).version == decision.name


def test_a_journal_is_a_record_on_each_line() -> None:
    journal = DecisionJournal()
    decide(journal, decide_command_reuse, REUSE)
    decide(journal, choose_grid_sync, GridSyncInputs(True, 1, 1, 1))
    text = to_lines(journal.decisions, version)
    assert text.count("\n") == 2
    assert [r.policy for r in from_lines(text)] == list(POLICIES)[:2]
    assert from_lines("") == ()


def test_state_cannot_be_recorded() -> None:
    with pytest.raises(InvalidField):
        record_of(Decision(verdict_label, (len,), "builtin"), version)


FIX = "Fix: use the journal as it was written."
DAMAGED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "no form": (lambda r: r.pop("form"), "$: a decision has no form 1"),
    "a form in words": (lambda r: r.update(form="1"), "$: a decision has no form 1"),
    "a member less": (
        lambda r: r.pop("verdict"),
        "$: a decision has not the members policy, version, inputs, thresholds, verdict",
    ),
    "a member more": (
        lambda r: r.update(note=1),
        "$: a decision has not the members policy, version, inputs, thresholds, verdict",
    ),
    "a number as a name": (lambda r: r.update(policy=1), "$.policy: it is no str"),
    "a list of inputs": (lambda r: r.update(inputs=[]), "$.inputs: it is no dict"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_what_is_no_record_is_refused(case: str) -> None:
    damage, why = DAMAGED[case]
    content = json.loads(RECORD.to_text())
    damage(content)
    with pytest.raises(MalformedJson) as alone:
        DecisionRecord.from_text(json.dumps(content))
    with pytest.raises(MalformedJson) as second:
        from_lines(f"{RECORD.to_text()}\n{json.dumps(content)}\n")
    assert (str(alone.value), str(second.value)) == (f"{why}. {FIX}", f"line 2 {why}. {FIX}")


@pytest.mark.parametrize("form", [0, 2, 17])
def test_another_form_is_named(form: int) -> None:
    other = RECORD.to_text().replace('"form":1', f'"form":{form}')
    with pytest.raises(MalformedJson) as error:
        DecisionRecord.from_text(other)
    assert str(error.value) == (
        f"$: a decision has form {form}, this vyre reads 1. Fix: read it with the vyre that wrote it."
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "is not JSON (line 1, column 1: Expecting value)"),
        ("{", "is not JSON (line 1, column 2: Expecting property name enclosed in double quotes)"),
        ("[" * 100_000, "is nested more than 64 deep"),
        ('{"form":1,"verdict":' + "[" * 900 + "]" * 900 + "}", "is nested more than 64 deep"),
        ('{"form":1,"verdict":' + '{"a":' * 70 + "1" + "}" * 71, "is nested more than 64 deep"),
        ('{"form":1,"verdict":NaN}', "holds NaN, which JSON does not have"),
        ('{"form":1,"verdict":[-Infinity]}', "holds -Infinity, which JSON does not have"),
        ('{"form":1,"verdict":1e999}', "holds a number beyond the floats"),
        ('{"form":1,"verdict":1,"verdict":2}', "gives a member twice"),
        ('{"form":1,"verdict":' + "9" * 5000 + "}", "holds an integer of more than 40 digits"),
        ("[]", "has no form 1"),
        ("7", "has no form 1"),
    ],
    ids=lambda text: text[:24],
)
def test_what_is_no_json_is_refused(line: str, why: str) -> None:
    with pytest.raises(MalformedJson) as error:
        DecisionRecord.from_text(line)
    assert str(error.value) == f"$: a decision {why}. {FIX}"


@dataclass(frozen=True)
class Measured:
    value: float
    values: tuple[float, ...]


def measure(value: float) -> Measured:
    return Measured(value, (value, -value))


NOT_FINITE = (math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308)


@pytest.mark.parametrize("value", NOT_FINITE, ids=str)
def test_any_float_is_recorded_and_decided_again(value: float) -> None:
    text = to_lines([Decision(measure, (value,), measure(value))], version)
    json.loads(text, parse_constant=pytest.fail)
    (record,) = from_lines(text)
    assert record.to_text() == text.removesuffix("\n")
    assert replay(record, lambda name: Known(measure, "v1")).outcome is ReplayOutcome.SAME
    other = replace(record, verdict=replace(record, verdict={**record.verdict, "value": 7.0}).verdict)
    (difference,) = replay(other, lambda name: Known(measure, "v1")).differences
    assert difference.place == "$.value"


def nested(depth: int) -> Any:
    value: Any = ()
    for _ in range(depth - 1):
        value = (value,)
    return value


def answer(depth: int) -> object:
    return nested(depth)


def test_what_is_written_is_not_too_deep_to_be_read() -> None:
    (record,) = from_lines(to_lines([Decision(answer, (MAX_VALUE_DEPTH,), nested(MAX_VALUE_DEPTH))], version))
    assert replay(record, lambda name: Known(answer, "v1")).reproduced
    for deeper in (MAX_VALUE_DEPTH + 1, 900, 100_000):
        with pytest.raises(InvalidField, match="nested at most 62 deep"):
            record_of(Decision(answer, (deeper,), nested(deeper)), version)


def test_lines_end_at_line_feeds_alone() -> None:
    line = RECORD.to_text()
    strange = line.replace("decide_command_reuse", "decide\u2028\x85")
    assert len(from_lines(f"{line}\n{strange}\n{line}")) == 3
    with pytest.raises(MalformedJson, match="line 2 "):
        from_lines(f"{line}\n\n{line}\n")


# ---- deciding again
def test_the_same_policy_comes_to_the_same_verdict() -> None:
    assert replay(RECORD, find) == Replayed(RECORD, ReplayOutcome.SAME, True, RECORD.verdict)


def test_recorded_thresholds_count_not_those_of_now() -> None:
    never = recorded(decide_command_reuse, REUSE, CommandReuseThresholds(min_repeats=1_000))
    assert never.verdict["$type"] == "PlainLaunches"
    assert replay(never, find).outcome is ReplayOutcome.SAME


def test_a_changed_verdict_is_told_member_by_member() -> None:
    fits = recorded(choose_grid_sync, GridSyncInputs(True, 4, 2, 2))
    tampered = replace(fits, verdict=fits.verdict | {"mode": "SPLIT", "possible": False})
    found = replay(tampered, find)
    assert (found.outcome, found.reproduced) == (ReplayOutcome.DIFFERENT, False)
    assert list(map(str, found.differences)) == ['$.mode: "SPLIT" -> "NATIVE"', "$.possible: false -> true"]


def test_a_verdict_of_another_shape_is_told_as_a_whole() -> None:
    for other in (None, [], [1], {"kind": 1}):
        (difference,) = replay(replace(RECORD, verdict=other), find).differences
        assert difference.place == "$"
    lists = recorded(lambda: None)  # a verdict is any document
    pair = Known(lambda: (1, (2, 3)), "v1")
    (difference,) = replay(replace(lists, verdict=[1, [2, 4]]), lambda name: pair).differences
    assert str(difference) == "$[1][1]: 4 -> 3"


def test_changed_inputs_come_to_another_verdict() -> None:
    given = {"inputs": RECORD.inputs["inputs"] | {"repeat_count": 1}}
    found = replay(replace(RECORD, inputs=given), find)
    assert (found.outcome, found.reproduced) == (ReplayOutcome.DIFFERENT, False)


def joined(one: int, other: int) -> int:
    return one + other


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"inputs": {}}, f"$.inputs: it takes inputs. {FIX}"),
        ({"thresholds": {}}, f"$.thresholds: it takes thresholds. {FIX}"),
        ({"thresholds": {**RECORD.thresholds, "x": 1}}, f"$.thresholds: it takes thresholds. {FIX}"),
        (
            {"inputs": {"inputs": 3}},
            "$.inputs.inputs: 3 is not an object whose $type is CommandReuseInputs. "
            "Fix: use the text as it was written.",
        ),
        (
            {"inputs": {"inputs": RECORD.inputs["inputs"] | {"repeat_count": -1}}},
            "$.inputs.inputs: CommandReuseInputs.repeat_count = -1 is not an int in 0..4294967295. "
            "Fix: pass an int in 0..4294967295.",
        ),
        ({"policy": "joined", "thresholds": {}}, f"$.inputs: it takes one, other. {FIX}"),
        ({"policy": "joined", "inputs": {"one": 1, "other": 2}}, f"$.thresholds: it takes nothing. {FIX}"),
    ],
)
def test_inputs_that_cannot_have_been_given_are_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(MalformedJson) as error:
        replay(replace(RECORD, **changes), lambda name: Known(joined, "v1") if name == "joined" else find(name))
    assert str(error.value) == why


def test_a_changed_policy_is_told_and_may_still_agree() -> None:
    found = replay(replace(RECORD, version="v0"), find)
    assert (found.outcome, found.reproduced) == (ReplayOutcome.CHANGED_POLICY, True)
    assert found.why == "version v0 then, v1 now"
    found = replay(replace(RECORD, version="v0", verdict=None), find)
    assert (found.outcome, found.reproduced, len(found.differences)) == (ReplayOutcome.CHANGED_POLICY, False, 1)


def test_a_changed_policy_may_take_something_else() -> None:
    record = replace(RECORD, version="v0", inputs={"facts": 1})
    why = "it no longer takes what was recorded: $.inputs: it takes inputs"
    assert replay(record, find) == Replayed(record, ReplayOutcome.CHANGED_POLICY, False, why=why)


def test_an_unknown_policy_is_told() -> None:
    record = replace(RECORD, policy="magic.decide")
    why = "there is no policy `magic.decide`"
    assert replay(record, find) == Replayed(record, ReplayOutcome.UNKNOWN_POLICY, False, why=why)
