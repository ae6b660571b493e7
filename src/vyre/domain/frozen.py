"""``@frozen``: a dataclass with slots whose attributes cannot be assigned, and which is made in a third of the time.

``dataclasses`` compiles six functions for each such class, one by one.  Here the three that name fields are one text,
and the others are shared.  ``dataclasses.fields``, ``replace``, ``asdict`` and patterns work as with every dataclass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from typing import Any, Final, TypeVar, dataclass_transform, overload

T = TypeVar("T")
_UNSET: Final = object()


@overload
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T], /) -> type[T]: ...


@overload
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(
    *, eq: bool = True, init: bool = True, kw_only: bool = False, repr: bool = True, weakref_slot: bool = False
) -> Callable[[type[T]], type[T]]: ...


def frozen(
    cls: type[T] | None = None,
    /,
    *,
    eq: bool = True,
    init: bool = True,
    kw_only: bool = False,
    repr: bool = True,
    weakref_slot: bool = False,
) -> type[T] | Callable[[type[T]], type[T]]:
    """Returns the class as a frozen, slotted dataclass; the options are those of ``dataclasses.dataclass``.

    The constructor fills the slots through their descriptors, which takes half the time of that of a frozen dataclass;
    a ``__post_init__`` runs at its end.  Assigning or deleting an attribute raises ``FrozenInstanceError``.
    """

    def made(each: type[T]) -> type[T]:
        result: type[T] = _made(each, eq, init, kw_only, repr, weakref_slot)
        return result

    return made if cls is None else made(cls)


def _made(cls: Any, eq: bool, init: bool, kw_only: bool, shown: bool, weakref_slot: bool) -> Any:
    own = {name for name, value in vars(cls).items() if value is not None}  # an own `__eq__` sets `__hash__` to None
    declare: Any = dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only, weakref_slot=weakref_slot)
    declared = declare(cls)
    methods: dict[str, Any] = {
        "__setattr__": _refuse_to_assign,
        "__delattr__": _refuse_to_delete,
        "__getstate__": _state,
        "__setstate__": _restore,
    }
    if shown:
        methods["__repr__"] = _shown
    methods |= _compiled(declared, init, eq)
    for name, method in methods.items():
        if name not in own:
            setattr(declared, name, method)
    return declared


def _compiled(cls: Any, init: bool, eq: bool) -> dict[str, Any]:
    """Returns the methods whose code names the fields, compiled as one text."""
    scope: dict[str, Any] = {"unset": _UNSET}
    every, text = fields(cls), []
    if init:
        text.append(_constructor(cls, every, scope))
    if eq:
        compared = [each.name for each in every if each.compare]
        hashed = [each.name for each in every if (each.compare if each.hash is None else each.hash)]
        text.append(
            "def __eq__(self, other):\n"
            "    same = other.__class__ is self.__class__\n"
            f"    return {_values('self', compared)} == {_values('other', compared)} if same else NotImplemented\n"
            f"def __hash__(self):\n    return hash({_values('self', hashed)})"
        )
    exec("\n".join(text), scope)
    methods: dict[str, Any] = {name: scope[name] for name in ("__init__", "__eq__", "__hash__") if name in scope}
    for name, method in methods.items():
        method.__qualname__ = f"{cls.__qualname__}.{name}"
    if init:
        methods["__init__"].__annotations__ = {**{each.name: each.type for each in every if each.init}, "return": None}
    return methods


def _values(owner: str, names: list[str]) -> str:
    return f"({''.join([f'{owner}.{name},' for name in names])})"


def _constructor(cls: Any, every: tuple[Field[Any], ...], scope: dict[str, Any]) -> str:
    """Returns the text of a constructor, and adds what it names to ``scope``."""
    parameters, keywords, stores = ["self"], ["*"], []
    for each in every:
        name = value = written = each.name
        scope[f"store_{name}"] = getattr(cls, name).__set__
        if each.default_factory is not MISSING:
            scope[f"make_{name}"], written = each.default_factory, f"{name}=unset"
            value = f"make_{name}() if {name} is unset else {name}" if each.init else f"make_{name}()"
        elif each.default is not MISSING:
            scope[f"default_{name}"], written = each.default, f"{name}=default_{name}"
            value = name if each.init else f"default_{name}"
        if each.init:
            (keywords if each.kw_only else parameters).append(written)
        if each.init or value != name:
            stores.append(f"store_{name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        stores.append("self.__post_init__()")
    if len(keywords) > 1:
        parameters += keywords
    return f"def __init__({', '.join(parameters)}):\n    {'; '.join(stores) or 'pass'}"


def _refuse_to_assign(self: Any, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _shown(self: Any) -> str:
    values = ", ".join([f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr])
    return f"{type(self).__qualname__}({values})"


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
