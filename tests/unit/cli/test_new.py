"""``vyre new``, ``--version``, ``--timeout`` and the exit codes in ``--help``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import vyre as package
from support.command_line import Vyre, vyre_command
from support.limits import LIMIT_S
from vyre.app.cli.exit_codes import MEANINGS, Exit


@pytest.fixture
def vyre(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Vyre:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VYRE_BACKEND", raising=False)
    return vyre_command(capsys)


@pytest.mark.parametrize("name", ["saxpy", "blend"])
def test_the_template_runs_by_itself_and_by_name(vyre: Vyre, name: str) -> None:
    assert vyre("new", "kernel.py", "--name", name).code == 0
    done = subprocess.run([sys.executable, "kernel.py"], capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stdout) == (0, f"{name}: all 1000 elements are right, such as y[10] = 21.0\n")
    (line,) = [line.strip() for line in Path("kernel.py").read_text("utf-8").splitlines() if "vyre run" in line]
    found = vyre(*line.split()[1:])
    assert found.out.startswith("y: float32[3] 12.0 24.0 36.0\n")


def test_nothing_is_replaced_unasked(vyre: Vyre) -> None:
    Path("kernel.py").write_text("mine", "utf-8")
    found = vyre("new", "kernel.py")
    assert (found.code, Path("kernel.py").read_text("utf-8")) == (2, "mine")
    assert "--force" in found.err
    assert vyre("new", "kernel.py", "--force", "--json").json == {"file": "kernel.py", "kernel": "saxpy"}
    assert "@vyre.kernel" in Path("kernel.py").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("kernel.txt",), "write kernel.py"),
        (("k.py", "--name", "a-b"), "'a-b' cannot name a kernel"),
        (("k.py", "--name", "class"), "'class' cannot name a kernel"),
        (("k.py", "--name", "np"), "'np' cannot name a kernel"),
        (("no/such/k.py",), "cannot write"),
    ],
)
def test_names_that_cannot_be_are_refused(vyre: Vyre, arguments: tuple[str, ...], message: str) -> None:
    found = vyre("new", *arguments)
    assert found.code == 2
    assert message in found.err
    assert list(Path().iterdir()) == []


def test_the_version(vyre: Vyre) -> None:
    assert vyre("--version").out == f"vyre {package.__version__}\n"


@pytest.mark.parametrize("command", [(), ("run",), ("tune",), ("cache",), ("cache", "list")])
def test_help_has_every_exit_code(vyre: Vyre, command: tuple[str, ...]) -> None:
    assert set(MEANINGS) == set(Exit)
    found = vyre(*command, "--help")
    assert found.code == 0
    for code, text in MEANINGS.items():
        assert f"  {int(code):<4} {text}\n" in found.out.rstrip() + "\n"


def test_a_run_ends_at_its_time(vyre: Vyre) -> None:
    Path("endless.py").write_text(
        "import vyre\nfrom vyre import InOut, u32\n\n@vyre.kernel(workgroup=1)\ndef endless(y: InOut[u32]):\n"
        "    for k in range(4000000000):\n        y[0] = y[0] + k\n",
        "utf-8",
    )
    found = vyre("run", "endless.py", "--in", "y=0", "--timeout", "0.2", "--backend", "reference-scalar")
    assert found.code == 4
    assert "the deadline passed" in found.err
    assert "Fix: give a longer --timeout, or make the dispatch smaller." in found.err


@pytest.mark.parametrize("seconds", ["0", "-1", "inf", "nan"])
def test_no_time_is_refused(vyre: Vyre, seconds: str) -> None:
    assert vyre("new", "k.py").code == 0
    found = vyre("run", "k.py", "--timeout", seconds)
    assert found.code == 2
    assert "is no time" in found.err


def test_the_page_of_the_command_line_has_the_same_exit_codes() -> None:
    page = (Path(__file__).parents[3] / "docs" / "command-line.md").read_text("utf-8")
    for code, text in MEANINGS.items():
        assert f"| {int(code)} | {text} |" in page
