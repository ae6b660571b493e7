"""Where llvmlite is not installed, stored code runs, and all else says what to install.

Each test is a process of its own in which llvmlite cannot be imported, and no device but the processor is known.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

import vyre
from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from support.small_programs import saxpy_program, square_program
from vyre.adapters.cpu.native.loading import OWN_LOADER

pytestmark = [
    NEEDS_LLVM,
    pytest.mark.skipif(not OWN_LOADER, reason="stored code needs the compiler on this system"),
]

TESTS: Final = Path(__file__).parents[1]
INSTALL: Final = 'pip install "vyre[cpu]"'
SCRIPT: Final = """
import json, sys
sys.modules["llvmlite"] = None
sys.path.insert(0, {tests!r})
from dataclasses import replace
import numpy as np
import vyre
import vyre.app.opening
from support.small_programs import saxpy_program, square_program
from vyre.adapters.discovery import load_catalog

known = load_catalog()
catalog = replace(known, registrations=tuple(each for each in known.registrations if each.id != "cuda"))
found = {{}}
with vyre.open(catalog=catalog) as session:
    found["backend"] = session.backend
    found["report"] = str(session.explain())
    x = np.arange(4, dtype=np.float32)
    found["y"] = session.dispatch(saxpy_program(), {{"a": 2.0, "x": x, "y": x}})["y"].tolist()
    try:
        session.dispatch(square_program(), {{"x": np.arange(4, dtype=np.uint32)}})
    except vyre.VyreError as error:
        found["error"] = [type(error).__name__, str(error)]
        found["notes"] = error.__notes__
json.dump(found, sys.stdout)
"""


def environment(cache: str, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VYRE_")}
    return kept | {"VYRE_CACHE_DIR": cache} | more


def run(cache: str, **more: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(tests=str(TESTS))],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=environment(cache, **more),
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def command(cache: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    start = "import sys; sys.modules['llvmlite'] = None; from vyre.app.cli import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", start, *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=environment(cache, COLUMNS="400"),
    )


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store that a process with a compiler has filled with the runtime and one program."""
    folder = str(tmp_path_factory.mktemp("store"))
    start = f"import sys; sys.path.insert(0, {str(TESTS)!r}); import numpy as np, vyre; " + (
        "from support.small_programs import saxpy_program\n"
        "x = np.arange(4, dtype=np.float32)\n"
        "with vyre.open('cpu') as session: session.dispatch(saxpy_program(), {'a': 2.0, 'x': x, 'y': x})"
    )
    subprocess.run([sys.executable, "-c", start], check=True, timeout=LIMIT_S, env=environment(folder))
    return folder


def test_auto_takes_the_processor_where_stored_code_serves_and_tells_the_restriction(filled: str) -> None:
    found = run(filled)
    assert found["backend"] == "cpu"
    assert found["y"] == [0.0, 3.0, 6.0, 9.0]
    assert f"only stored kernels run; `{INSTALL}`" in found["report"]
    kind, text = found["error"]  # of the program that is not stored
    assert kind == "BackendUnavailable" and INSTALL in text
    assert any("not among the kernels that are stored" in note for note in found["notes"])


def test_auto_takes_the_reference_where_nothing_is_stored_and_says_what_to_install(tmp_path: Path) -> None:
    found = run(str(tmp_path))
    assert found["backend"] == "reference"
    assert found["y"] == [0.0, 3.0, 6.0, 9.0] and "error" not in found
    chosen = next(line for line in found["report"].splitlines() if "* reference" in line)
    refused = next(line for line in found["report"].splitlines() if "- cpu" in line)
    assert INSTALL in chosen and INSTALL in refused


@pytest.mark.parametrize("variables", [{"VYRE_CACHE_DIR": "/dev/null/none"}, {"VYRE_CACHE_DISABLE": "1"}])
def test_without_a_store_either_the_reference_runs(variables: dict[str, str], tmp_path: Path) -> None:
    found = run(str(tmp_path), **variables)
    assert (found["backend"], found["y"]) == ("reference", [0.0, 3.0, 6.0, 9.0])


