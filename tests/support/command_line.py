"""The command line in this process: what it printed, and its exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from vyre.app.cli import main


class Outcome:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Vyre = Callable[..., Outcome]


def vyre_command(capsys: pytest.CaptureFixture[str], *first: str) -> Vyre:
    """Runs ``vyre`` with the arguments ``first`` and those of the call."""

    def run(*arguments: object) -> Outcome:
        code = main([*first, *map(str, arguments)])
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return run
