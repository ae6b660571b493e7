"""The keywords beside a config: the same everywhere, and known to type checkers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final, Unpack, assert_type

import pytest

import vyre
from support.small_programs import saxpy_program
from vyre.app.preparing import merged_for
from vyre.app.shorthand import Keywords

NAMES: Final = tuple(Keywords.__annotations__)


def keyword_only(function: Callable[..., Any]) -> list[str]:
    return [name for name, each in inspect.signature(function).parameters.items() if each.kind is each.KEYWORD_ONLY]


def test_every_function_that_takes_a_config_takes_the_same_keywords() -> None:
    written_out = {"dispatch", "compile", "bind_resident", "race"}  # ``race`` has variants instead
    methods = [
        method
        for name, method in inspect.getmembers(vyre.Session, inspect.isfunction)
        if "config" in inspect.signature(method).parameters and not name.startswith("_") and name not in written_out
    ]
    assert len(methods) >= 9
    for method in methods:
        assert inspect.signature(method).parameters["shorthand"].annotation == "Unpack[Keywords]", method
    assert tuple(keyword_only(vyre.Session.compile)) == NAMES
    assert tuple(keyword_only(vyre.Session.bind_resident)) == NAMES
    assert set(NAMES) < set(keyword_only(vyre.Session.dispatch))
    assert set(NAMES) < set(inspect.signature(merged_for).parameters)
    assert set(NAMES) < {field.name for field in fields(vyre.DispatchConfig)}


def test_a_name_that_there_is_not_is_refused() -> None:
    with vyre.open("reference", cache=False) as session, pytest.raises(TypeError, match="gird"):
        session.prepare(saxpy_program(), gird=1)  # type: ignore[call-arg]


def _checked(session: vyre.Session, program: vyre.Program, **shorthand: Unpack[Keywords]) -> None:
    """For type checkers: to ``Any`` the comments that ignore errors would be unused, and that is an error too."""
    assert_type(session.bind(program, (), grid=(1, 2)), vyre.BoundLaunch)
    assert_type(session.compile(program, **shorthand), vyre.Pipeline)
    session.prepare(program, spec={"k": 1, "l": 2.5}, extent=4, output_counts={"y": 4}, race_check=True)
    session.prepare(program, grid="4")  # type: ignore[arg-type]
    session.tuned(program, extent=[4])  # type: ignore[arg-type]
    session.submit(program, output_counts={"y": 1.5})  # type: ignore[dict-item]
    session.dispatch_many(program, [], spec={1: 1})  # type: ignore[dict-item]
    session.specialize(program, out={})  # type: ignore[call-arg]
    session.explain(program, race_check=None)  # type: ignore[call-overload]
    vyre.DispatchConfig(grid=4, workgroup=64, spec={"k": 1})
    vyre.DispatchConfig(extent=(4, 4), grid=4.0)  # type: ignore[arg-type]
