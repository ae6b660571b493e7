"""The kinds of nodes and edges of token/fact graphs."""

from __future__ import annotations

from enum import Enum
from typing import Final


class NodeKind(Enum):
    """The kind of a node."""

    TOKEN = "token"
    MACRO_EXPANSION = "macro_expansion"
    SEMANTIC = "semantic"
    FACT = "fact"
    DIAGNOSTIC = "diagnostic"


class EdgeKind(Enum):
    """The kind of an edge, in sorting order."""

    TOKEN_FLOW = "token_flow"
    MACRO_EXPANSION = "macro_expansion"
    SEMANTIC_FACT = "semantic_fact"
    FACT_DEPENDENCY = "fact_dependency"
    DIAGNOSTIC_PROVENANCE = "diagnostic_provenance"


NODE_RANK: Final = {kind: rank for rank, kind in enumerate(NodeKind)}
EDGE_RANK: Final = {kind: rank for rank, kind in enumerate(EdgeKind)}
"""The numbers of the kinds in columns, in the order of their definition."""
