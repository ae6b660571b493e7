"""Colours: on terminals only, unless ``NO_COLOR`` or ``--color`` says otherwise, and never in JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import Vyre, vyre_command
from support.limits import LIMIT_S
from vyre.adapters.terminal import COLOURS, Colours

pty = pytest.importorskip("pty", reason="terminals of POSIX")
ESCAPE = "\x1b["
BARE = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "TERM")}


def on_terminal(*arguments: str, **environment: str) -> str:
    """What ``vyre`` prints on a terminal, on both streams."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "vyre", *arguments]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**BARE, "TERM": "xterm", **environment}
    ) as process:
        os.close(theirs)
        parts = []
        try:
            while part := os.read(ours, 65536):
                parts.append(part)
        except OSError:  # the other end is closed
            pass
        finally:
            os.close(ours)
        process.wait(LIMIT_S)
    return b"".join(parts).decode()


@pytest.mark.parametrize(
    ("arguments", "environment", "coloured"),
    [
        ((), {}, True),
        ((), {"NO_COLOR": "1"}, False),
        ((), {"NO_COLOR": ""}, True),
        ((), {"TERM": "dumb"}, False),
        (("--color", "never"), {}, False),
        (("--color=always",), {"NO_COLOR": "1"}, True),
    ],
)
def test_a_terminal_shows_colours(arguments: tuple[str, ...], environment: dict[str, str], coloured: bool) -> None:
    for command in (("backends", "-b", "reference"), ("show", "missing.vyre")):
        assert (ESCAPE in on_terminal(*command, *arguments, **environment)) is coloured, command


@pytest.mark.parametrize("command", [("backends", "-b", "reference"), ("show", "missing.vyre")])
def test_a_pipe_has_none_unless_they_are_asked_for(command: tuple[str, ...]) -> None:
    for more, coloured in ((("--color", "auto"), False), ((), False), (("--color", "always"), True)):
        done = subprocess.run(
            [sys.executable, "-m", "vyre", *command, *more],
            capture_output=True, text=True, timeout=LIMIT_S, env={**BARE, "FORCE_COLOR": "1"},
        )  # fmt: skip
        assert (ESCAPE in done.stdout + done.stderr) is coloured


@pytest.fixture
def vyre(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Vyre:
    monkeypatch.chdir(tmp_path)
    return vyre_command(capsys)


def test_json_never_has_colours(vyre: Vyre) -> None:
    for command in (("backends", "-b", "reference"), ("show", "missing.vyre")):
        found = vyre("--color", "always", *command, "--json")
        assert ESCAPE not in found.out
        json.loads(found.out)


def test_errors_are_coloured_where_people_look(vyre: Vyre) -> None:
    Path("bad.vyre").write_text("program bad\nworkgroup_size 1, 1, 1\nbody { y[0] = }\n", "utf-8")
    err = vyre("show", "bad.vyre", "--color", "always").err
    plain = vyre("show", "bad.vyre").err
    assert "\x1b[1;31merror[" in err
    assert "\x1b[1;32mFix:\x1b[0m" in err
    for code in ("\x1b[1;31m", "\x1b[1;32m", "\x1b[0m"):
        err = err.replace(code, "")
    assert err == plain


def test_the_setting_ends_with_the_command(vyre: Vyre) -> None:
    assert ESCAPE in vyre("show", "missing.vyre", "--color", "always").err
    assert ESCAPE not in vyre("show", "missing.vyre").err
    assert COLOURS.get() is Colours.AUTO


@pytest.mark.parametrize("given", [("--color", "pink"), ("--color=",), ("--color",)])
def test_another_word_is_refused(vyre: Vyre, given: tuple[str, ...]) -> None:
    found = vyre("show", "missing.vyre", *given)
    assert found.code == 2
    assert "use one of auto, always, never" in found.err


def test_what_follows_two_dashes_is_no_option(vyre: Vyre) -> None:
    assert "cannot read --color" in vyre("show", "--", "--color").err
