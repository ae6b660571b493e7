"""Counters and profiler ranges."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import ModuleType

import pytest

from vyre.adapters.cuda.runtime.counters import Counters
from vyre.adapters.profiling import NullProfiler, NvtxProfiler, profiler_from
from vyre.domain.errors import InvalidConfig


class Variables(dict[str, str]):
    """An environment."""


def test_counters_start_at_zero_and_say_all_they_know() -> None:
    counters = Counters()
    assert set(Counters.names()) < set(counters.metrics())
    assert not any(counters.metrics().values())


@pytest.mark.parametrize(
    ("slots", "elements", "utilisation", "wasted"), [(0, 0, 0, 0), (1024, 1000, 9765, 24), (64, 100, 10_000, 0)]
)
def test_utilisation_is_elements_over_lanes(slots: int, elements: int, utilisation: int, wasted: int) -> None:
    counters = Counters()
    counters.scheduled_thread_slots, counters.launched_elements = slots, elements
    found = counters.metrics()
    assert (found["utilisation_bps"], found["wasted_thread_slots"]) == (utilisation, wasted)


@pytest.mark.parametrize("value", [None, "", " ", "0"])
def test_nobody_asks_for_ranges(value: str | None) -> None:
    profiler = profiler_from(Variables({} if value is None else {"VYRE_NVTX": value}))
    assert isinstance(profiler, NullProfiler)
    with profiler.range("vyre.cuda.host_dispatch"):
        pass


@pytest.mark.parametrize("value", ["yes", "2", "on"])
def test_another_value_is_refused(value: str) -> None:
    with pytest.raises(InvalidConfig, match=r"VYRE_NVTX=.* is neither 0 nor 1"):
        profiler_from(Variables({"VYRE_NVTX": value}))


def test_without_the_package_there_are_no_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)
    assert isinstance(profiler_from(Variables({"VYRE_NVTX": "1"})), NullProfiler)


def test_ranges_go_to_nvtx(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[str, str]] = []

    def annotate(*, message: str, domain: str) -> nullcontext[None]:
        opened.append((domain, message))
        return nullcontext()

    nvtx = ModuleType("nvtx")
    nvtx.annotate = annotate  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "nvtx", nvtx)
    profiler = profiler_from(Variables({"VYRE_NVTX": "1"}))
    assert isinstance(profiler, NvtxProfiler)
    with profiler.range("vyre.cuda.host_dispatch"):
        pass
    assert opened == [("vyre", "vyre.cuda.host_dispatch")]
