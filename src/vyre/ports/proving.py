"""The port to a prover: whether two expressions are equal for all values of their variables."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from vyre.domain.ir.expr import Expr
from vyre.domain.ir.types import ScalarType


class Answer(Enum):
    """An answer of a prover about an equation."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNPROVED = "unproved"


class Proof(NamedTuple):
    """An answer; ``values`` are bit patterns of the variables of a refuted equation, ``reason`` says why one is
    unproved.
    """

    answer: Answer
    values: Mapping[str, int] | None = None
    reason: str = ""


class Prover(Protocol):
    """Decides equations between expressions of ``laws.evaluation.PURE_NODES``."""

    @property
    def version(self) -> str:
        """Returns name and version of the prover, such as ``"z3 4.13.0"``."""

    def prove_equal(
        self,
        before: Expr,
        after: Expr,
        variables: Mapping[str, ScalarType],
        condition: Expr | None = None,
        /,
        *,
        limit: int = 10_000_000,
    ) -> Proof:
        """Returns whether two expressions of one type have the same bits or are both NaN, for all values of their
        variables that satisfy ``condition``, a bool.

        ``limit`` is in the prover's own steps, so that the answer does not depend on the speed of the machine.
        Raises ``UnsupportedFeature`` if the prover is not installed.
        """
