"""A cache of compiled code that the tests share, so that each kernel is compiled once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VYRE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield
