"""Times in which large programs are read or rewritten, which an adapter makes shorter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vyre.domain.lazy_names import FunctionAbove

if TYPE_CHECKING:
    from contextlib import _GeneratorContextManager

collector_paused: Final[FunctionAbove[[], _GeneratorContextManager[None]]] = FunctionAbove("collector_paused")
"""Returns a context, which also decorates functions, in which no garbage is collected: programs have no cycles."""
