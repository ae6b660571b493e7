"""The command as a process: exit codes that only a process has, and what it needs to start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from support.limits import LIMIT_S
from support.small_programs import square_program
from vyre.adapters.program_files import ProgramForm, render_program
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.types import u32

VYRE = [sys.executable, "-m", "vyre"]


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """A program that does not end in any reasonable time."""
    with ProgramBuilder("endless", workgroup=1) as p:
        y = p.output("y", u32, 1)
        with p.for_(0, 0xFFFF_FFFF) as k:
            y[0] = k
    path = tmp_path / "endless.vyre"
    path.write_bytes(render_program(p.build(), ProgramForm.TEXT))
    return path


@pytest.mark.skipif(os.name != "posix", reason="interrupts are sent as POSIX signals")
def test_an_interrupt_is_exit_code_130_and_leaves_no_file(endless: Path) -> None:
    target = endless.parent / "y.npy"
    started = (
        "import sys\n"
        "from vyre.adapters.reference.scalar_oracle import ScalarKernel\n"
        "from vyre.app.cli import main\n"
        "run_workgroup = ScalarKernel._run_workgroup\n"
        "def told(*arguments):\n"
        "    print('started', flush=True)\n"
        "    run_workgroup(*arguments)\n"
        "ScalarKernel._run_workgroup = told\n"
        "sys.exit(main())"
    )
    command = [
        sys.executable,
        "-c",
        started,
        "run",
        str(endless),
        "--out",
        f"y={target}",
        "--backend",
        "reference-scalar",
    ]
    listening = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore interrupts
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=listening) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    assert list(endless.parent.iterdir()) == [endless]


def test_exit_codes_reach_the_shell(tmp_path: Path) -> None:
    path = tmp_path / "p.vyre"
    path.write_bytes(render_program(square_program(), ProgramForm.TEXT))
    for arguments, code in (
        (["validate", str(path)], 0),
        (["run", str(path), "--in", "x=1", "--backend", "nope"], 3),
        (["show", str(tmp_path / "missing")], 2),
    ):
        assert subprocess.run([*VYRE, *arguments], capture_output=True, timeout=LIMIT_S).returncode == code


def test_a_command_imports_no_other_one() -> None:
    others = ["vyre.app.aot", "vyre.app.bundle", "vyre.app.cli.cache", "vyre.app.cli.explain", "vyre.app.cli.tune"]
    heavy = [*others, "vyre.app.explain.explanation", "vyre.policies.launch_fusion", "vyre.app.demo", "asyncio"]
    code = f"""
import sys
from vyre.app.cli import main
code = main(["backends"])
print([name for name in {heavy} if name in sys.modules], file=sys.stderr)
sys.exit(code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "[]\n")
    assert "reference-scalar" in done.stdout


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_the_command_says_what_to_install(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None\nfrom vyre.app.cli import main; sys.exit(main(['doctor']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 2
    assert done.stderr == f"the vyre command needs `{missing}`. Fix: pip install 'vyre[cli]'\n"
