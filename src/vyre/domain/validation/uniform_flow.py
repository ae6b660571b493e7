"""The rule that barriers and subgroup operations are reached by all lanes concerned together."""

from __future__ import annotations

from typing import Final

from vyre.domain.analysis.uniformity import Uniformity, unmet_needs
from vyre.domain.ir.program import Program
from vyre.domain.validation.findings import Findings

_AFTER_END: Final = "V210"
_IN_FLOW: Final = {Uniformity.WORKGROUP: "V010", Uniformity.SUBGROUP: "V203"}
"""The codes of the rules about barriers and about subgroup operations."""
_BETWEEN: Final = {
    Uniformity.WORKGROUP: "between lanes of a workgroup",
    Uniformity.SUBGROUP: "between lanes of a subgroup",
}


def check_uniform_flow(program: Program, findings: Findings) -> None:
    """Reports barriers and subgroup operations that the lanes concerned do not all reach together."""
    for need, after_end in unmet_needs(program):
        where = "after a return or trap" if after_end else "in flow"
        message = f"{need.what} {where} that differs {_BETWEEN[need.most]}"
        findings.add(_AFTER_END if after_end else _IN_FLOW[need.most], message, *need.nodes, path=need.path)
