"""Whatever a policy was given and answered survives the journal, and is decided the same again.

Policies are found by reflection, and what they take is made from their annotations; what cannot be recorded is listed.
"""

from __future__ import annotations

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from support.profiles import examples
from support.recorded_decisions import POLICIES, UNRECORDED, arguments_of
from vyre.adapters.policy_sources import find_policy, version_of
from vyre.app.journal import DecisionJournal
from vyre.domain.errors import VyreError
from vyre.policies.decision_records import ReplayOutcome, from_lines, replay, to_lines
from vyre.policies.journal import Policy, decide, name_of


@pytest.mark.parametrize("policy", [p for name, p in POLICIES.items() if name not in UNRECORDED], ids=name_of)
@examples(6)
@given(data=st.data())
def test_a_decision_is_decided_the_same_again(policy: Policy, data: st.DataObject) -> None:
    arguments = arguments_of(data, policy)
    journal = DecisionJournal()
    try:
        decide(journal, policy, *arguments)
    except VyreError:
        pass  # a refusal is an answer
    except Exception:  # verdicts of other policies that none of them gives
        reject()
    text = to_lines(journal.decisions, version_of)
    (record,) = from_lines(text)
    found = replay(record, find_policy)
    assert (found.outcome, found.differences) == (ReplayOutcome.SAME, ())
    assert record.to_text() == text.rstrip("\n")


def test_what_is_not_recorded_is_there() -> None:
    assert sorted(UNRECORDED.keys() - POLICIES.keys()) == []
    assert len(POLICIES) - len(UNRECORDED) > 70
