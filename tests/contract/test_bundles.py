"""A bundle gives the bytes of a dispatch, in a process without llvmlite and without CUDA that compiles nothing."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

import vyre
from support.limits import LIMIT_S
from support.running import Outputs, oracle
from support.widened_programs import widened_cases
from vyre.app.aot import aot_emitters
from vyre.gallery.example import Case, dispatch_once, mismatches
from vyre.gallery.registry import BASICS, load

TARGETS: Final = ("cpu", "sm_80")
BACKENDS: Final = ("cpu", "cuda-machine")
RUNNER: Final = """
import pickle, sys

for name in ("llvmlite", "cuda", "vyre.adapters.cpu.llvm.emit"):
    sys.modules[name] = None  # as if it were not installed
import vyre

answers = {}
with open(sys.argv[1], "rb") as file:
    jobs = pickle.load(file)
for name, path, digest, inputs, config in jobs:
    bundle = vyre.load_bundle(path, expect=digest)
    (program,) = bundle.values()
    for backend in ("cpu", "cuda-machine"):
        with vyre.open(backend, cache=False) as session:
            answers[name, backend] = [dict(session.dispatch(program, inputs, config).items()) for _ in range(2)]
            made = {key: session.metrics().get(key, 0) for key in ("emits", "compiles")}
            assert not any(made.values()), (name, backend, made)
with open(sys.argv[2], "wb") as file:
    pickle.dump(answers, file)
"""
NAMES: Final = tuple(name for name in BASICS if load(f"basics.{name}").run is dispatch_once)


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {name: load(f"basics.{name}").case() for name in NAMES}


@pytest.fixture(scope="module")
def answers(
    cases: dict[str, Case], tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The answers of each bundle on each backend, in two dispatches."""
    folder = tmp_path_factory.mktemp("bundles")
    jobs = []
    for name, case in cases.items():
        written = vyre.build_bundle(
            load(f"basics.{name}").program(),
            folder / f"{name}.vyrz",
            targets=TARGETS,
            spec=case.config.spec,
            workgroup=case.config.workgroup,
            emitters=aot_emitters(machine_code=False),
        )
        config = replace(case.config, spec=None, workgroup=None)
        jobs.append((name, str(written.path), written.digest, dict(case.inputs), config))
    asked, given = folder / "asked", folder / "given"
    asked.write_bytes(pickle.dumps(jobs))
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, str(asked), str(given)], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    found: dict[tuple[str, str], list[dict[str, Any]]] = pickle.loads(given.read_bytes())
    return found


def test_most_of_the_basics_are_run() -> None:
    assert len(NAMES) >= 20
    assert {"p23_subgroups", "p24_grid_sync", "p25_async_copy"} <= set(NAMES)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NAMES)
def test_a_bundle_gives_the_bytes_of_a_dispatch(
    name: str, backend: str, cases: dict[str, Case], answers: dict[tuple[str, str], list[dict[str, Any]]]
) -> None:
    case = cases[name]
    with vyre.open("reference") as session:
        expected = session.dispatch(load(f"basics.{name}").program(), case.inputs, case.config)
    for found in answers[name, backend]:
        assert mismatches(case, found) == []
        assert {k: v.tobytes() for k, v in found.items()} == {k: v.tobytes() for k, v in expected.items()}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["private memory between grid barriers", "private u32 of 300", "bool8"])
def test_a_bundle_of_the_widened_language_gives_the_bytes_of_the_reference(
    name: str, backend: str, tmp_path: Path
) -> None:
    case = dict(widened_cases())[name]
    written = vyre.build_bundle(
        case.program, tmp_path / "b.vyrz", targets=TARGETS, emitters=aot_emitters(machine_code=False)
    )
    expected = oracle(case)
    assert isinstance(expected, Outputs)
    (program,) = vyre.load_bundle(written.path, expect=written.digest).values()
    with vyre.open(backend, cache=False) as session:
        found = session.dispatch(program, case.inputs, case.config)
        assert session.metrics()["emits"] == 0
    assert {name: values.tobytes() for name, values in found.items()} == expected.bytes


def test_the_runner_fails_where_something_is_compiled(tmp_path: Path) -> None:
    code = RUNNER.replace("(program,) = bundle.values()", "program = vyre.Program.from_text(bundle['p'].to_text())")
    with vyre.ProgramBuilder("p", workgroup=32) as p:
        p.output("y", vyre.u32, count=1)[0] = 1
    written = vyre.build_bundle(p.build(), tmp_path / "p.vyrz", targets=["sm_80"])
    asked = tmp_path / "asked"
    asked.write_bytes(pickle.dumps([("p", str(written.path), written.digest, {}, None)]))
    done = subprocess.run(
        [sys.executable, "-c", code, str(asked), "-"], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert "the package llvmlite, which compiles its kernels, is not installed" in done.stderr
