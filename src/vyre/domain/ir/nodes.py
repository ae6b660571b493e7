"""Every node of programs under one name, for modules that speak of many: ``from vyre.domain.ir import nodes as ir``."""

from __future__ import annotations

from vyre.domain.ir.expr import *  # noqa: F403
from vyre.domain.ir.stmt import *  # noqa: F403
