"""The programs that measure start from the root of the repository, without the paths that tests have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.command_line import chosen, parser
from benchmarks.harness import Metric, NotMeasured, Row, Samples

from support.limits import LIMIT_S

ROOT = Path(__file__).resolve().parents[2]


def _measure(rounds: int) -> Samples:
    raise NotMeasured("a test measures nothing")


SUITES = {
    suite: tuple(Row(name, Metric.RATIO, "x", None, None, _measure, "") for name in names)
    for suite, names in {"first": ("add", "sub"), "second": ("add", "mul", "div")}.items()
}


@pytest.mark.parametrize(
    "module", ["machine", "launch_cost", "decision_rows", "gallery_trace", "mutants", "tinygrad_rows"]
)
def test_a_module_is_imported_in_a_process_of_its_own(module: str) -> None:
    """Modules that need packages of the group ``bench`` are left to ``make bench``."""
    command = [sys.executable, "-c", f"import benchmarks.{module}"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=LIMIT_S)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ([], {"first": ["add", "sub"], "second": ["add", "mul", "div"]}),
        (["--only", "sub", "--only", "m*"], {"first": ["sub"], "second": ["mul"]}),
        (["--only", "m*", "--only", "mul"], {"second": ["mul"]}),
        (["--suite", "second", "--only", "add", "--only", "div"], {"second": ["add", "div"]}),
        (["--suite", "f*", "--suite", "second", "--only", "add"], {"first": ["add"], "second": ["add"]}),
        (["--only", "mod"], {}),
    ],
)
def test_patterns_that_are_given_again_choose_more_rows(arguments: list[str], wanted: dict[str, list[str]]) -> None:
    found = chosen(SUITES, parser(SUITES).parse_args(arguments))
    assert {suite: [row.name for row in rows] for suite, rows in found.items()} == wanted
