"""Graphs on a device, in columns of NumPy: token/fact graphs, whose frontiers follow edges of chosen kinds.

    graph = fact_graph(1000, sources, targets, edge_kinds)
    with vyre.open() as session, FactSession(session, graph) as facts:
        distances = facts.reach([0], along=EdgeKind.TOKEN_FLOW).distances

The modules ``egraph*`` are about e-graphs, whose public names are those of ``vyre.egraph``.  Names are imported when
they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

# fmt: off
# isort: off
if TYPE_CHECKING:
    from vyre.domain.graphs.token_fact import EdgeKind as EdgeKind, NodeKind as NodeKind
    from vyre.graphs.token_fact import FactGraph as FactGraph, fact_graph as fact_graph
    from vyre.graphs.token_fact_kernels import UNREACHED as UNREACHED
    from vyre.graphs.token_fact_session import (
        AnalysisResult as AnalysisResult, Components as Components, FactSession as FactSession,
        FrontierAnalysis as FrontierAnalysis, FrontierQuery as FrontierQuery, Reached as Reached,
    )
    from vyre.policies.frontiers.frontier_ir import FrontierDomain as FrontierDomain
# isort: on
# fmt: on
from vyre.domain.lazy_names import homes, importer

# What the block above says, for run time: module -> names.
_HOME: Final[dict[str, str]] = {
    "vyre.domain.graphs.token_fact": "EdgeKind NodeKind",
    "vyre.graphs.token_fact": "FactGraph fact_graph",
    "vyre.graphs.token_fact_kernels": "UNREACHED",
    "vyre.graphs.token_fact_session": "AnalysisResult Components FactSession FrontierAnalysis FrontierQuery Reached",
    "vyre.policies.frontiers.frontier_ir": "FrontierDomain",
}

__all__ = sorted(name for names in _HOME.values() for name in names.split())

if not TYPE_CHECKING:  # so that a type checker refuses names that do not exist
    __getattr__ = importer(__name__, homes(_HOME))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
