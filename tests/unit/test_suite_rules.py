"""Rules of every test, which waits for nothing without a limit and whose verdict is no question of time, and the rule
that names of the package say what they hold.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from support.counting import TooMuchWork, at_most
from support.limits import LIMIT_S

TESTS = Path(__file__).parents[1]
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "process_time_ns"}
READ_A_CLOCK = {
    "support/conform_defects.py",  # its record tells how soon a defect is found
    "support/children.py",  # for the limit of a fork
    "support/storms/process_storms.py",  # for the time of a storm, and for what hangs
    "support/cpu/fuzzing.py",
    "support/fuzzing/python_kernels.py",
    "support/egraphs/soak.py",  # its record tells how long closing took
    "support/storms/interrupt_storm.py",  # a limit on waiting for what settles by itself
    "support/fuzzing/programs.py",  # how long a campaign takes is told, and in a soak is its end
    "support/machine/fuzzing.py",
    "support/optimizer/fuzzing.py",
    "support/storms/persistent_soak.py",  # likewise
    "support/fuzzing/readers.py",  # a soak looks for inputs that take long
    "support/storms/storm_soak.py",
    "support/storms/interrupted_operations.py",  # a soak of it ends by time
    "support/fuzzing/timed_soak.py",
    "support/fuzzing/sequences.py",
    "unit/reference/test_executor.py",  # replaces it
    "unit/reference/test_scalar_oracle.py",  # for a deadline that has passed
    "unit/test_suite_rules.py",
    "unit/testing/gpu/test_spinning.py",  # replaces it
}
NO_TESTS = TESTS / "gpu_runs"
"""Programs that check and measure a GPU: each group of them has a budget, at which its supervisor ends it."""
RUNS = {"run", "call", "check_call", "check_output"}
PACKAGE = TESTS.parent / "src" / "vyre"
SAY_NOTHING = {"found", "made", "given", "held", "at"}
"""Names that tell how a value came about, and not what it is."""


def mentioning(word: str) -> Iterator[tuple[str, ast.Module]]:
    """Yields the path and the syntax tree of every file of the tests whose text holds ``word``."""
    for path in sorted(TESTS.rglob("*.py")):
        if NO_TESTS not in path.parents and word in (text := path.read_text("utf-8")):
            yield str(path.relative_to(TESTS)), ast.parse(text)


def test_no_test_reads_a_clock() -> None:
    found = {
        name
        for name, tree in mentioning("time")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in CLOCKS and ast.unparse(node.value) == "time"
    }
    assert found <= READ_A_CLOCK


def test_every_process_that_a_test_runs_has_a_limit() -> None:
    calls = [
        (name, node)
        for name, tree in mentioning("subprocess")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {f"subprocess.{run}" for run in RUNS}
    ]
    assert len(calls) > 20
    assert [(name, node.lineno) for name, node in calls if "timeout" not in {k.arg for k in node.keywords}] == []


def test_no_property_has_a_deadline() -> None:
    assert settings().deadline is None
    wrong = [
        (name, node.lineno)
        for name, tree in mentioning("deadline")
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "deadline" and ast.unparse(node.value) != "None"
    ]
    assert wrong == []


def test_a_soak_runs_every_file_that_looks_longer_in_one() -> None:
    longer = {
        f"tests/{name}"
        for name, tree in mentioning("SOAK")
        if name.rpartition("/")[2].startswith("test_") and Path(__file__).name not in name
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == "SOAK"
    }
    makefile = (TESTS.parent / "Makefile").read_text("utf-8")
    listed = set(re.findall(r"tests/[\w/.]+", makefile[makefile.index("VYRE_SOAK=1 $(PYTEST)") :]))
    assert len(longer) > 30
    assert [file for file in sorted(longer) if not any(file.startswith(each) for each in listed)] == []


HANGS = """
import sys, threading
sys.path.insert(0, {tests!r})
from support import ceiling
ceiling.GRACE_S = 0.5
def waits_for_what_never_comes():
    {how}
with ceiling.ceiling(0.2):
    waits_for_what_never_comes()
"""


@pytest.mark.parametrize(
    "how",
    [
        "threading.Event().wait()",
        "threading.Thread(target=threading.Event().wait, daemon=True).run()",
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM]); threading.Event().wait()",
    ],
    ids=["an event", "a thread", "where no signal arrives"],
)
def test_a_test_that_hangs_is_ended_and_says_where(how: str) -> None:
    script = HANGS.format(tests=str(TESTS), how=how)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 1
    assert "waits_for_what_never_comes" in done.stderr


def test_work_is_counted_and_bounded() -> None:
    with at_most(calls=1_000) as work:
        [abs(number) for number in range(100)]
    assert 100 <= work.calls <= 110
    with pytest.raises(TooMuchWork, match="more than 50 calls"), at_most(calls=50):
        while True:
            abs(1)


def test_a_variable_says_what_it_holds() -> None:
    paths = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
    assert len(paths) > 100
    wrong = [
        f"{name}:{line} {variable}"
        for name, path in paths.items()
        for line, variable in variables(ast.parse(path.read_text("utf-8")))
        if variable.strip("_") in SAY_NOTHING
    ]
    assert wrong == []


def variables(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields the line and the name of each variable, parameter and private attribute; fields of records are no
    variables.
    """
    fields = {
        id(statement.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) if id(node) not in fields:
                yield node.lineno, name
            case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                yield node.lineno, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name
            case ast.Attribute(attr=name, ctx=ast.Store()) if name.startswith("_"):
                yield node.lineno, name