def test_text_needs_no_compiler_and_assembly_says_what_to_install(tmp_path: Path) -> None:
    file = tmp_path / "saxpy.vyre"
    file.write_text(saxpy_program().to_text(), encoding="utf-8")
    done = command(str(tmp_path), "emit", str(file), "--target", "cpu", "--as", "llvm")
    assert done.returncode == 0 and done.stdout.startswith(vyre.emit(saxpy_program(), target="cpu").text[:20])
    done = command(str(tmp_path), "emit", str(file), "--target", "cpu", "--as", "asm")
    assert done.returncode == 3 and not done.stdout and INSTALL in done.stderr
    done = command(str(tmp_path), "cache", "key", str(file), "--target", "cpu")
    assert done.returncode == 0 and "digest" in done.stdout
    done = command(str(tmp_path), "explain", str(file), "--backend", "cpu")
    assert done.returncode == 3 and INSTALL in done.stderr


def test_an_explanation_of_stored_code_tells_that_nothing_better_can_be_made(filled: str, tmp_path: Path) -> None:
    file = tmp_path / "saxpy.vyre"
    file.write_text(saxpy_program().to_text(), encoding="utf-8")
    done = command(filled, "explain", str(file), "--backend", "cpu", "--json")
    assert done.returncode == 0, done.stderr
    told = {each["topic"]: each for each in json.loads(done.stdout)["decisions"]}
    assert "no compiler is installed" in told["compiler effort"]["why"]


def test_doctor_says_what_to_install(tmp_path: Path) -> None:
    done = command(str(tmp_path), "doctor", "--json")
    checks = {each["check"]: each for each in json.loads(done.stdout)}
    assert INSTALL in checks["cpu compiler"]["found"]
    assert INSTALL in json.dumps(checks["backend cpu"]).replace('\\"', '"')


def test_the_program_that_is_not_stored_is_another_one() -> None:
    assert square_program().digest != saxpy_program().digest


CALLED: Final = """
import sys
sys.modules["llvmlite"] = None
import numpy as np
import vyre
from vyre import InOut, f32

@vyre.kernel
def double(y: InOut[f32]) -> None:
    i = vyre.global_id()
    if i < len(y):
        y[i] = y[i] * 2.0

y = np.ones(4, np.float32)
double(y)
print(y.sum())
"""


def call(folder: Path, cache: str, **more: str) -> subprocess.CompletedProcess[str]:
    script = folder / "called.py"
    script.write_text(CALLED, "utf-8")
    command = [sys.executable, str(script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=environment(cache, **more))


def test_a_called_kernel_tells_that_the_reference_runs(tmp_path: Path) -> None:
    done = call(tmp_path, str(tmp_path / "cache"))
    assert (done.stdout, done.returncode) == ("8.0\n", 0), done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("vyre runs on `reference`: no production backend can run here (") and INSTALL in line


def test_a_called_kernel_that_another_environment_has_not_stored_says_what_is_missing(
    filled: str, tmp_path: Path
) -> None:
    done = call(tmp_path, filled)
    assert done.returncode == 1 and INSTALL in done.stderr
    assert "`double` is not among the kernels that are stored, which run without the compiler." in done.stderr
    named = call(tmp_path, filled, VYRE_BACKEND="reference")
    assert (named.stdout, named.returncode) == ("8.0\n", 0), named.stderr
    assert named.stderr == "vyre runs on `reference`: forced by VYRE_BACKEND\n"


@pytest.mark.parametrize(
    ("name", "value"), [("VYRE_CPU_THREADS", "abc"), ("VYRE_CPU_AFFINITY", "first"), ("VYRE_CACHE_BYTES", "all")]
)
def test_a_called_kernel_refuses_an_invalid_variable(name: str, value: str, tmp_path: Path) -> None:
    done = call(tmp_path, str(tmp_path / "cache"), **{name: value})
    assert done.returncode == 1
    assert f"InvalidConfig: {name}='{value}'" in done.stderr
