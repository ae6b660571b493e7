"""The configuration of a recorded run as plain values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from typing import Any, Final, TypeAlias

from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig, PersistentThreadMode, SpeculationMode
from vyre.domain.errors import InvalidConfig
from vyre.domain.specialization import SpecKind, SpecMap, SpecValue

Fields: TypeAlias = tuple[tuple[str, object], ...]
_NAMES: Final = frozenset(field.name for field in fields(DispatchConfig))
_MODES: Final = {"speculation": SpeculationMode, "persistent_thread": PersistentThreadMode}


def config_fields(config: DispatchConfig) -> Fields:
    """Returns the fields that differ from the default, by name.

    Constants are triples of name, kind and bits.  Raises ``InvalidConfig`` for a constant that is a data type.
    """
    names = sorted(name for name in _NAMES if getattr(config, name) != getattr(DEFAULT_CONFIG, name))
    return tuple((name, _plain(getattr(config, name))) for name in names)


def config_of(entries: Fields) -> DispatchConfig:
    """Returns the config of ``config_fields``.  Raises ``InvalidConfig`` for anything else."""
    values: dict[str, Any] = dict(entries)
    if len(values) != len(entries) or not values.keys() <= _NAMES:
        raise InvalidConfig("a recorded config names a field twice, or one that does not exist", fix=_FIX)
    try:
        for name, mode in _MODES.items():
            if name in values:
                values[name] = mode[values[name]]
        if "spec" in values:
            constants = {name: SpecValue(SpecKind[kind], bits) for name, kind, bits in values["spec"]}
            values["spec"] = SpecMap(constants)
        if "output_counts" in values:
            values["output_counts"] = dict(values["output_counts"])
        return DispatchConfig(**values)
    except (KeyError, TypeError, ValueError):
        raise InvalidConfig("a recorded config holds a value of another kind", fix=_FIX) from None


def _plain(value: object) -> object:
    if isinstance(value, SpecMap):
        return tuple((name, _scalar_kind(name, constant), constant.bits) for name, constant in value.items())
    if isinstance(value, Mapping):
        return tuple(sorted(value.items()))
    return value.name if isinstance(value, Enum) else value


def _scalar_kind(name: str, constant: SpecValue) -> str:
    if constant.kind is SpecKind.DTYPE:
        raise InvalidConfig(f"the constant `{name}` is a data type, which evidence cannot hold", fix="leave it out.")
    return constant.kind.name


_FIX: Final = "use the evidence as it was written."
