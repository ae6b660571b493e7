"""Lowerings at work: who uses them, when they are left, and what is said about it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vyre
from support.registry import registered
from vyre import Dialect, Lowering, Operation
from vyre.adapters.discovery import load_catalog
from vyre.adapters.system import ProcessEnvironment
from vyre.app.cli import main
from vyre.app.dialects.current import dialect_registry
from vyre.app.dialects.lowerings import AS_WRITTEN, closure
from vyre.app.dialects.registry import DialectRegistry
from vyre.app.dialects.verification import CheckedLowerings, lowering_key, verify_lowerings, version_of
from vyre.app.emission import lowering_choices
from vyre.app.services import Place, verdict_store
from vyre.domain.dialects.expansion import expanded, without_calls_inside
from vyre.domain.dialects.lowering import LoweringDifference, LoweringVerdict
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.ir.definitions import Definition
from vyre.domain.ir.program import Program
from vyre.domain.ir.text_parser import parse_definition
from vyre.ports.backend import Backend, BackendCatalog, BackendServices

VERSION = "define {} version 1.0.0 (x: u32) -> u32 {{\n{}\n}}"
CALL = """workgroup_size 64, 1, 1
buffer y @0 read_write u32[runtime]
{}body {{
  y[gid.x] = acme.halve(y[gid.x])
}}
"""


def definition(body: str, name: str = "acme.halve") -> Definition:
    return parse_definition(VERSION.format(name, body), "a test", 0)


HALVE = definition("result x / 2u")
SHIFT = definition("result x >> 1u")
MASKED = definition("result (x & 4294967294u) >> 1u")
WRONG = definition("result (x + 1u) >> 1u")
INDIRECT = (definition("result x >> 1u", "acme.shift"), definition("result acme.shift(x)"))


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DialectRegistry]:
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path / "cache"))
    with registered() as found:
        yield found


def register(*lowering: Definition, backend: str = "reference", of: Definition = HALVE) -> None:
    operation = Operation.of(HALVE, lowerings={backend: Lowering.of(of, *lowering)})
    dialect_registry().register(Dialect("acme", HALVE.version, (operation,)))


def program(definitions: str = "") -> Program:
    return Program.from_text(CALL.format(definitions))


def used(session: vyre.Session, config: DispatchConfig | None = None) -> tuple[bool, str]:
    """Whether the session runs the lowering, from the program that it compiles and from what it explains."""
    compiled = session.compile(program(), config).program
    (choice,) = session.explain(program(), config).lowerings
    shifted = ">>" in compiled.to_text()
    assert choice.is_used is shifted
    found = session.dispatch(program(), {"y": np.arange(8, dtype=np.uint32)}, config)["y"]
    assert found.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    return choice.is_used, choice.why


@pytest.mark.parametrize("backend", ["reference", "cpu", "cuda-machine"])
def test_a_lowering_is_used_once_it_has_passed(
    backend: str, registry: DialectRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    if backend == "cpu":
        pytest.importorskip("llvmlite")
    register(SHIFT, backend=backend)
    with vyre.open(backend) as session:
        is_used, why = used(session)
        assert not is_used and "vyre dialects verify acme.halve" in why
    assert main(["dialects", "verify", "acme.halve"]) == 0
    assert "samples only" in capsys.readouterr().out
    with vyre.open(backend) as session:
        is_used, why = used(session)
        assert is_used and "samples only" in why
        assert "operation acme.halve: lowering, since" in str(session.explain(program()))
        assert program().digest == program().digest  # the program that is given never changes
        key = session.compile(program()).program.digest
        assert key != expanded(registry.snapshot.resolved(program())).digest
    other = "reference-scalar" if backend == "reference" else "reference"
    with vyre.open(other) as session:
        assert session.explain(program()).lowerings == ()


def test_a_lowering_that_gives_another_result_is_refused(
    registry: DialectRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    register(WRONG)
    assert main(["dialects", "verify", "acme"]) == 1
    assert "refused: 0x1 instead of 0x0" in capsys.readouterr().out
    with vyre.open("reference") as session:
        is_used, why = used(session)
    assert not is_used and "refused" in why


def test_a_lowering_of_another_definition_is_not_used(
    registry: DialectRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    register(SHIFT, of=definition("result x >> 1u"))
    assert main(["dialects", "verify", "acme", "--json"]) == 1
    (document,) = json.loads(capsys.readouterr().out)["lowerings"]
    assert document["refused"] and "written for the definition" in document["problem"]
    with vyre.open("reference") as session:
        is_used, why = used(session)
    assert not is_used and "written for the definition" in why


def test_a_programs_own_definition_takes_precedence(registry: DialectRegistry) -> None:
    register(SHIFT)
    assert main(["dialects", "verify", "acme"]) == 0
    own = program(VERSION.format("acme.halve", "  result x - x / 2u") + "\n")
    with vyre.open("reference") as session:
        (choice,) = session.explain(own).lowerings
        assert not choice.is_used and "not this one" in choice.why
        assert session.dispatch(own, {"y": np.array([5], np.uint32)})["y"].tolist() == [3]


def test_another_version_of_the_backend_needs_another_check(registry: DialectRegistry) -> None:
    register(SHIFT)
    assert main(["dialects", "verify", "acme"]) == 0
    reference = load_catalog().get("reference")
    assert reference is not None
    made = reference.factory

    def newer(services: BackendServices) -> Backend:
        return replace(made(services), toolchain=lambda: "version 2")

    changed = BackendCatalog((replace(reference, factory=newer),))
    with vyre.open("reference", catalog=changed) as session:
        is_used, why = used(session)
    assert not is_used and "it was checked on reference (version 1, source" in why and "now version 2" in why


@pytest.mark.parametrize(
    "config", [DispatchConfig(optimize=False), DispatchConfig(step_budget=1000), DispatchConfig(race_check=True)]
)
def test_a_program_that_runs_as_written_uses_none(registry: DialectRegistry, config: DispatchConfig) -> None:
    register(SHIFT)
    assert main(["dialects", "verify", "acme"]) == 0
    with vyre.open("reference") as session:
        assert used(session)[0]
        assert used(session, config) == (False, AS_WRITTEN)
    with vyre.open("reference", optimize=False) as session:
        assert used(session) == (False, AS_WRITTEN)


def test_without_a_cache_none_is_used(registry: DialectRegistry) -> None:
    register(SHIFT)
    with vyre.open("reference", cache=False) as session:
        is_used, why = used(session)
    assert not is_used and "cache is turned off" in why


def test_a_lowering_may_call_operations_of_its_own(registry: DialectRegistry) -> None:
    register(*INDIRECT)
    assert main(["dialects", "verify", "acme"]) == 0
    with vyre.open("reference") as session:
        assert used(session)[0]
    alone = without_calls_inside(INDIRECT)
    assert alone.id == "acme.halve" and "acme.shift" not in str(alone.result)


def test_backends_that_cannot_run_here_are_told(registry: DialectRegistry, tmp_path: Path) -> None:
    register(SHIFT, backend="nowhere")
    operation = registry.snapshot.operation("acme.halve")
    assert operation is not None
    with vyre.open("reference") as session:
        (report,) = verify_lowerings(
            [operation], registry.snapshot.definitions_of, vyre.open, session.dispatch, CheckedLowerings(None)
        )
    assert not report.is_refused and "not checked: there is no backend `nowhere`" in str(report)


def test_emission_uses_what_was_checked_here(
    registry: DialectRegistry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("llvmlite")
    register(SHIFT, backend="cpu")
    path = tmp_path / "halve.vyre"
    path.write_text(CALL.format(""))
    assert main(["emit", str(path), "--target", "cpu", "--json"]) == 0
    before = json.loads(capsys.readouterr().out)
    assert main(["dialects", "verify", "acme"]) == 0
    capsys.readouterr()
    assert main(["emit", str(path), "--target", "cpu", "--json"]) == 0
    after = json.loads(capsys.readouterr().out)
    assert [each["lowerings"][0]["is_used"] for each in (before, after)] == [False, True]
    assert main(["emit", str(path), "--target", "cpu", "--json", "--as-written"]) == 0
    assert json.loads(capsys.readouterr().out)["lowerings"][0]["why"] == AS_WRITTEN
    assert main(["explain", str(path), "--backend", "cpu"]) == 0
    assert "operation acme.halve: lowering" in capsys.readouterr().out


CUDA = next(each for each in load_catalog().registrations if each.id == "cuda")
SOMEWHERE = "driver 13000, a device"


def store_verdict(version: str, difference: LoweringDifference | None = None) -> None:
    """Stores what a check on a GPU says about ``MASKED``; there is none here."""
    store = verdict_store(Place(None, ProcessEnvironment()))
    assert store is not None
    key = lowering_key((HALVE,), (MASKED,), "cuda", version)
    assert store.put(LoweringVerdict(key, 9, False, difference))


def emitter_of_cuda() -> str:
    assert CUDA.emitter is not None and CUDA.toolchain is None
    return CUDA.emitter()


def ptx_of(called: Program) -> str:
    return str(vyre.emit(called, target="sm_75").to_json())


def halved(path: Path) -> list[int]:
    """The answer of the program of a bundle for eight numbers."""
    (loaded,) = vyre.load_bundle(path).values()
    with vyre.open("cuda-machine", cache=False) as session:
        found: list[int] = session.dispatch(loaded, {"y": np.arange(8, dtype=np.uint32)})["y"].tolist()
    return found


def test_code_for_any_cuda_device_uses_what_its_emitter_was_checked_with(
    registry: DialectRegistry, tmp_path: Path
) -> None:
    register(MASKED, backend="cuda")
    (unchecked,) = lowering_choices(program(), target="sm_75")
    assert not unchecked.is_used and f"has not been checked on cuda ({emitter_of_cuda()})" in unchecked.why
    plain, without = vyre.build_bundle(program(), tmp_path / "plain.vyrz", targets=["sm_75"]), ptx_of(program())
    assert plain.lowerings == {"sm_75": (unchecked,)}
    store_verdict(f"{emitter_of_cuda()}, {SOMEWHERE}")
    (choice,) = lowering_choices(program(), target="sm_75")
    assert choice.is_used and SOMEWHERE in choice.why and "other devices and drivers" in choice.why
    assert ptx_of(program()) != without
    written = vyre.build_bundle(program(), tmp_path / "halve.vyrz", targets=["sm_75"])
    assert written.lowerings == {"sm_75": (choice,)}
    assert written.programs == plain.programs and written.digest != plain.digest
    assert halved(written.path) == [0, 0, 1, 1, 2, 2, 3, 3]
    (as_written,) = lowering_choices(program(), target="sm_75", optimize=False)
    assert as_written.why == AS_WRITTEN
    bare = vyre.build_bundle(program(), tmp_path / "bare.vyrz", targets=["sm_75"], optimize=False)
    assert bare.lowerings == {"sm_75": (as_written,)}
    assert bare.digest == plain.digest, "the code is that of the definition, which was made before the verdict"
    assert halved(bare.path) == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("flags", [(), ("--as-written",)])
def test_the_command_builds_as_written_where_it_is_told_to(
    flags: tuple[str, ...], registry: DialectRegistry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register(MASKED, backend="cuda")
    store_verdict(f"{emitter_of_cuda()}, {SOMEWHERE}")
    path = tmp_path / "halve.vyre"
    path.write_text(program().to_text(), encoding="utf-8")
    assert main(["aot", str(path), "-o", str(tmp_path / "halve.vyrz"), "--ptx-only", "--json", *flags]) == 0
    ((choice,),) = json.loads(capsys.readouterr().out)["lowerings"].values()
    assert choice["is_used"] is not bool(flags)


def test_a_lowering_that_one_device_refused_is_in_code_for_none(registry: DialectRegistry, tmp_path: Path) -> None:
    register(MASKED, backend="cuda")
    store_verdict(f"{emitter_of_cuda()}, {SOMEWHERE}")
    store_verdict(f"{emitter_of_cuda()}, driver 12000, another device", LoweringDifference((3,), 1, 2))
    (choice,) = lowering_choices(program(), target="sm_75")
    assert not choice.is_used and "another device" in choice.why and "refused" in choice.why


def test_a_check_with_another_emitter_says_nothing_about_this_one(registry: DialectRegistry) -> None:
    register(MASKED, backend="cuda")
    store_verdict(f"version 1, emitter 0123456789abcdef, {SOMEWHERE}")
    (choice,) = lowering_choices(program(), target="sm_75")
    assert not choice.is_used and "which is now" in choice.why


def test_a_closure_holds_what_is_called_and_nothing_else() -> None:
    known = {each.id: each for each in (definition("result x", "acme.other"), *INDIRECT)}
    assert [each.id for each in closure(INDIRECT[1], known)] == ["acme.shift", "acme.halve"]


def test_every_backend_tells_its_toolchain() -> None:
    pytest.importorskip("llvmlite")
    for name in ("reference", "reference-scalar", "cpu", "cuda-machine"):
        with vyre.open(name) as session:
            assert version_of(session._lease.backend).startswith("version 1, ")
