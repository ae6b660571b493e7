"""What every test gets."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import pytest

if os.environ.get("VYRE_MUTANTS", "") not in ("", "0"):
    from hypothesis import settings

    from support.profiles import few_examples

    settings.register_profile("mutants", few_examples())
    settings.load_profile("mutants")


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
