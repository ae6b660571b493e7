"""Is a specialized call dispatched speculatively, given the reports of the dispatches so far?

A fused dispatch does the confirming work for every item and reports how many items it committed and how many it rolled
back, as two little-endian u32 at the end of one output.  Rates are in ppm.  All O(1); states are values, and ``record``
returns the next one.

Unlike vyre-driver, in which only the fused path updates the speculator, so that once off it stays off, whose dead band
ends above 100 % for thresholds of 80 % and more, so that nothing switches it on again, and whose AUTO does not check
whether the backend can speculate at all, this offers three remedies.  ``after`` updates the state from both paths;
``probe_interval`` lets one dispatch try the fused path after every n two-stage ones without a report (0, as in
vyre-driver, never does); and ``reachable_band`` ends the band where rates end.  ``ADAPTIVE`` has the last two.

Worst case, if a fused dispatch loses the threshold less its commit rate and only fused ones report: in N dispatches,
whatever their rates, the loss is at most the threshold times ``4 + N / (probe_interval + 1)``, plus a quarter of the
threshold for each dispatch that left speculation on.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Final, TypeAlias

from vectors.seeds.speculation import SpeculationObservation
from vyre.domain.dispatch import SpeculationMode
from vyre.policies import arith
from vyre.policies.record import U32, U64, IntRange, Reason, record, verdict, why_field

FULL_RATE_PPM: Final = arith.PPM - 3
"""The limit of the average if every item commits: rounding down keeps it from the last 3 ppm."""


@record
class SpeculationReport:
    """The numbers of items whose speculation held, and of items that were done again."""

    committed: U32
    rolled_back: U32

    @classmethod
    def of_prefilter(cls, candidates: int, confirmed: int) -> SpeculationReport:
        """Returns the report that a fused dispatch would have made.

        A two-stage dispatch ``confirmed`` some of ``candidates``.
        """
        return cls(confirmed, candidates - confirmed)

    @property
    def attempted(self) -> int:
        """Number of items."""
        return self.committed + self.rolled_back

    @property
    def commit_rate_ppm(self) -> int:
        """Committed share in ppm, rounded down; 0 when nothing was attempted."""
        return arith.ratio(self.committed, self.attempted, arith.PPM, if_zero=0, cap=arith.PPM)

    @property
    def commit_rate_pct(self) -> int:
        """Committed share in percent, rounded down."""
        return self.commit_rate_ppm // 10_000

    def worthwhile(self, threshold_pct: int) -> bool:
        """Returns whether the commit rate reaches ``threshold_pct`` percent."""
        return self.commit_rate_ppm >= threshold_pct * 10_000


Percent: TypeAlias = Annotated[int, IntRange(0, 2**32 - 1)]


@record
class SpeculatorSettings:
    """Settings of the speculator.

    - ``threshold_pct``: commit rate from which on speculation pays.
    - ``probe_interval``: number of dispatches after which speculation is tried again while it is off; 0 means never.
    - ``reachable_band``: whether a rate of 100 % switches speculation on for every threshold that can be reached;
      without it, as in vyre-driver, thresholds of 80 % and more may never be switched on again.
    """

    threshold_pct: Percent = 15
    probe_interval: U32 = 0
    reachable_band: bool = False

    @property
    def threshold_ppm(self) -> int:
        """The threshold in ppm."""
        return self.threshold_pct * 10_000

    @property
    def on_ppm(self) -> int:
        """The average that switches speculation on: a quarter above the threshold."""
        on = self.threshold_ppm + self.threshold_ppm // 4
        return min(on, FULL_RATE_PPM) if self.reachable_band and self.threshold_ppm <= arith.PPM else on

    @property
    def off_ppm(self) -> int:
        """The average below which speculation is switched off: a quarter below the threshold."""
        return self.threshold_ppm - self.threshold_ppm // 4


ADAPTIVE: Final = SpeculatorSettings(probe_interval=64, reachable_band=True)
"""Settings that try again and whose band can be reached."""


class SpeculationPath(Enum):
    """The way in which a dispatch runs.

    ``TWO_STAGE`` confirms candidates in a second dispatch; ``UNSUPPORTED`` is a forced speculation that the backend
    cannot run.
    """

    FUSED = "fused"
    TWO_STAGE = "two_stage"
    UNSUPPORTED = "unsupported"


@record
class SpeculatorState:
    """The state of a speculator.

    ``ema_ppm`` is the moving average of the commit rate, ``samples`` the number of reports, ``enabled`` whether
    speculation is on, ``idle_dispatches`` the number of dispatches since it was switched off or last tried.
    """

    settings: SpeculatorSettings
    ema_ppm: U32
    samples: U64 = 0
    enabled: bool = True
    idle_dispatches: U64 = 0

    @classmethod
    def start(cls, settings: SpeculatorSettings | None = None) -> SpeculatorState:
        """Returns the first state: speculation is on, and the average is at the threshold."""
        chosen = settings or SpeculatorSettings()
        return cls(chosen, min(chosen.threshold_ppm, arith.U32_MAX))

    @property
    def should_speculate(self) -> bool:
        """Whether speculation is on, or due for a probe."""
        interval = self.settings.probe_interval
        return self.enabled or (interval > 0 and self.idle_dispatches >= interval)

    def record(self, report: SpeculationReport) -> SpeculatorState:
        """Returns the state after a report; an empty report changes nothing.

        The average moves a quarter of the way, rounded down.
        """
        if report.attempted == 0:
            return self
        ema = self.ema_ppm + ((report.commit_rate_ppm - self.ema_ppm) >> 2)
        ema = max(0, min(ema, arith.U32_MAX))
        enabled = ema >= (self.settings.off_ppm if self.enabled else self.settings.on_ppm)
        return SpeculatorState(self.settings, ema, self.samples + 1, enabled)

    def after(self, path: SpeculationPath, report: SpeculationReport | None = None) -> SpeculatorState:
        """Returns the state after a dispatch by ``path``.

        ``report`` is None if the dispatch failed or cannot tell.  A fused dispatch while speculation is off was a
        probe.
        """
        if report is not None and report.attempted:
            return self.record(report)
        if self.enabled:
            return self
        idle = 0 if path is SpeculationPath.FUSED else self.idle_dispatches + 1
        return SpeculatorState(self.settings, self.ema_ppm, self.samples, False, idle)


@record
class PathInputs:
    """The inputs for the path of a dispatch.

    ``check_capability`` makes AUTO check whether the backend can speculate; without it, as in vyre-driver, only FORCE
    does.
    """

    mode: SpeculationMode | None
    supports_speculation: bool
    speculator: SpeculatorState
    check_capability: bool = False


@verdict
class PathVerdict:
    """The path of a dispatch; UNSUPPORTED means FORCE on a backend that cannot speculate."""

    path: SpeculationPath
    why: Reason = why_field()


def choose_path(inputs: PathInputs) -> PathVerdict:
    """Returns the path that a speculative dispatch takes."""
    match inputs.mode:
        case SpeculationMode.FORCE:
            if inputs.supports_speculation:
                return PathVerdict(SpeculationPath.FUSED, Reason("forced"))
            return PathVerdict(SpeculationPath.UNSUPPORTED, Reason("forced, but the backend cannot speculate"))
        case SpeculationMode.DISABLE:
            return PathVerdict(SpeculationPath.TWO_STAGE, Reason("disabled"))
        case _:
            if inputs.check_capability and not inputs.supports_speculation:
                return PathVerdict(SpeculationPath.TWO_STAGE, Reason("the backend cannot speculate"))
            rate = inputs.speculator.ema_ppm
            if inputs.speculator.should_speculate:
                return PathVerdict(SpeculationPath.FUSED, Reason("a commit rate of {} ppm pays", (rate,)))
            return PathVerdict(SpeculationPath.TWO_STAGE, Reason("a commit rate of {} ppm does not pay", (rate,)))


@record
class VariantRaceInputs:
    """One dispatch and one compile time of each variant, in ns."""

    conservative_dispatch_ns: U64
    speculative_dispatch_ns: U64
    conservative_compile_ns: U64
    speculative_compile_ns: U64

    @property
    def conservative_total_ns(self) -> int:
        """Dispatch and compile time of the conservative variant."""
        return self.conservative_dispatch_ns + self.conservative_compile_ns

    @property
    def speculative_total_ns(self) -> int:
        """Dispatch and compile time of the speculative variant."""
        return self.speculative_dispatch_ns + self.speculative_compile_ns


@record
class PairedWindow:
    """Exact totals (ns) over all pairs so far; ``record`` returns the next window."""

    pairs: U32 = 0
    conservative_total_ns: U64 = 0
    speculative_total_ns: U64 = 0
    speculative_compile_total_ns: U64 = 0

    def record(self, pair: VariantRaceInputs) -> PairedWindow:
        """Returns the window with one more pair; raises ``InvalidField`` when a total exceeds 64 bits."""
        return PairedWindow(
            self.pairs + 1,
            self.conservative_total_ns + pair.conservative_dispatch_ns,
            self.speculative_total_ns + pair.speculative_dispatch_ns,
            self.speculative_compile_total_ns + pair.speculative_compile_ns,
        )

    @property
    def observation(self) -> SpeculationObservation:
        """The inputs of ``decide_speculation``: means rounded down, 0 before the first pair."""
        pairs = self.pairs or 1
        return SpeculationObservation(
            baseline_dispatches=self.pairs,
            baseline_mean_ns=self.conservative_total_ns // pairs,
            speculative_dispatches=self.pairs,
            speculative_mean_ns=self.speculative_total_ns // pairs,
            side_compile_cost_ns=self.speculative_compile_total_ns,
        )
