"""The statements and expressions that a definition may have."""

from __future__ import annotations

from typing import Final

from vyre.domain.ir.expr import PURE
from vyre.domain.ir.stmt import Assign, Break, Continue, If, Let, Loop, Switch

DEFINITION_STATEMENTS: Final = frozenset({Let, Assign, If, Switch, Loop, Break, Continue})
"""The statements that a definition may have: those that touch locals alone."""
DEFINITION_EXPRESSIONS: Final = PURE
"""The expressions that a definition may have: those whose value depends on their operands alone."""
