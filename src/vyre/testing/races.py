"""The data races of a run as a list, for tests of kernels; ``DispatchConfig(race_check=True)`` raises the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from vyre.adapters.reference.executor import ReferencePipeline
from vyre.adapters.reference.races import RaceCheckKernel, RaceReport
from vyre.app.host_arrays import HostInputs
from vyre.app.pipeline import Inputs
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig, OutputArena
from vyre.domain.geometry import LaunchLimits
from vyre.domain.ir.program import Program
from vyre.domain.validation.validator import check_rules
from vyre.ports.requests import HostBytes

__all__ = ["RaceReport", "races"]


def races(program: Program, inputs: Inputs, config: DispatchConfig = DEFAULT_CONFIG) -> RaceReport:
    """Returns the data races of a dispatch on host inputs, and stores of equal bits, which are allowed.

    The program runs lane by lane, which takes about ten microseconds an operation.  Raises what a dispatch raises,
    except ``DataRaceError``.
    """
    check_rules(program).raise_if_invalid()
    return race_report(program, HostInputs(program).views(inputs), config)


def race_report(program: Program, inputs: Sequence[HostBytes], config: DispatchConfig = DEFAULT_CONFIG) -> RaceReport:
    """Returns ``races`` of a program that is known to be valid, on the bytes of its inputs, in the order of events."""
    reports: list[RaceReport] = []
    engine = partial(RaceCheckKernel, receive=reports.append)
    pipeline = ReferencePipeline(LaunchLimits("reference-scalar"), engine, program, replace(config, race_check=False))
    pipeline.dispatch(inputs, OutputArena())
    return RaceReport(
        tuple(race for report in reports for race in report.races),
        tuple(note for report in reports for note in report.notes),
    )
