"""Whatever the application and the adapters ask a policy goes through ``decide``, or stands here with its reason.

What asks is read from the source: a policy's function may be named nowhere but as what ``decide`` is to ask.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from enum import Enum
from functools import cache
from importlib import import_module
from inspect import ismodule
from pathlib import Path
from types import FunctionType, UnionType
from typing import Any, Final, NamedTuple, get_args, get_origin, get_type_hints

import pytest

import vyre
from vyre.adapters.policy_sources import find_policy

ROOT: Final = Path(vyre.__file__).parent
PACKAGES: Final = ("vyre.policies", "vyre.adapters.cuda.decisions", "vyre.adapters.cpu.decisions")
NO_POLICIES: Final = (
    "vyre.policies.decision_records",
    "vyre.policies.journal",
    "vyre.policies.record",
    "vyre.domain.frozen",
    "vyre.domain.record",
)
"""Modules there that decide nothing."""

_DEVICE: Final = "whether there is a device to use; the target of what is emitted for it is recorded"
_NAMED: Final = "reads what a user named"
_SHORT: Final = "leaves few enough of them for a decision that is recorded"
_CHART: Final = "shown beside a decision that is recorded, and obeyed by nobody"
_REPORT: Final = "for the report; the ranking that goes by it is recorded"
_LEARNED: Final = "out of all that was seen; what is done about it is recorded"
UNRECORDED: Final = {
    ("adapters/caching/cost_eviction.py", "CostEviction._review", "estimate_credits"): _LEARNED,
    ("adapters/caching/cost_eviction.py", "_Entry.priority", "worth"): "the order that what is recorded is taken by",
    ("adapters/caching/retention.py", "HeatRetention.evict", "entries_to_evict"): _SHORT,
    ("adapters/cpu/runtime/persistent.py", "CpuEngine.__init__", "next_power_of_two"): "arithmetic",
    ("adapters/cuda/aot/choice.py", "reasons", "highest_version"): _DEVICE,
    ("adapters/cuda/aot/emitters.py", "emit_cuda", "sm_number"): _NAMED,
    ("adapters/cuda/emission.py", "_options", "sm_number"): _NAMED,
    ("adapters/cuda/runtime/resident_copies.py", "overlapped_steps", "first_conflict"): "asked once for each list",
    ("adapters/cuda/machine/libraries.py", "resident_blocks", "estimate"): "stands for a driver",
    ("adapters/cuda/runtime/facts.py", "_check", "check_driver"): _DEVICE,
    ("adapters/cuda/runtime/facts.py", "_check", "select_target"): _DEVICE,
    ("adapters/cuda/runtime/engine.py", "CudaEngine.__init__", "next_power_of_two"): "arithmetic",
    ("app/asynchrony/order.py", "MemoryOrder._conflicting", "first_conflict"): "asked for each operation under way; "
    "what it says is over when they are",
    ("app/drain_program.py", "DrainProgram.inputs", "plan_queue"): "a check; the program belongs to no session",
    ("app/explain/explanation.py", "Explanation.at", "quote"): _CHART,
    ("app/explain/explanation.py", "_offers", "quote"): _CHART,
    ("app/fixpoint.py", "FixedPoint._decided", "may_pay"): "whether facts are gathered, which are recorded",
    ("app/fixpoint.py", "FixedPoint._decided", "resolve_fixpoint_iterations"): _NAMED,
    ("app/fixpoint.py", "FixedPoint._decided", "rounds_unrolled"): "arithmetic",
    ("app/queries/cache.py", "ResidentCache._gain", "heat"): "the order that what is recorded is taken by",
    ("app/queries/cache.py", "ResidentCache.explain", "eviction_basis_points"): _REPORT,
    ("app/shape_predictor.py", "ShapePredictor._ask", "next_by_period"): _LEARNED,
    ("app/selection.py", "BackendSelector._best", "capability_score"): _REPORT,
    ("app/selection.py", "_against", "capability_score"): _REPORT,
}
"""By file, function there and policy: why it is asked directly."""


class Use(NamedTuple):
    """``place``: the function that it is in.  ``recorded``: as what ``decide`` asks."""

    file: str
    place: str
    policy: str
    recorded: bool


def uses_in(tree: ast.Module, file: str) -> Iterator[Use]:
    """Every mention of a function of a policy but where it is imported, and where only its name is wanted."""
    functions, modules = _imported(tree)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    asked = {id(call.args[1]) for call in calls if _names(call) == "decide" and len(call.args) > 1}
    named = {id(call.args[0]) for call in calls if _names(call) == "name_of"}
    for node, place in _placed(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name in functions:
                policy = functions[name]
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in modules:
                policy = attribute
                if not _is_policy(_found(modules[name], attribute)):
                    continue
            case _:
                continue
        if id(node) not in named:
            yield Use(file, place, policy, id(node) in asked)


def _names(call: ast.Call) -> str:
    assert isinstance(call.func, ast.Name)
    return call.func.id


def _placed(node: ast.AST, place: str = "") -> Iterator[tuple[ast.AST, str]]:
    """All nodes with the qualified name of the function that they are in."""
    for child in ast.iter_child_nodes(node):
        inside = place
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            inside = f"{place}.{child.name}".removeprefix(".")
        yield child, inside
        yield from _placed(child, inside)


def _imported(tree: ast.Module) -> tuple[dict[str, str], dict[str, str]]:
    """Functions, and modules, of policies by the names that a file has for them."""
    functions, modules = {}, {}
    for module, alias in _imports(tree):
        found = _found(module, alias.name)
        if ismodule(found):
            modules[alias.asname or alias.name] = found.__name__
        elif _is_policy(found):
            functions[alias.asname or alias.name] = alias.name
    return functions, modules


def _imports(tree: ast.Module) -> Iterator[tuple[str, ast.alias]]:
    """What is imported out of modules of policies."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and _is_inside(str(node.module)):
            yield from ((str(node.module), alias) for alias in node.names)


