"""Graphs on a device, in columns of NumPy: token/fact graphs, whose frontiers follow edges of chosen kinds.

    graph = fact_graph(1000, sources, targets, edge_kinds)
    with vyre.open() as session, FactSession(session, graph) as facts:
        distances = facts.reach([0], along=EdgeKind.TOKEN_FLOW).distances

The modules ``egraph*`` are about e-graphs, whose public names are those of ``vyre.egraph``.  Names are imported when
they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# fmt: off
# isort: off
if TYPE_CHECKING:
    from vyre.domain.graphs.token_fact import EdgeKind as EdgeKind, NodeKind as NodeKind
    from vyre.graphs.csr import Rows as Rows
    from vyre.graphs.token_fact import FactGraph as FactGraph, fact_graph as fact_graph
    from vyre.graphs.token_fact_kernels import UNREACHED as UNREACHED
    from vyre.graphs.token_fact_session import (
        AnalysisResult as AnalysisResult, Components as Components, FactSession as FactSession,
        FrontierAnalysis as FrontierAnalysis, FrontierQuery as FrontierQuery, Reached as Reached,
        AnalysisPlan as AnalysisPlan,
    )
    from vyre.policies.frontiers.frontier_ir import FrontierDomain as FrontierDomain
else:  # so that type checkers refuse names that do not exist
    from vyre.exporting import exports

    __all__, __getattr__, __dir__ = exports(__name__)
# isort: on
# fmt: on
