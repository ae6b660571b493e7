"""The memory of a session about waves of its sequences: programs by structure, and measured times."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final, NamedTuple

from vyre.adapters.forks import process_lock
from vyre.app.sequences.wave_times import KnownWaveTimes
from vyre.domain.frozen import frozen
from vyre.domain.fusion.stages import CannotJoin, StageCall
from vyre.domain.fusion.waves import JoinedWaves, join_waves
from vyre.domain.record import U64_MAX
from vyre.domain.wave_times import WaveTime
from vyre.policies.frontiers.wave_kernel import WaveKernel, WaveKernelInputs, choose_wave_kernel
from vyre.policies.journal import DecisionSink, decide
from vyre.ports.interrupts import sealed

MOST_PROGRAMS: Final = 64
"""The joined programs that a session remembers."""


@frozen
class WavePlanStats:
    """Counters of a session's plans for waves: programs that were joined, and those that an equal graph had joined
    before.
    """

    joined: int
    reused: int


class WaveChoice(NamedTuple):
    """Whether waves run in one kernel, and the key under which their times are remembered."""

    kernel: WaveKernel
    key: str


class WavePlans:
    """The plans of one session; any thread may use them.

    ``sink`` receives the decisions.  ``times``: measured times of waves; None: only those that are learned here.
    """

    def __init__(self, sink: DecisionSink | None = None, times: KnownWaveTimes | None = None) -> None:
        self._sink = sink
        self._times = KnownWaveTimes() if times is None else times
        self._lock = process_lock()
        self._programs: OrderedDict[Hashable, JoinedWaves | CannotJoin] = OrderedDict()
        self._joined = self._reused = 0

    @property
    def stats(self) -> WavePlanStats:
        """Returns the counters."""
        with self._lock, sealed:
            return WavePlanStats(self._joined, self._reused)

    def joined(self, calls: Sequence[Sequence[StageCall]], times: int, most_groups: int) -> JoinedWaves | CannotJoin:
        """Returns what ``join_waves`` returns, which is the same for every graph with this structure."""
        key = (times, most_groups, structure_of_waves(calls))
        with self._lock, sealed:
            joined = self._programs.get(key)
            if joined is not None:
                self._programs.move_to_end(key)
                self._reused += 1
                return joined
        joined = join_waves(calls, times=times, most_groups=most_groups)
        with self._lock, sealed:
            self._joined += 1
            self._programs[key] = joined
            while len(self._programs) > MOST_PROGRAMS:
                self._programs.popitem(last=False)
        return joined

    def choice(self, calls: Sequence[Sequence[StageCall]], launches: int, kernel_ns: int, gap_ns: int) -> WaveChoice:
        """Returns whether waves run in one kernel: as was measured of equal waves, else by the price of a round of so
        many launches, each of which takes ``kernel_ns`` on the device and ``gap_ns`` beside that.
        """
        key = blake2b(repr(structure_of_waves(calls)).encode(), digest_size=16).hexdigest()
        inputs = WaveKernelInputs(launches, kernel_ns, gap_ns)
        if (times := self._times.get(key)) is not None:
            time, stored = times
            inputs = replace(inputs, one_kernel_ns=time.one_kernel_ns, launches_ns=time.launches_ns, stored=stored)
        return WaveChoice(decide(self._sink, choose_wave_kernel, inputs), key)

    def learn(self, key: str, one_kernel_ns: int, launches_ns: int) -> None:
        """Records the measured times of a round of waves: in one kernel, and with a launch for each step."""
        self._times.learn(key, WaveTime(min(one_kernel_ns, U64_MAX), min(launches_ns, U64_MAX)))


def structure_of_waves(calls: Sequence[Sequence[StageCall]]) -> Hashable:
    """Returns what is equal for waves of equal launches on arrays that are shared alike, whichever these are."""
    numbers: dict[Hashable, int] = {}
    return tuple(
        tuple(
            (
                call.program.digest,
                call.grid,
                call.workgroup,
                call.counts,
                call.nbytes,
                tuple(numbers.setdefault(identity, len(numbers)) for identity in call.buffers),
                tuple(sorted((name, value.dtype.text, value.bits) for name, value in call.values.items())),
                tuple(sorted((name, value.dtype.text, value.bits) for name, value in call.spec.items())),
            )
            for call in wave
        )
        for wave in calls
    )
