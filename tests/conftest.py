"""What every test gets."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

from support.ceiling import CEILING_S, SOAK_CEILING_S, ceiling
from support.profiles import SOAK, usual_examples

settings.register_profile("vyre", usual_examples())  # without a deadline: whether a test passes is no question of time
settings.load_profile("vyre")


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


@pytest.fixture(autouse=True)
def _structlog_unconfigured() -> Iterator[None]:
    """structlog's configuration is global, and telemetry looks at it: no test leaves one behind."""
    yield
    structlog = sys.modules.get("structlog")
    if structlog is not None:
        structlog.reset_defaults()
