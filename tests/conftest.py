"""What every test gets."""

from __future__ import annotations

import gc
import json
import signal
import sys
import warnings
from collections.abc import Generator, Iterator
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings

from support.ceiling import CEILING_S, SOAK_CEILING_S, ceiling
from support.profiles import SOAK, Scale, usual_examples
from support.tiers import RECORD, Stopwatch, quick_part, recorded

QUICK_DIVISOR = 4
LEFT = pytest.StashKey[tuple[int, int]]()
COLLECTIONS = 2_000, 10, 50
"""Thresholds of ``gc``: a process that runs tests keeps millions of objects, and looked at all of them so often that a
fifth of its time went there.  Tests that are about collections ask for them."""


class _Recording:
    """Writes what the tests of this run take."""

    def __init__(self) -> None:
        self._watch = Stopwatch()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._watch.add(report.nodeid, report.duration)

    def pytest_sessionfinish(self) -> None:
        RECORD.write_text(json.dumps(self._watch.means(), indent=1) + "\n", "utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="run a part of every area (make test); see support/tiers.py")
    parser.addoption("--record-seconds", action="store_true", help="write what tests take, for --quick")


def pytest_configure(config: pytest.Config) -> None:
    gc.set_threshold(*COLLECTIONS)
    if config.getoption("--quick"):
        Scale.divisor = QUICK_DIVISOR
    if config.getoption("--record-seconds") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Recording())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in background jobs of a shell; tests send interrupts
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Without a deadline: whether a test passes is no question of time.
    settings.register_profile("vyre", usual_examples())
    settings.load_profile("vyre")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tests collect garbage, some of them often: what stays for the whole run is not looked at each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        every, items[:] = list(items), quick_part(items, recorded())
        kept = set(items)
        config.hook.pytest_deselected(items=[item for item in every if item not in kept])
        config.stash[LEFT] = len(items), len(every)


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)  # of a process that runs a share of the tests
    if output is not None and LEFT in session.config.stash:
        output["left"] = session.config.stash[LEFT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    if "left" in getattr(node, "workeroutput", {}):
        node.config.stash[LEFT] = tuple(node.workeroutput["left"])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Say last what was left out."""
    kept, every = config.stash.get(LEFT, (0, 0))
    if every and not hasattr(config, "workeroutput"):
        config.get_terminal_writer().line(
            f"{kept} of {every} tests, and one in {QUICK_DIVISOR} of the examples of properties: `make check` runs all."
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """No test hangs: with its fixtures, it ends below a ceiling."""
    with ceiling(SOAK_CEILING_S if SOAK else CEILING_S):
        return (yield)


@pytest.fixture(autouse=True, scope="session")
def _cache_of_its_own() -> Iterator[None]:
    """Sessions keep compiled code; what a test finds must not depend on earlier runs, nor fill the user's cache."""
    with TemporaryDirectory(prefix="vyre-tests-") as directory, pytest.MonkeyPatch.context() as patch:
        patch.setenv("VYRE_CACHE_DIR", directory)
        yield


@pytest.fixture(autouse=True, scope="module")
def _kept_objects_are_not_looked_at() -> Iterator[None]:
    """Exempts the objects that are alive before each test file from later garbage collections (``gc.freeze``).

    Caches keep millions of objects, such as compiled modules, which every collection would visit.  What a file leaves
    is collected at its end, where its own filters of warnings hold, and not in the middle of the next one.  Only what
    pytest still holds then, the fixtures of its last test, is collected before the next file, which may not fail by it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    gc.freeze()
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def _structlog_unconfigured() -> Iterator[None]:
    """structlog's configuration is global, and telemetry looks at it: no test leaves one behind."""
    yield
    structlog = sys.modules.get("structlog")
    if structlog is not None:
        structlog.reset_defaults()
