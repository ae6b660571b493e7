"""The data races of one dispatch, as a report instead of an error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from vyre.adapters.reference.executor import ReferencePipeline
from vyre.adapters.reference.races import RaceCheckKernel, RaceReport
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig, OutputArena
from vyre.domain.geometry import LaunchLimits
from vyre.domain.ir.program import Program
from vyre.ports.requests import HostBytes


def race_report(program: Program, inputs: Sequence[HostBytes], config: DispatchConfig = DEFAULT_CONFIG) -> RaceReport:
    """Returns races and notes of one dispatch of a valid program, in the order in which they happen.

    Raises what a dispatch of the program raises, except ``DataRaceError``.
    """
    reports: list[RaceReport] = []
    engine = partial(RaceCheckKernel, receive=reports.append)
    pipeline = ReferencePipeline(LaunchLimits("reference-scalar"), engine, program, replace(config, race_check=False))
    pipeline.dispatch(inputs, OutputArena())
    return RaceReport(
        tuple(race for report in reports for race in report.races),
        tuple(note for report in reports for note in report.notes),
    )
