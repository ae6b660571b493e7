"""Whatever a policy was given and answered survives the journal, and is decided the same again.

Policies are found by reflection, and what they take is made from their annotations; what cannot be recorded is listed.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Final, get_type_hints

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

import vyre.adapters.cpu.decisions
import vyre.adapters.cuda.decisions
import vyre.policies
from support.profiles import examples
from support.records import values
from vyre.adapters.policy_sources import find_policy, version_of
from vyre.app.journal import DecisionJournal
from vyre.domain.errors import VyreError
from vyre.policies.journal import Outcome, Policy, decide, from_lines, name_of, replay, to_lines

PACKAGES: Final = (vyre.policies, vyre.adapters.cuda.decisions, vyre.adapters.cpu.decisions)
NOT_POLICIES: Final = ("journal", "record", "ptxas_hazard_table", "arith")
UNRECORDED: Final = {
    "facts_of": "answers one by one",
    "reached_from": "takes a function",
    "parts_of": "a detail of the key's text",
    "conflicts": "answers one by one",
    "unknown_target": "makes an error",
    "as_source": "a context",
    "plan_frontier_execution": "takes a cache",
    "plan_token_fact": "takes a cache",
    "chunks_of": "answers one by one",
}
"""Public functions whose arguments or answers are not values, and why."""

LARGEST: Final = 200
"""Number that a policy is given: some list as many steps."""


def modules() -> Iterator[pkgutil.ModuleInfo]:
    for package in PACKAGES:
        yield from pkgutil.walk_packages(package.__path__, f"{package.__name__}.")


def policies() -> dict[str, Policy]:
    found: dict[str, Policy] = {}
    for info in modules():
        if info.ispkg or info.name.rpartition(".")[2] in NOT_POLICIES:
            continue
        for item in vars(import_module(info.name)).values():
            if inspect.isfunction(item) and item.__module__ == info.name and not item.__name__.startswith("_"):
                found[name_of(item)] = item
    return found


POLICIES: Final = policies()


@pytest.mark.parametrize("policy", [p for name, p in POLICIES.items() if name not in UNRECORDED], ids=name_of)
@examples(12)
@given(data=st.data())
def test_a_decision_is_decided_the_same_again(policy: Policy, data: st.DataObject) -> None:
    hints = get_type_hints(policy, include_extras=True)
    arguments = [data.draw(values(hints[name], LARGEST)) for name in inspect.signature(policy).parameters]
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
    assert (found.outcome, found.differences) == (Outcome.SAME, ())
    assert record.to_text() == text.rstrip("\n")


def test_what_is_not_recorded_is_there() -> None:
    assert sorted(UNRECORDED.keys() - POLICIES.keys()) == []
    assert len(POLICIES) - len(UNRECORDED) > 90
