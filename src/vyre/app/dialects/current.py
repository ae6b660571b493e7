"""The registry of the process: the operators of the language, installed packages and manifests, once it is used."""

from __future__ import annotations

import os
from functools import cache

from vyre.app.dialects.loading import PATH_VARIABLE, load_entry_points, load_manifests
from vyre.app.dialects.registry import Registry
from vyre.domain.dialects.core import core_dialect
from vyre.domain.ir.definitions import Definition


@cache
def dialect_registry() -> Registry:
    """Returns the registry of the process."""
    registry = Registry()
    registry.register(core_dialect(), registrant="vyre")
    load_entry_points(registry)
    path = os.environ.get(PATH_VARIABLE)
    if path is not None:
        load_manifests(registry, path)
    return registry


def definitions_of(operation: str) -> tuple[Definition, ...]:
    """Returns the definition of a registered operation, behind those that it calls; raises ``UnknownOperation``."""
    return dialect_registry().snapshot.definitions_of(operation)
