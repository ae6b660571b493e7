"""Whatever a signature of a public name needs has a public name, so that ports can be implemented and results kept.

A class stands in the public module of the function that takes or gives it, or in one of those on which all build:
``vyre``, ``vyre.ir``, ``vyre.ports``, ``vyre.gates`` and ``vyre.evidence``; a decision's records stand in the module of
the decision in ``vyre.policies``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

import pytest

from support.signatures import Definition, Use, defined, uses_of
from vyre.exporting import homes


def names_of(module: str) -> dict[str, str]:
    """Returns the module of each name that a public module exports."""
    return homes(import_module(module).__name__)


COMMON: Final = ("vyre", "vyre.ir", "vyre.ports", "vyre.gates", "vyre.evidence")
FACE: Final = (*COMMON, "vyre.container", "vyre.egraph", "vyre.graphs", "vyre.lowering", "vyre.testing")
DECISIONS: Final = frozenset(f"{package}.{name}" for name, package in names_of("vyre.policies").items())
MADE_BY_VYRE: Final = {
    "BatchTicket": "JobBatch.__getitem__",
    "BoundDownload": "Session.bind_download",
    "BoundResidentLaunch": "Session.bind_resident",
    "BufferHandle": "ProgramBuilder",
    "ClosedEGraph": "EGraph.close",
    "DrainProgram": "drain_program",
    "FixedPoint": "Session.fixpoint",
    "JobBatch": "PersistentJobs.submit_many",
    "Kernel": "kernel",
    "Launcher": "Kernel.__getitem__",
    "LoadedBundle": "load_bundle",
    "PersistentJobs": "Session.persistent",
    "Pipeline": "Session.compile",
    "Queries": "Session.queries",
    "ResidentCache": "Session.resident_cache",
    "Result": "Session.dispatch",
    "Session": "open",
    "SpecializedPipeline": "Session.specialize",
    "Speculation": "Session.speculate",
    "StepSequence": "Session.sequence",
    "SwitchArms": "ProgramBuilder.switch",
    "Ticket": "PersistentJobs.submit",
    "View2d": "ProgramBuilder.view2d",
    "View3d": "ProgramBuilder.view3d",
    "WorkQueue": "Session.work_queue",
}
"""The classes that users do not construct, whose constructors take what a session has: who makes their objects."""


def exported(module: str) -> frozenset[Definition]:
    return frozenset(found for name in names_of(module) if (found := defined(module, name)) is not None)


EXPORTED: Final = {module: exported(module) for module in FACE}


def is_of_a_constructor(use: Use) -> bool:
    """Whether only the constructor of a class takes it whose objects vyre makes."""
    name, _, method = use.place.rpartition(".__init__(")
    return bool(method) and name.rpartition(">")[2] in MADE_BY_VYRE


@pytest.mark.parametrize("module", FACE)
def test_every_class_in_a_public_signature_has_a_public_name(module: str) -> None:
    known = EXPORTED[module].union(*(EXPORTED[common] for common in COMMON))
    missing = {
        f"{use.used.module}.{use.used.name}": use.place
        for use in uses_of(module, sorted(names_of(module)))
        if use.used not in known and use.used.module not in DECISIONS and not is_of_a_constructor(use)
    }
    assert missing == {}


@pytest.mark.parametrize("name", MADE_BY_VYRE)
def test_what_users_do_not_construct_is_given_by_a_public_call(name: str) -> None:
    owner, _, method = MADE_BY_VYRE[name].rpartition(".")
    for module in FACE:
        for use in uses_of(module, [owner or method]):
            if use.used.name == name and (use.place.endswith(f"{method}(return)") or not owner):
                return
    pytest.fail(f"{MADE_BY_VYRE[name]} gives no {name}")


def test_classes_behind_aliases_variables_stubs_and_bases_are_seen() -> None:
    seen = {use.used.name for use in uses_of("vyre", ["Session", "sin", "Step", "function", "Kernel"])}
    assert {"ProgramSource", "DispatchConfig", "Result", "SupportsDLPack", "GatedProgram", "Value"} <= seen
    stored = {use.used.name for use in uses_of("vyre.ports", ["ArtifactStore"])}
    assert stored == {"Artifact", "ArtifactKey", "StoreStats", "StoredEntry"}
