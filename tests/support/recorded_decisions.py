"""The policies whose decisions can be recorded, and decisions of each, drawn from the types of its parameters."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Final, get_type_hints

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import vyre.adapters.cpu.decisions
import vyre.adapters.cuda.decisions
import vyre.policies
from support.records import values
from vyre.app.journal import DecisionJournal
from vyre.domain.errors import VyreError
from vyre.policies.journal import Decision, Policy, decide, name_of

PACKAGES: Final = (vyre.policies, vyre.adapters.cuda.decisions, vyre.adapters.cpu.decisions)
NOT_POLICIES: Final = ("decision_records", "journal", "record", "ptxas_hazard_table", "arith")
UNRECORDED: Final = {
    "facts_of": "answers one by one",
    "reached_from": "takes a function",
    "parts_of": "a detail of the key's text",
    "conflicts": "answers one by one",
    "unknown_target": "makes an error",
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


def arguments_of(data: st.DataObject, policy: Policy) -> list[object]:
    """Draws what a policy takes."""
    hints = get_type_hints(policy, include_extras=True)
    return [data.draw(values(hints[name], LARGEST)) for name in inspect.signature(policy).parameters]


@cache
def decisions(each: int = 1) -> tuple[Decision, ...]:
    """Returns some decisions of every policy, ``each`` at most, the same in every process."""
    found: list[Decision] = []
    for name, policy in POLICIES.items():
        if name not in UNRECORDED:
            found += _drawn(policy, each)
    return tuple(found)


def _drawn(policy: Policy, count: int) -> list[Decision]:
    journal = DecisionJournal()

    @settings(
        max_examples=count,
        database=None,
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(data=st.data())
    def draw(data: st.DataObject) -> None:
        try:
            decide(journal, policy, *arguments_of(data, policy))
        except VyreError:
            pass  # a refusal is an answer
        except Exception:  # verdicts of other policies that none of them gives
            return

    draw()
    return list(journal.decisions)
