"""``LAWS``: the laws of the language's operators.  docs/laws.md lists them with what is known about each."""

from __future__ import annotations

from typing import Final

from vyre.domain.dialects.laws.bits import bit_laws
from vyre.domain.dialects.laws.comparisons import comparison_laws
from vyre.domain.dialects.laws.conversions import conversion_laws
from vyre.domain.dialects.laws.floats import float_laws
from vyre.domain.dialects.laws.integers import integer_laws
from vyre.domain.dialects.laws.law import Law

LAWS: Final[tuple[Law, ...]] = (*integer_laws(), *bit_laws(), *comparison_laws(), *float_laws(), *conversion_laws())
"""Every law, each name once."""