def _is_inside(module: str) -> bool:
    return any(f"{module}.".startswith(f"{package}.") for package in PACKAGES)


def _found(module: str, name: str) -> object:
    try:
        return import_module(f"{module}.{name}")
    except ImportError:
        return getattr(import_module(module), name)


def _is_policy(found: object) -> bool:
    return isinstance(found, FunctionType) and found.__module__ not in NO_POLICIES


def source() -> Iterator[tuple[str, ast.Module]]:
    for part in ("app", "adapters", "graphs"):
        for path in sorted((ROOT / part).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text("utf-8"))


@cache
def uses() -> frozenset[Use]:
    return frozenset(use for file, tree in source() for use in uses_in(tree, file))


def test_every_decision_is_recorded() -> None:
    direct = {(use.file, use.place, use.policy) for use in uses() if not use.recorded}
    assert sorted(direct - UNRECORDED.keys()) == [], "ask through `decide`"
    assert sorted(UNRECORDED.keys() - direct) == [], "no longer there"
    assert len({use.policy for use in uses() if use.recorded}) > 20


def test_the_page_lists_what_is_recorded() -> None:
    page = (Path(__file__).parents[3] / "docs" / "explain.md").read_text("utf-8")
    listed = [
        cell
        for line in page.splitlines()
        if line.count("|") == 4
        for cell in re.findall(r"\[`(\w+)`\]\(decisions/\w+\.md\)", line.split("|")[2])
    ]
    by_state = {"least_worth"}
    assert sorted(listed) == sorted({use.policy for use in uses() if use.recorded} | by_state)


ONE_OUTCOME: Final = {
    "least_worth": "somebody leaves, or it is not asked",
    "next_sample": "a number of dispatches",
    "plan_closure": "launches of a round and a table of slots, or it raises",
    "plan_queue_grid": "a number of workgroups",
}
"""Recorded policies whose verdicts all have one label, and why."""


def test_labels_of_recorded_verdicts_tell_outcomes_apart() -> None:
    recorded = {use.policy for use in uses() if use.recorded} | ONE_OUTCOME.keys()
    alike = set()
    for policy in recorded:
        known = find_policy(policy)
        assert known is not None
        verdict = get_type_hints(known.policy)["return"]
        kinds = get_args(verdict) if isinstance(verdict, UnionType) else (verdict,)
        if len({kind.__name__ for kind in kinds}) == 1 and not _tells(kinds[0]):
            alike.add(policy)
    assert sorted(alike) == sorted(ONE_OUTCOME)


def _tells(kind: Any) -> bool:
    """Does the label of such a verdict depend on what is in it?"""
    if issubclass(get_origin(kind) or kind, Collection) or isinstance(getattr(kind, "label", None), property):
        return True
    held = [hint for name, hint in get_type_hints(kind).items() if name in kind.__slots__]
    return any(isinstance(hint, type) and issubclass(hint, Enum) for hint in held)


ASKS: Final = """
from vyre.policies.devices import occupancy
from vyre.policies.devices.occupancy import estimate as guess
from vyre.policies.journal import decide, name_of
class Launch:
    def check(self):
        {line}
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("guess(sm, usage)", [("Launch.check", "estimate", False)]),
        ("occupancy.estimate(sm, usage)", [("Launch.check", "estimate", False)]),
        ("map(guess, sms, usages)", [("Launch.check", "estimate", False)]),
        ("decide(sink, guess, sm, usage)", [("Launch.check", "estimate", True)]),
        ("decide(sink, occupancy.estimate, sm, usage)", [("Launch.check", "estimate", True)]),
        ("decide(guess, other, guess)", [("Launch.check", "estimate", False)] * 2),
        ("name_of(guess)", []),
        ("occupancy.SmModel(sm)", []),
    ],
)
def test_what_counts_as_asking(line: str, found: list[tuple[str, str, bool]]) -> None:
    uses = uses_in(ast.parse(ASKS.format(line=line)), "launch.py")
    assert [(use.place, use.policy, use.recorded) for use in uses] == found
