"""The rule that barriers and subgroup operations are reached by all lanes concerned together, and the rule that all
lanes of the grid agree on the limit of a grid loop.
"""

from __future__ import annotations

from typing import Final

from vyre.domain.analysis.uniformity import Uniformity, unmet_needs
from vyre.domain.ir.program import Program
from vyre.domain.validation.findings import Findings

_AFTER_END: Final = "V210"
_IN_FLOW: Final = {Uniformity.GRID: "V207", Uniformity.WORKGROUP: "V010", Uniformity.SUBGROUP: "V203"}
"""The codes of the rules about barriers of the grid and of workgroups, and about subgroup operations."""
_BETWEEN: Final = {
    Uniformity.GRID: "between lanes of the grid",
    Uniformity.WORKGROUP: "between lanes of a workgroup",
    Uniformity.SUBGROUP: "between lanes of a subgroup",
}


def check_uniform_flow(program: Program, findings: Findings) -> None:
    """Reports barriers and subgroup operations that the lanes concerned do not all reach together."""
    for need, after_end in unmet_needs(program):
        where = " after a return or trap" if after_end else "" if need.is_value else " in flow"
        message = f"{need.what}{where} that differs {_BETWEEN[need.most]}"
        findings.add(_AFTER_END if after_end else _IN_FLOW[need.most], message, *need.nodes, path=need.path)
