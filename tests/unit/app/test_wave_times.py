"""Measured times of waves outlive the session that measured them, and decide in the next process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import vyre
from vyre import ProgramBuilder, Session, Step, f32
from vyre.adapters.disk.measurement_stores import WAVES_DIRECTORY, DiskWaveTimeStore
from vyre.app.sequences.joining import stage_of
from vyre.app.sequences.wave_plans import WaveChoice
from vyre.app.sequences.wave_times import KnownWaveTimes
from vyre.domain.errors import ForeignCosts, MalformedJson
from vyre.domain.launch_costs import CostSource
from vyre.domain.wave_times import MOST_WAVES, WaveTime, WaveTimes, from_text, to_text

SOURCE: Final = CostSource("cuda", "a device", "a driver")
OTHER: Final = CostSource("cuda", "another device", "a driver")


def choice_of(session: Session) -> WaveChoice:
    """The choice about two waves that depend on each other, with launches that cost as much as their kernels."""
    with ProgramBuilder("reversal", workgroup=256) as p:
        x, y = p.input("x", f32), p.inout("y", f32)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = x[x.length - 1 - i] * 0.5 + 1.0
    program = p.build()
    data = np.arange(2000, dtype=np.float32)
    with session.resident(data) as a, session.resident(data) as b:
        steps = [Step(program, {"x": a, "y": b}), Step(program, {"x": b, "y": a})]
        bound = [session._bound_work(step) for step in steps]
        calls = [[stage_of(work.step, work.launch, number)] for number, work in enumerate(bound)]
        return session._shared_plans().choice(calls, 2, 1_000, 900)


def test_the_next_process_goes_by_what_was_measured(tmp_path: Path) -> None:
    with vyre.open("reference", cache=tmp_path) as session:
        first = choice_of(session)
        assert first.kernel.one_kernel and "not measured" in str(first.kernel.why)
        session._shared_plans().learn(first.key, 500, 400)
        assert str(choice_of(session).kernel.why) == "measured: 500 ns in one kernel, 400 ns in launches"
    code = (
        "import sys, vyre\n"
        "from unit.app.test_wave_times import choice_of\n"
        "with vyre.open('reference', cache=sys.argv[1]) as session:\n"
        "    kernel = choice_of(session).kernel\n"
        "    print(kernel.one_kernel, kernel.why)\n"
    )
    for seed in ("1", "2"):
        found = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)],
            env={"PYTHONPATH": ":".join(filter(None, sys.path)), "PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        expected = "False measured before, and stored: 500 ns in one kernel, 400 ns in launches\n"
        assert found.stdout == expected, found.stderr
    with vyre.open("reference", cache=False) as session:  # the control
        assert "not measured" in str(choice_of(session).kernel.why)


class Heard:
    def __init__(self) -> None:
        self.events: list[str] = []

    def count(self, name: str, value: int = 1, /, **labels: str) -> None: ...

    def observe(self, name: str, seconds: float, /, **labels: str) -> None: ...

    def event(self, name: str, /, *, level: str = "info", **fields: object) -> None:
        self.events.append(name)


KEYS: Final = ("one", "two")


def known(root: Path, heard: Heard | None = None) -> KnownWaveTimes:
    store = DiskWaveTimeStore(str(root))
    return KnownWaveTimes(lambda: store, lambda: SOURCE, heard)


def test_two_sessions_share_one_table_and_trust_their_own_times_first(tmp_path: Path) -> None:
    one, other = known(tmp_path), known(tmp_path)
    assert one.get(KEYS[0]) is None
    one.learn(KEYS[0], WaveTime(3, 4))
    other.learn(KEYS[1], WaveTime(5, 6))  # keeps the times of the first
    late = known(tmp_path)
    assert late.get(KEYS[0]) == (WaveTime(3, 4), True)
    assert late.get(KEYS[1]) == (WaveTime(5, 6), True)
    late.learn(KEYS[0], WaveTime(7, 8))
    assert late.get(KEYS[0]) == (WaveTime(7, 8), False)
    assert known(tmp_path).get(KEYS[0]) == (WaveTime(7, 8), True)
    assert one.get(KEYS[0]) == (WaveTime(3, 4), False)


def damage(file: Path) -> None:
    file.write_text(file.read_text().replace("[", "(", 1))


def make_a_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("spoil", [damage, make_a_directory])
def test_a_table_that_cannot_be_read_costs_its_times_alone(spoil: Callable[[Path], None], tmp_path: Path) -> None:
    known(tmp_path).learn(KEYS[0], WaveTime(3, 4))
    (file,) = (tmp_path / WAVES_DIRECTORY).iterdir()
    spoil(file)
    heard = Heard()
    times = known(tmp_path, heard)
    assert times.get(KEYS[0]) is None
    assert times.get(KEYS[1]) is None
    times.learn(KEYS[1], WaveTime(5, 6))
    assert times.get(KEYS[1]) == (WaveTime(5, 6), False)
    assert heard.events[0] == "vyre.waves.not_read"
    assert len(heard.events) == len(set(heard.events))


def test_without_a_store_times_last_as_long_as_the_session() -> None:
    times = KnownWaveTimes()
    times.learn(KEYS[0], WaveTime(3, 4))
    assert times.get(KEYS[0]) == (WaveTime(3, 4), False)
    assert times.get(KEYS[1]) is None


def test_a_table_of_another_device_is_refused(tmp_path: Path) -> None:
    store = DiskWaveTimeStore(str(tmp_path))
    store.save(WaveTimes(SOURCE, {"a": WaveTime(1, 2)}))
    store.save(WaveTimes(OTHER, {"a": WaveTime(3, 4)}))
    own, others = sorted((tmp_path / WAVES_DIRECTORY).iterdir(), key=lambda file: OTHER.device in file.read_text())
    own.write_bytes(others.read_bytes())
    with pytest.raises(ForeignCosts):
        store.load(SOURCE)


def test_the_oldest_times_leave_a_full_table() -> None:
    table = WaveTimes(SOURCE, {str(k): WaveTime(k, k) for k in range(MOST_WAVES)})
    full = table.with_time("0", WaveTime(9, 9)).with_time("new", WaveTime(1, 1))
    assert len(full.times) == MOST_WAVES
    assert "1" not in full.times
    assert (full.times["0"], full.times["new"]) == (WaveTime(9, 9), WaveTime(1, 1))
    assert from_text(to_text(full)) == full


@pytest.mark.parametrize(
    "times", [{"a": (-1, 2)}, {"a": (1.5, 2)}, {"a": (True, 2)}, {"a": (1, 1 << 64)}, {"a": (1,)}, {"a": (1, 2, 3)}]
)
def test_tables_with_other_content_are_refused(times: Any) -> None:
    with pytest.raises(MalformedJson, match="not times of waves"):
        from_text(to_text(WaveTimes(SOURCE, times)))
