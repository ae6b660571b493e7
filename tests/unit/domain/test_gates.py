"""Chains of gates: what they see, that the first refusal ends them, and who asks them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pytest
from dependency_injector import providers

import vyre
from support.called_programs import PROGRAMS
from vyre import Dialect, InvalidConfig, InvalidProgram, Operation, Program, RefusedByGate, gates
from vyre.app.cli import main
from vyre.app.container import Container
from vyre.app.dialects import current
from vyre.app.dialects.registry import DialectRegistry
from vyre.domain.dialects.manifests import read_manifest
from vyre.gates import Allow, Answer, Gate, GatedProgram, MutationClass, Refuse
from vyre.ir import Version
from vyre.testing import RecordingTelemetry


class Piece(NamedTuple):
    """A line of a program, with what it adds by hand: a change, a trap, or a dependence on the order of atomics."""

    line: str
    change: tuple[str, MutationClass] | None = None
    traps: bool = False
    ordered: bool = False


BUFFERS: Final = {
    "x": ("read_write u32[16]", 64),
    "o": ("read_write u32[4] output", 16),
    "p": ("read_write u32[2] kind persistent", 8),
    "r": ("read_write u32[runtime]", None),
    "w": ("workgroup u32[8]", 32),
}
PIECES = (
    Piece("x[0u] = 1u", ("x", MutationClass.IN_PLACE)),
    Piece("o[0u] = 1u", ("o", MutationClass.OUTPUTS)),
    Piece("p[0u] = 1u", ("p", MutationClass.SHARED)),
    Piece("w[0u] = 1u"),
    Piece("let a = atomic_add(r, 0u, 1u)", ("r", MutationClass.ATOMICS)),
    Piece("let b = atomic_exchange(r, 1u, 1u)", ("r", MutationClass.ATOMICS), ordered=True),
    Piece('if x[1u] > 5u {\n trap(1u, "late")\n }', traps=True),
)


class Model(NamedTuple):
    """A program, and what gates shall see of it."""

    program: Program
    changes: dict[str, MutationClass]
    size: int
    traps: bool
    ordered: bool


def model(source: random.Random) -> Model:
    pieces = [piece for piece in PIECES if source.random() < 0.4]
    named = [name for name in BUFFERS if any(f"{name}[" in p.line or f"({name}," in p.line for p in pieces)]
    numbers = {name: n for n, name in enumerate(each for each in named if each != "w")}
    lines = [f"buffer {name} @{numbers.get(name, '-')} {BUFFERS[name][0]}" for name in named]
    body = "\n".join(piece.line for piece in pieces)
    program = Program.from_text("\n".join(["workgroup_size 1, 1, 1", *lines, "body {", body, "}"]))
    changes: dict[str, MutationClass] = {}
    for name, change in [piece.change for piece in pieces if piece.change is not None]:
        changes[name] = max(change, changes.get(name, change))
    size = sum(BUFFERS[name][1] or 0 for name in named)
    return Model(program, changes, size, any(p.traps for p in pieces), any(p.ordered for p in pieces))


def noting(_: GatedProgram) -> Answer:
    return Allow(("first", "second"))


def raising(_: GatedProgram) -> Answer:
    raise ZeroDivisionError


def mute(_: GatedProgram) -> Answer:
    return None  # type: ignore[return-value]


def expected(name: str, number: int, case: Model) -> str | None:
    """The code of the refusal of a gate about a model, None if it allows the program."""
    match name:
        case "no_traps":
            return "E-GATE-TRAP" if case.traps else None
        case "no_order_dependent_results":
            return "E-GATE-ORDER" if case.ordered else None
        case "at_most_bytes":
            return "E-GATE-BYTES" if case.size > number else None
        case "changes_at_most":
            return "E-GATE-CHANGES" if any(change > number for change in case.changes.values()) else None
        case "noting":
            return None
    return "E-GATE-FAILED"


def chain(source: random.Random) -> list[tuple[str, int, Gate]]:
    made: list[tuple[str, int, Gate]] = []
    for _ in range(source.randrange(6)):
        most, kind = source.choice((0, 31, 32, 64, 88, 200)), source.choice(list(MutationClass))
        choices: list[tuple[str, int, Gate]] = [
            ("no_traps", 0, gates.no_traps),
            ("no_order_dependent_results", 0, gates.no_order_dependent_results),
            ("at_most_bytes", most, gates.at_most_bytes(most)),
            ("changes_at_most", int(kind), gates.changes_at_most(kind)),
            ("noting", 0, noting),
            *([("raising", 0, raising), ("mute", 0, mute)] if source.random() < 0.3 else []),
        ]
        made.append(source.choice(choices))
    return made


def test_random_chains_of_gates_agree_with_a_model() -> None:
    source = random.Random(11)
    refused = 0
    for _ in range(300):
        case, gates_of_case = model(source), chain(source)
        seen: list[GatedProgram] = []

        def watch(program: GatedProgram, seen: list[GatedProgram] = seen) -> Answer:
            seen.append(program)
            return Allow()

        report = gates.check_gates(case.program, [watch, *(gate for *_, gate in gates_of_case)])
        (found,) = seen
        assert (dict(found.changes), bool(found.traps)) == (case.changes, case.traps)
        assert found.is_order_sensitive is case.ordered
        assert found.mutation == max(case.changes.values(), default=MutationClass.NOTHING)
        codes = [expected(name, number, case) for name, number, _ in gates_of_case]
        first = next((n for n, code in enumerate(codes) if code is not None), None)
        asked = gates_of_case if first is None else gates_of_case[: first + 1]
        assert len(report.answers) == 1 + len(asked), "the first refusal ends the chain"
        notes = [note for gate, note in report.notes if gate == "noting"]
        assert notes == ["first", "second"] * [name for name, *_ in asked].count("noting")
        if first is None:
            assert report.refusal is None
            report.require()
            continue
        refused += 1
        assert report.refusal is not None and report.refusal[1].code == codes[first] and report.refusal[1].fix
        with pytest.raises(RefusedByGate) as error:
            report.require()
        assert error.value.gate_code == codes[first]
    assert 50 < refused < 250


def test_bytes_sized_at_run_time_and_dialects() -> None:
    open_ended = model_of_text("buffer r @0 read_write u32[runtime]", "r[0u] = 1u")
    assert gates.check_gates(open_ended, [gates.at_most_bytes(0)]).notes[0][1].startswith("'r' is sized when")
    assert gates.check_gates(open_ended, [gates.at_most_bytes(0, sized=True)]).refusal is not None
    called = PROGRAMS["let"].called
    for allowed, names in ((True, ("acme",)), (True, ("other", "acme")), (False, ()), (False, ("acm",))):
        report = gates.check_gates(called, [gates.only_dialects(*names)])
        assert (report.refusal is None) is allowed, names
    with pytest.raises(InvalidConfig):
        gates.at_most_bytes(-1)
    with pytest.raises(InvalidConfig):
        gates.check_gates(called, "no_traps")  # type: ignore[arg-type]
    with pytest.raises(InvalidConfig):
        gates.check_gates(called, [3])  # type: ignore[list-item]
    with pytest.raises(InvalidProgram):
        gates.check_gates(model_of_text("", "x[0u] = 1u"), [raising])


def model_of_text(buffers: str, body: str) -> Program:
    return Program.from_text(f"workgroup_size 1, 1, 1\n{buffers}\nbody {{\n{body}\n}}")


def test_a_session_asks_before_it_compiles_and_tells_notes() -> None:
    program = model_of_text("buffer x @0 read_write u32[4]", "x[0u] = 7u")
    telemetry = RecordingTelemetry()
    changes = gates.changes_at_most(MutationClass.OUTPUTS)
    with vyre.open("reference", gates=[noting, changes], telemetry=telemetry) as session:
        with pytest.raises(RefusedByGate, match="x"):
            session.dispatch(program, [np.zeros(4, np.uint32)])
        written = model_of_text("buffer x @0 write u32[4]", "x[0u] = 7u")
        assert session.dispatch(written)["x"][0] == 7
    assert [each.name for each in telemetry.events].count("vyre.gate.note") == 4
    with pytest.raises(InvalidConfig):
        vyre.open("reference", gates=[3])  # type: ignore[list-item]


def test_the_container_has_a_provider_for_gates() -> None:
    container = Container()
    container.backend_name.override("reference")
    container.gates.override(providers.Object((gates.changes_at_most(MutationClass.NOTHING),)))
    with container.session() as session, pytest.raises(RefusedByGate):
        session.compile(model_of_text("buffer x @0 read_write u32[4]", "x[0u] = 7u"))


def test_the_gates_of_a_registry_see_operations_and_the_programs_that_carry_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = DialectRegistry()
    monkeypatch.setattr(current, "dialect_registry", lambda: registry)
    called = PROGRAMS["let"].called
    mix, _, even = called.definitions
    registry.register(Dialect("acme", Version(1), (Operation.of(mix),)))
    with pytest.raises(RefusedByGate):
        registry.require(gates.only_dialects("other"))
    assert registry.gates == ()
    registry.require(gates.only_dialects("acme"))
    with pytest.raises(RefusedByGate):
        registry.register(Dialect("other", Version(1), (Operation.of(replace(even, id="other.even")),)))
    assert not registry.snapshot.contains("other.even")
    manifest = 'dialect = "other"\nversion = "1.0.0"\n[[ops]]\nid = "other.one"\ncategory = "A"\n'
    manifest += 'outputs = [["y", "u32"]]\nbody = "result 1u"\n'
    read = read_manifest(manifest.encode(), "other.toml")
    assert read.manifest is not None
    registry.add_manifests([read.manifest])
    assert [each.code for each in registry.snapshot.diagnostics] == ["E-TOML-REFUSED-BY-GATE"]
    registry.require(lambda seen: Refuse("E-X", "no", "none") if "acme.hash" in seen.operations else Allow())
    with vyre.open("reference") as session, pytest.raises(RefusedByGate, match="E-X"):
        session.compile(called)


def test_the_command_line_takes_gates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    program = model_of_text("buffer x @0 read_write u32[runtime]", 'x[0u] = 7u\nif x[1u] > 5u {\n trap(1u, "late")\n }')
    Path("p.vyre").write_text(program.to_text())
    rule = "from vyre.gates import Allow, Refuse\ndef none(seen): return Refuse('E-OWN', 'never', 'go.')\nnothing = 1\n"
    Path("rules.py").write_text(rule)

    def run(command: str, *options: str) -> tuple[int, str]:
        code = main([command, "p.vyre", *options])
        return code, "".join(capsys.readouterr())

    assert run("validate", "--gate", "changes-at-most=in-place", "--gate", "at-most-bytes=5")[0] == 0
    code, text = run("validate", "--gate", "changes-at-most=outputs")
    assert code == 1 and "error[E-GATE-CHANGES]" in text
    code, text = run("run", "--in", "x=1,2", "--gate", "at-most-bytes=5", "--gate", "no-traps")
    assert code == 1 and "[E-GATE-TRAP]" in text and "note: gate at_most_bytes(5): 'x' is sized" in text
    code, text = run("emit", "--gate", "rules.py:none")
    assert code == 1 and "[E-OWN] the gate none refuses the program: never" in text
    for wrong in (
        "no-trap",
        "at-most-bytes=-1",
        "changes-at-most=all",
        "rules.py:nothing",
        "no-traps=1",
        "missing.py:x",
    ):
        code, text = run("validate", "--gate", wrong)
        assert code == 2 and "Fix: " in text, wrong
