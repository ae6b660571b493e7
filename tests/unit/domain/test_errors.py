"""Every error has a code of its own, a ``Fix:``, and survives pickling."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import vyre
from support.small_programs import saxpy_program
from vyre.domain import errors, program_report
from vyre.domain.errors import ErrorCode, VyreError
from vyre.domain.races import DataRace, LanePlace, RacingAccess
from vyre.domain.source_location import SourceLocation


def subclasses(cls: type[VyreError]) -> Iterator[type[VyreError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from subclasses(child)


def lane(local: int) -> LanePlace:
    return LanePlace(local, (local, 0, 0), (0, 0, 0), (local, 0, 0))


ALL = [c for c in subclasses(VyreError) if c.__module__ in (errors.__name__, program_report.__name__)]
SAMPLES: dict[str, object] = {
    "requested": 8,
    "available": 4,
    "feature": "f",
    "limit": "max_grid_size",
    "needed": 9,
    "offered": 8,
    "backend": "b",
    "compiler_log": "log",
    "tag": "t",
    "address": 7,
    "global_id": (1, 2, 3),
    "budget": 9,
    "place": "steps[2]",
    "record": "R",
    "field": "f",
    "value": -1,
    "expected": "an int",
    "device": "a GPU",
    "refused": (("sm_90.ptx", "it is newer"),),
    "what": "the bundle",
    "actual": "00",
    "age_s": 9,
    "max_age_s": 8,
    "capacity": 8,
    "operation": "acme.gelu",
    "first": "acme",
    "second": "acme of a file",
    "lost": 2,
    "step": "steps[1]",
    "counts": (9, 1, 1),
    "most": (8, 1, 1),
    "gate": "no_traps",
    "gate_code": "E-GATE-TRAP",
    "reason": "it may trap",
    "races": (
        DataRace("y", 3, RacingAccess("load", lane(0)), RacingAccess("store", lane(1), SourceLocation("k.py", 7))),
    ),
}


def sample(cls: type[VyreError]) -> VyreError:
    parameters = list(inspect.signature(cls).parameters.values())
    keywords: dict[str, Any] = {p.name: SAMPLES[p.name] for p in parameters if p.name in SAMPLES}
    return cls("something is wrong", **keywords) if parameters[0].name in ("message", "kind") else cls(**keywords)


@pytest.mark.parametrize("cls", ALL, ids=lambda c: c.__name__)
def test_text_and_pickle(cls: type[VyreError]) -> None:
    error = sample(cls)
    error.add_note("backend=b")
    assert str(error) == f"{error.message}. Fix: {error.fix}"
    assert error.fix
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is cls
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
    assert copy.code is cls.code
    assert copy.__notes__ == ["backend=b"]


def test_codes_are_distinct_and_pinned() -> None:
    own = [c.code for c in ALL if "code" in vars(c)]
    assert len(own) == len(set(own))
    assert {c.name: c.value for c in ErrorCode} | PINNED == {c.name: c.value for c in ErrorCode}


PINNED = {
    "DEVICE_OUT_OF_MEMORY": 1001,
    "UNSUPPORTED_FEATURE": 1002,
    "KERNEL_COMPILE_FAILED": 1004,
    "DISPATCH_FAILED": 1005,
    "INVALID_PROGRAM": 1006,
    "DEVICE_LOST": 1007,
    "DISPATCH_TIMEOUT": 1008,
    "INVALID_RESOURCE": 1009,
    "UNKNOWN": 1999,
}


def test_a_remedy_in_the_message_is_split_off_once() -> None:
    error = VyreError("it broke. Fix: mend it.")
    assert (error.message, error.fix) == ("it broke", "mend it.")
    assert str(error) == "it broke. Fix: mend it."


def test_located_errors_name_the_place() -> None:
    loc = SourceLocation("kernel.py", 3, 7)
    error = pickle.loads(pickle.dumps(vyre.BuildError("odd", loc=loc)))
    assert str(error).startswith("kernel.py:3:7: odd. Fix: ")
    assert error.loc == loc


def test_a_report_travels_with_its_error() -> None:
    error = vyre.InvalidProgram("bad", report=vyre.validate(saxpy_program()))
    assert pickle.loads(pickle.dumps(error)).report == error.report


def test_programs_pickle() -> None:
    program = saxpy_program()
    copy = pickle.loads(pickle.dumps(program))
    assert copy == program
    assert copy.digest == program.digest
