"""Rows of ``speculation`` and ``speculate``; dispatches are callbacks that return fixed buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vectors.codec import Codec, Json, Row
from vectors.seeds.fused_speculation import (
    CounterTail,
    counter_tail,
    parse_counter_tail,
    race_variants,
    read_fused_result,
)
from vectors.seeds.speculate import (
    PairedWindow,
    PathInputs,
    SpeculationPath,
    SpeculationReport,
    SpeculatorSettings,
    SpeculatorState,
    VariantRaceInputs,
    choose_path,
)
from vectors.seeds.speculation import SpeculationObservation, decide_speculation
from vyre.domain.dispatch import SpeculationMode
from vyre.domain.errors import ErrorCode
from vyre.domain.program_report import InvalidProgram

_CONFIRMED: Final = "bb"
"""What the confirm callback of the files returns."""
_ZERO_COMMITS: Final = SpeculationReport(0, 100)


def _decide(inputs: SpeculationObservation) -> str:
    return decide_speculation(inputs).choice.value


def _report(committed: int, rolled_back: int, threshold_pct: int) -> dict[str, object]:
    report = SpeculationReport(committed, rolled_back)
    return {
        "attempted": report.attempted,
        "commit_rate_ppm": report.commit_rate_ppm,
        "commit_rate_pct": report.commit_rate_pct,
        "worthwhile": report.worthwhile(threshold_pct),
        "tail_hex": counter_tail(report).hex(),
    }


def _parse_tail(output_hex: bytes) -> SpeculationReport | None:
    return parse_counter_tail(output_hex)


def _adaptive(threshold_pct: int, reports: tuple[tuple[int, int], ...]) -> dict[str, object]:
    settings = SpeculatorSettings(threshold_pct)
    state = SpeculatorState.start(settings)
    trace = [_speculator(state)]
    for committed, rolled_back in reports:
        state = state.record(SpeculationReport(committed, rolled_back))
        trace.append(_speculator(state))
    return {"threshold_ppm": settings.threshold_ppm, "trace": trace}


def _speculator(state: SpeculatorState) -> dict[str, object]:
    return {"ema_ppm": state.ema_ppm, "samples": state.samples, "should_speculate": state.should_speculate}


def _prefilter_confirm(
    mode: SpeculationMode | None,
    supports_speculation: bool,
    prior_zero_commit_reports: int,
    fused_outputs_hex: tuple[bytes, ...],
    counter_output_index: int,
    strip_counter_tail: bool,
) -> dict[str, Json]:
    state = SpeculatorState.start()
    for _ in range(prior_zero_commit_reports):
        state = state.record(_ZERO_COMMITS)
    match choose_path(PathInputs(mode, supports_speculation, state)).path:
        case SpeculationPath.UNSUPPORTED:
            return {"error_code": int(ErrorCode.UNSUPPORTED_FEATURE), "speculator": _speculator(state)}
        case SpeculationPath.TWO_STAGE:
            return {
                "used_speculative_path": False,
                "report": None,
                "outputs_hex": [_CONFIRMED],
                "speculator": _speculator(state),
            }
        case SpeculationPath.FUSED:
            try:
                fused = read_fused_result(fused_outputs_hex, CounterTail(counter_output_index, strip_counter_tail))
            except InvalidProgram:  # the reference has no class for a missing report
                return {"error_code": int(ErrorCode.UNKNOWN), "speculator": _speculator(state)}
            return {
                "used_speculative_path": True,
                "report": {"committed": fused.report.committed, "rolled_back": fused.report.rolled_back},
                "outputs_hex": [output.hex() for output in fused.outputs],
                "speculator": _speculator(state.record(fused.report)),
            }


def _race(inputs: VariantRaceInputs) -> dict[str, object]:
    result = race_variants(inputs)
    return {
        "winner": result.winner.value,
        "saved_ns": result.saved_ns,
        "conservative_total_ns": inputs.conservative_total_ns,
        "speculative_total_ns": inputs.speculative_total_ns,
        "stored_record": result.winner.value,
    }


def _window(samples: tuple[tuple[int, int, int, int], ...]) -> dict[str, Json]:
    window, verdicts = PairedWindow(), []
    for sample in samples:
        window = window.record(VariantRaceInputs(*sample))
        verdicts.append(_decide(window.observation))
    return {"verdicts": verdicts, "observation": Codec().encode(SpeculationObservation, window.observation)}


FILES: Final[Mapping[str, Mapping[str, Row]]] = {
    "speculation": {"decide_speculation": Row(_decide)},
    "speculate": {
        "report": Row(_report),
        "parse_counter_tail": Row(_parse_tail),
        "adaptive": Row(_adaptive),
        "dispatch_prefilter_confirm": Row(_prefilter_confirm),
        "variant_race": Row(_race),
        "paired_window": Row(_window),
    },
}
