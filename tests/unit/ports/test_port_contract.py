"""The port is frozen: a change of any signature or field below is a new ``PORT_API_VERSION``."""

from __future__ import annotations

import dataclasses
import inspect
import json
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from vyre.domain import device, dispatch
from vyre.ports import (
    aot,
    backend,
    bundles,
    cost_probe,
    emission,
    execution,
    gathering,
    lifecycle,
    persistent,
    planning,
    requests,
    resident_buffer,
    support,
    tunable,
)

GOLDEN = Path(__file__).parents[2] / "data" / "port_contract.json"


def _is_record(cls: type) -> bool:
    return dataclasses.is_dataclass(cls) or hasattr(cls, "_fields")


def _describe(cls: type) -> dict[str, Any]:
    if issubclass(cls, Enum):
        return {member.name: member.value for member in cls}
    if dataclasses.is_dataclass(cls):
        return {f.name: str(f.type) for f in dataclasses.fields(cls)}
    if hasattr(cls, "_fields"):
        return {name: getattr(cls.__annotations__[name], "__forward_arg__", None) for name in cls._fields}
    described: dict[str, Any] = {}
    for name, member in vars(cls).items():
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, property):
            described[name] = f"property -> {inspect.signature(member.fget).return_annotation}"  # type: ignore[arg-type]
        elif inspect.isfunction(member) and (name != "__init__" or "Protocol" not in str(cls.__bases__)):
            described[name] = str(inspect.signature(member))
    return described


def _contract() -> dict[str, Any]:
    modules = (
        *(aot, backend, bundles, cost_probe, emission, execution, gathering),
        *(lifecycle, persistent, planning, requests, resident_buffer, support, tunable),
    )
    classes = [c for m in modules for c in vars(m).values() if inspect.isclass(c) and c.__module__ == m.__name__]
    shared = [device.DeviceProfile, dispatch.DispatchTiming, dispatch.DispatchConfig]
    return {cls.__name__: _describe(cls) for cls in sorted([*classes, *shared], key=lambda c: c.__name__)}


def test_the_port_is_what_was_promised() -> None:
    assert _contract() == json.loads(GOLDEN.read_text())["classes"]
    assert json.loads(GOLDEN.read_text())["version"] == backend.PORT_API_VERSION


def test_every_facet_is_optional_but_the_executor_and_the_lifecycle() -> None:
    facets = {f.name: f for f in dataclasses.fields(backend.Backend)}
    optional = {
        "compiler",
        "memory",
        "foreign_memory",
        "gathering",
        "resident_executor",
        "resident_binder",
        "loops",
        "async_executor",
        "metric_source",
        "tunable",
        "cost_probe",
        "planning",
        "persistent",
        "persistent_steps",
    }
    for name in optional:
        assert facets[name].default is None
    for name in ("executor", "lifecycle"):
        assert facets[name].default is dataclasses.MISSING


@pytest.mark.parametrize("cls", [c for c in vars(backend).values() if inspect.isclass(c) and _is_record(c)])
def test_records_are_immutable(cls: type) -> None:
    if dataclasses.is_dataclass(cls):
        assert cls.__setattr__ is not object.__setattr__
        assert "__slots__" in vars(cls)
    else:
        assert issubclass(cls, tuple)
