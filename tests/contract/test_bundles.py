"""A bundle gives the bytes of a dispatch, in a process that cannot import a compiler, the language or the validator."""

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

TARGET: Final = "sm_80"
FORBIDDEN: Final = (
    "vyre.adapters.bundles.builder",
    "vyre.adapters.cuda.aot.emitters",
    "vyre.adapters.cuda.ptx.",  # all but what is in `RECORDS`
    "vyre.adapters.reference",
    "vyre.app.opening",
    "vyre.app.session",
    "vyre.domain.identity",
    "vyre.domain.ir.builder",
    "vyre.domain.ir.expr",
    "vyre.domain.ir.functions",
    "vyre.domain.ir.json",
    "vyre.domain.ir.program",
    "vyre.domain.ir.recorder",
    "vyre.domain.ir.stmt",
    "vyre.domain.ir.text",
    "vyre.domain.ir.upstream",
    "vyre.domain.ir.value",
    "vyre.domain.ir.wire",
    "vyre.domain.specialization",
    "vyre.domain.validation",
)
RECORDS: Final = (
    "vyre.adapters.cuda.ptx.kernel",
    "vyre.adapters.cuda.ptx.module_form",
    "vyre.adapters.cuda.ptx.sites",
    "vyre.domain.identity_enum",
)
"""Values only: kernels, their written form, the source lines that a fault is told with, and how enumerations hash."""
RUNNER: Final = f"""
import pickle, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.startswith({FORBIDDEN!r}) and name not in {RECORDS!r}:
            raise AssertionError(f"{{name}} was imported")

sys.meta_path.insert(0, Refuse())
import vyre

answers = {{}}
with open(sys.argv[1], "rb") as file:
    jobs = pickle.load(file)
for name, path, digest, inputs, config in jobs:
    with vyre.load_bundle(path, backend="cuda-machine", expect=digest) as bundle:
        answers[name] = [dict(bundle(inputs, config).items()) for _ in range(2)]
with open(sys.argv[2], "wb") as file:
    pickle.dump(answers, file)
"""
NAMES: Final = tuple(name for name in BASICS if load(f"basics.{name}").run is dispatch_once)


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {name: load(f"basics.{name}").case() for name in NAMES}


@pytest.fixture(scope="module")
def answers(cases: dict[str, Case], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What each bundle gave, in two dispatches."""
    folder = tmp_path_factory.mktemp("bundles")
    jobs = []
    for name, case in cases.items():
        written = vyre.build_bundle(
            load(f"basics.{name}").program(),
            folder / f"{name}.vyrz",
            targets=[TARGET],
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
    found: dict[str, list[dict[str, Any]]] = pickle.loads(given.read_bytes())
    return found


def test_most_of_the_basics_are_run() -> None:
    assert len(NAMES) >= 20
    assert {"p23_subgroups", "p24_grid_sync", "p25_async_copy"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_bundle_gives_the_bytes_of_a_dispatch(
    name: str, cases: dict[str, Case], answers: dict[str, list[dict[str, Any]]]
) -> None:
    case = cases[name]
    with vyre.open("cuda-machine") as session:
        expected = session.dispatch(load(f"basics.{name}").program(), case.inputs, case.config)
    for found in answers[name]:
        assert mismatches(case, found) == []
        assert {k: v.tobytes() for k, v in found.items()} == {k: v.tobytes() for k, v in expected.items()}


@pytest.mark.parametrize("name", ["private memory between grid barriers", "private u32 of 300", "bool8"])
def test_a_bundle_of_the_widened_language_gives_the_bytes_of_the_reference(name: str, tmp_path: Path) -> None:
    case = dict(widened_cases())[name]
    written = vyre.build_bundle(
        case.program, tmp_path / "b.vyrz", targets=[TARGET], emitters=aot_emitters(machine_code=False)
    )
    expected = oracle(case)
    assert isinstance(expected, Outputs)
    with vyre.load_bundle(written.path, backend="cuda-machine", expect=written.digest) as bundle:
        found = bundle(case.inputs, case.config)
    assert {name: values.tobytes() for name, values in found.items()} == expected.bytes


def test_the_runner_fails_on_a_forbidden_import(tmp_path: Path) -> None:
    code = RUNNER.replace("answers = {}", "import vyre.domain.validation.validator")
    done = subprocess.run([sys.executable, "-c", code, "-", "-"], capture_output=True, text=True, timeout=LIMIT_S)
    assert "vyre.domain.validation was imported" in done.stderr
