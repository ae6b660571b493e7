"""Every input of every policy refuses a wrong type, a negative and whatever else its field is not, and names the field.

The records are found by reflection: whatever a public function or method of ``policies`` and of the decisions of the
CPU backend takes, and whatever record a module there or of the graph layouts defines.  What is wrong for a field
follows from its annotation.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import types
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from types import ModuleType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import pytest

import vyre.adapters.cpu.decisions
import vyre.domain.graphs
import vyre.policies
from vyre.domain.artifact_key import ArtifactKey
from vyre.domain.device import DeviceProfile
from vyre.domain.errors import InvalidField
from vyre.domain.record import FloatRange, IntRange

MODULES = [
    importlib.import_module(found.name)
    for package in (vyre.policies, vyre.domain.graphs, vyre.adapters.cpu.decisions)
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]
HINTS: dict[type, dict[str, Any]] = {}


def hints_of(cls: type) -> dict[str, Any]:
    return HINTS.setdefault(cls, get_type_hints(cls, include_extras=True))


def own(module: ModuleType) -> Iterator[Any]:
    """What a module defines, methods of its classes included."""
    for item in vars(module).values():
        if getattr(item, "__module__", None) == module.__name__:
            yield item
            if isinstance(item, type):
                yield from (f for f in vars(item).values() if inspect.isfunction(f) and not f.__name__.startswith("_"))


def is_record(cls: object) -> bool:
    return isinstance(cls, type) and is_dataclass(cls) and "__post_init__" in vars(cls)


RECORDS = sorted(
    {item for module in MODULES for item in own(module) if is_record(item)}, key=lambda c: (c.__module__, c.__name__)
)


def smallest(hint: Any) -> Any:
    """The least value of a type."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        domain = args[1]
        if isinstance(domain, FloatRange):
            return math.nextafter(domain.low, math.inf)
        return domain.low if isinstance(domain, IntRange) else smallest(args[0])
    if origin in (Union, types.UnionType):
        return None if types.NoneType in args else smallest(args[0])
    if origin is tuple:
        return () if args[-1] is Ellipsis else tuple(map(smallest, args))
    if origin is frozenset:
        return frozenset()
    if is_record(hint):
        return example(hint)
    return next(iter(hint)) if isinstance(hint, type) and issubclass(hint, Enum) else hint()


def example(cls: type[Any]) -> Any:
    return cls(**{f.name: smallest(hints_of(cls)[f.name]) for f in fields(cls)})


SIMPLE: dict[type, tuple[object, ...]] = {
    int: (-(2**63) - 1, 2**63, True, 1.0, "1", None),
    float: ("1.0", True, None, 1j),
    bool: (0, 1, "True", None),
    str: (b"x", 1, None),
    bytes: ("x", 1, None),
}


def wrong(hint: Any) -> Iterator[object]:
    """Values that no field of this type takes."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        yield from outside(args[1]) if isinstance(args[1], IntRange | FloatRange) else wrong(args[0])
    elif origin in (Union, types.UnionType):
        optional = types.NoneType in args
        options = (a for a in args if a is not types.NoneType)
        yield from (value for option in options for value in wrong(option) if not (optional and value is None))
    elif origin is tuple and args[-1] is Ellipsis:
        yield from (None, [smallest(args[0])], frozenset(), *((value,) for value in wrong(args[0])))
    elif origin is tuple:
        good = tuple(map(smallest, args))
        yield from (None, list(good), good[1:], (*good, good[0]))
        for place, item in enumerate(args):
            yield from ((*good[:place], value, *good[place + 1 :]) for value in wrong(item))
    elif origin is frozenset:
        yield from (None, set(), (), *(frozenset({value}) for value in wrong(args[0])))
    elif issubclass(hint, Enum):
        member = next(iter(hint))
        yield from (member.value, member.name, None)
    else:
        yield from SIMPLE.get(hint, (None, {}, object()))


def outside(domain: IntRange | FloatRange) -> Iterator[object]:
    if isinstance(domain, IntRange):
        yield from (domain.low - 1, domain.high + 1, True, float(domain.low), str(domain.low), None)
        return
    yield from (math.nan, math.inf, -math.inf, True, str(domain.low), None)
    if domain.above:
        yield domain.low
    yield from (x for x in (math.nextafter(domain.low, -math.inf), domain.high * 2) if math.isfinite(x))


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}")
def test_a_field_outside_its_domain_is_named(cls: type[Any]) -> None:
    good = example(cls)
    for field in fields(cls):
        values = list(wrong(hints_of(cls)[field.name]))
        assert len(values) >= 2
        for value in values:
            with pytest.raises(InvalidField) as error:
                replace(good, **{field.name: value})
            assert (error.value.record, error.value.field) == (cls.__name__, field.name), value
            assert str(error.value).startswith(f"{cls.__name__}.{field.name} = ")
            assert "Fix: " in str(error.value)


class Use(NamedTuple):
    """A data class that a public function or method takes (``name`` says where) or returns."""

    function: str
    name: str
    cls: type


def uses() -> Iterator[Use]:
    for module in MODULES:
        for function in own(module):
            if not inspect.isfunction(function) or function.__name__.startswith("_"):
                continue
            for name, hint in get_type_hints(function).items():
                for part in (hint, *get_args(hint)):
                    if isinstance(part, type) and is_dataclass(part):
                        yield Use(f"{module.__name__}.{function.__qualname__}", name, part)


def test_every_policy_takes_checked_records() -> None:
    """What is not checked at construction is a result, which only a policy builds; a profile, which a probe does; or a
    key, which a compilation does for every look-up and checks where it comes from outside."""
    results = {use.cls for use in uses() if use.name == "return"} | {DeviceProfile, ArtifactKey}
    taken = [use for use in uses() if use.name != "return"]
    assert len(taken) > 60
    assert [use for use in taken if not is_record(use.cls) and use.cls not in results] == []


def test_records_are_found() -> None:
    assert len(RECORDS) > 100
    assert {cls.__module__ for cls in RECORDS} >= {
        "vyre.policies.concurrency.hazards",
        "vyre.policies.devices.occupancy",
    }
