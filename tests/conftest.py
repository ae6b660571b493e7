"""What every test gets."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

MUTANTS = os.environ.get("VYRE_MUTANTS", "") not in ("", "0")
if MUTANTS:
    from hypothesis import settings

    from support.profiles import few_examples

    settings.register_profile("mutants", few_examples())
    settings.load_profile("mutants")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Against mutants the tests that look at most come last: the others notice nearly all sooner."""
    if MUTANTS:
        items.sort(key=lambda item: item.get_closest_marker("thorough") is not None)


@pytest.fixture(autouse=True)
def _structlog_unconfigured() -> Iterator[None]:
    """structlog's configuration is global, and telemetry looks at it: no test leaves one behind."""
    yield
    structlog = sys.modules.get("structlog")
    if structlog is not None:
        structlog.reset_defaults()
