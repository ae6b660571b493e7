"""The data races of a run as a list, for tests of kernels; ``DispatchConfig(race_check=True)`` raises the first."""

from __future__ import annotations

from vyre.adapters.reference.race_report import race_report
from vyre.adapters.reference.races import RaceReport
from vyre.app.host_arrays import HostInputs
from vyre.app.pipeline import Inputs
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig
from vyre.domain.ir.program import Program
from vyre.domain.validation.validator import check_rules

__all__ = ["RaceReport", "races"]


def races(program: Program, inputs: Inputs, config: DispatchConfig = DEFAULT_CONFIG) -> RaceReport:
    """Returns the data races of a dispatch on host inputs, and stores of equal bits, which are allowed.

    The program runs lane by lane, which takes about ten microseconds an operation.  Raises what a dispatch raises,
    except ``DataRaceError``.
    """
    check_rules(program).raise_if_invalid()
    return race_report(program, HostInputs(program).views(inputs), config)
