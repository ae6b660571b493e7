"""Laws of registered dialects where sessions prepare programs: chosen by the decision, checked, and part of keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import vyre
from vyre.adapters import optimizing
from vyre.app.dialects.current import dialect_registry
from vyre.app.dialects.registry import DialectRegistry
from vyre.domain.dialects.operations import Dialect, Operation
from vyre.domain.ir.definitions import Definition, Version
from vyre.domain.ir.program import Program
from vyre.domain.ir.text_parser import parse_definition
from vyre.domain.optimize import dialect_laws
from vyre.domain.optimize.dialect_laws import digest_of, stated_laws
from vyre.policies.optimizing.program_passes import PassGain, PassInputs, PassTables, ProgramPasses, choose_passes

_GAIN = PassGain("saturation/4", 1, 4, law_ns=1)
EAGER = PassTables(interpreter=(_GAIN,), native=(_GAIN,), device=(_GAIN,))
"""A table by which the pass that needs laws pays for a program of a few nodes as soon as it is asked."""
FOLD: Definition = parse_definition(
    "define acme.guarded version 1.0.0 (x: u32, y: u32) -> u32 {\nlet d = y | 1u\nresult x / d * d + x % d\n}",
    "a test",
    0,
)
PROGRAM = Program.from_text(
    """workgroup_size 64, 1, 1
buffer x @0 read u32[64]
buffer y @1 read u32[64]
buffer z @2 read_write u32[64]
body {
  let i = gid.x
  z[i] = acme.guarded(x[i], y[i])
}
"""
)
X = np.arange(64, dtype=np.uint32) * np.uint32(2654435761)
INPUTS = {"x": X, "y": X >> np.uint32(20), "z": np.zeros(64, np.uint32)}
TRUE, FALSE = "acme.guarded(x, y) == x", "acme.guarded(x, y) == y"


def eagerly(inputs: PassInputs) -> ProgramPasses:
    """Decides by a table in which laws pay at once, as if each program had run before."""
    return choose_passes(replace(inputs, runs=max(inputs.runs, 1)), EAGER)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[DialectRegistry]:
    found = dialect_registry()
    before = found.snapshot
    monkeypatch.setattr(optimizing, "choose_passes", eagerly)
    yield found
    found.install(before)


def register(registry: DialectRegistry, *laws: str) -> None:
    registry.register(Dialect("acme", Version(1), (Operation.of(FOLD, law_texts=laws),)))


def prepared_passes(session: vyre.Session) -> str:
    """Returns the passes of the program that a session prepares, as keys have them."""
    engine = session._lease.backend.optimizes
    assert engine is not None
    return optimizing.passes_for(session.compile(PROGRAM).program, vyre.DispatchConfig(), engine, True, None, 8)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_a_session_rewrites_by_laws_that_passed_their_check(registry: DialectRegistry, backend: str) -> None:
    register(registry, TRUE)
    with vyre.open(backend, cache=False) as session:
        for _ in range(4):
            assert session.dispatch(PROGRAM, INPUTS)["z"].tolist() == X.tolist()
        program = session.compile(PROGRAM).program
        passes = prepared_passes(session)
        assert passes == f"saturation/4:{digest_of(stated_laws(program))}"
        made = optimizing.optimized(program, {}, passes).program.to_text()
        assert "/" in program.to_text() and "/" not in made
        assert "saturation" in str(session.explain(PROGRAM))


def test_a_law_that_does_not_hold_is_used_nowhere(registry: DialectRegistry) -> None:
    register(registry, FALSE)
    with vyre.open("reference", cache=False) as session:
        for _ in range(4):
            assert session.dispatch(PROGRAM, INPUTS)["z"].tolist() == X.tolist()
        assert prepared_passes(session) == "saturation/4"


def test_keys_tell_laws_apart(registry: DialectRegistry) -> None:
    found = set()
    for laws in ((TRUE,), ("acme.guarded(x, x) == x",), (TRUE, "acme.guarded(x, x) == x")):
        register(registry, *laws)
        with vyre.open("reference", cache=False) as session:
            found.add(prepared_passes(session))
        registry.install(type(registry.snapshot)())
    assert len(found) == 3


def test_nothing_is_checked_where_the_decision_leaves_laws_out(
    registry: DialectRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked(law: object) -> bool:
        raise AssertionError("a law was checked")

    register(registry, TRUE)
    monkeypatch.setattr(dialect_laws, "is_trusted", checked)
    with vyre.open("reference", cache=False, optimize=False) as session:
        for _ in range(4):
            assert session.dispatch(PROGRAM, INPUTS)["z"].tolist() == X.tolist()
    monkeypatch.setattr(optimizing, "choose_passes", choose_passes)
    with vyre.open("reference", cache=False) as session:
        for _ in range(20):
            session.dispatch(PROGRAM, INPUTS)
        assert "saturation" not in prepared_passes(session)


def test_a_program_that_calls_nothing_has_no_laws(registry: DialectRegistry) -> None:
    register(registry, TRUE)
    plain = Program.from_text(PROGRAM.to_text().replace("acme.guarded(x[i], y[i])", "x[i] / 4u"))
    with vyre.open("reference", cache=False) as session:
        assert stated_laws(session.compile(plain).program) == ()
