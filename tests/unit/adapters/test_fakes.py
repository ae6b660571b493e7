"""The wrappers see every call and keep every facet."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

import vyre
from support.small_programs import catalog_of, saxpy_kernel, saxpy_program
from vyre.adapters.discovery import load_catalog
from vyre.domain.errors import DispatchFailed, DispatchTimeout
from vyre.ports.backend import Backend
from vyre.testing.fakes import FACETS, FailNth, failing, function_backend, hooked, recording

X = np.arange(4, dtype=np.float32)


def reference() -> Backend:
    registration = load_catalog().get("reference-scalar")
    assert registration is not None
    return registration.make()


def test_exactly_the_device_facets_change_and_absent_ones_stay_absent() -> None:
    for backend in (reference(), function_backend(saxpy_kernel), replace(reference(), memory=None)):
        wrapped, _ = recording(backend)
        for field in fields(Backend):
            before, after = getattr(backend, field.name), getattr(wrapped, field.name)
            if field.name in FACETS and before is not None:
                assert after is not before
            else:
                assert after is before


def test_calls_are_recorded_in_order_with_their_bytes() -> None:
    backend, log = recording(reference())
    program = saxpy_program()
    with vyre.open(catalog=catalog_of(backend)) as session:
        session.dispatch(program, [2.0, X, X])
        with session.resident(X) as x:
            session.dispatch(program, [2.0, x, X])
            x.download()
    assert log.names == [
        "compiler.compile",
        "pipeline.dispatch",
        "memory.allocate",
        "memory.upload",
        "memory.allocate",
        "memory.upload",
        "resident_executor.run",
        "memory.download",
    ]
    assert log.calls[1].program is program
    assert log.calls[1].nbytes == 4 + 16 + 16


def test_a_recorded_backend_gives_the_same_bytes() -> None:
    plain, (wrapped, _) = reference(), recording(reference())
    answers = []
    for backend in (plain, wrapped):
        with vyre.open(catalog=catalog_of(backend)) as session:
            answers.append(session.dispatch(saxpy_program(), [0.1, X, X])["y"].tobytes())
    assert answers[0] == answers[1]


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_the_nth_call_fails_and_no_other(nth: int) -> None:
    backend = failing(reference(), nth, DispatchTimeout("late"), prefix="pipeline.")
    outcomes = []
    with vyre.open(catalog=catalog_of(backend)) as session:
        for _ in range(4):
            try:
                session.dispatch(saxpy_program(), [2.0, X, X])
            except DispatchTimeout:
                outcomes.append("late")
            else:
                outcomes.append("ok")
    assert outcomes == ["late" if k == nth else "ok" for k in range(1, 5)]


def test_a_fault_without_an_error_is_a_failed_dispatch() -> None:
    hook = FailNth(1)
    with vyre.open(catalog=catalog_of(hooked(function_backend(saxpy_kernel), hook))) as session:
        with pytest.raises(DispatchFailed, match="injected"):
            session.dispatch(saxpy_program(), [2.0, X, X])
        session.dispatch(saxpy_program(), [2.0, X, X])
    assert hook.count == 2
