"""The options of the installed CUDA backends, read from the environment.

    variable                  field of ``CudaOptions``  values
    VYRE_CUDA_DEVICE_ORDINAL  ordinal                   0, 1, ...; not read by ``cuda-machine``, which has one device
    VYRE_CUDA_GRAPH_AFTER     graph_after               costs, off (None), or a number of runs
    VYRE_CUDA_SIDE_BY_SIDE    side_by_side              on or off
    VYRE_CUDA_COPY_OVERLAP    copy_overlap              on or off
    VYRE_CUDA_GRID_SYNC       grid_sync                 auto (None), native or split

An empty variable counts as unset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS, CudaOptions
from vyre.domain.errors import InvalidConfig
from vyre.policies.launching.grid_sync_mode import GridSyncMode
from vyre.ports.support import Environment


class Variable(NamedTuple):
    """An environment variable and the ``option`` that it sets.

    ``read`` returns the option's value for a text; it raises ``ValueError`` or ``KeyError`` for a text that is not as
    ``expected``.
    """

    name: str
    option: str
    read: Callable[[str], object]
    expected: str


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError
    return int(text)


def _graph_after(text: str) -> int | Literal["costs"] | None:
    match text:
        case "costs":
            return "costs"
        case "off":
            return None
    return _number(text)


_FLAGS: Final = {"on": True, "off": False}
_GRID_SYNC: Final = {"auto": None} | {mode.value: mode for mode in GridSyncMode}

ORDINAL: Final = Variable("VYRE_CUDA_DEVICE_ORDINAL", "ordinal", _number, "0, 1, ...")
SWITCHES: Final = (
    Variable("VYRE_CUDA_GRAPH_AFTER", "graph_after", _graph_after, "costs, off or a number of runs"),
    Variable("VYRE_CUDA_SIDE_BY_SIDE", "side_by_side", _FLAGS.__getitem__, "on or off"),
    Variable("VYRE_CUDA_COPY_OVERLAP", "copy_overlap", _FLAGS.__getitem__, "on or off"),
    Variable("VYRE_CUDA_GRID_SYNC", "grid_sync", _GRID_SYNC.__getitem__, " or ".join(_GRID_SYNC)),
)


def options_from(environment: Environment) -> CudaOptions:
    """Returns the options of ``cuda``.  Raises ``InvalidConfig`` for a variable with an invalid value."""
    return _read(environment, (ORDINAL, *SWITCHES))


def machine_options_from(environment: Environment) -> CudaOptions:
    """Returns the options of ``cuda-machine``.  Raises as ``options_from`` does."""
    return emulated(_read(environment, SWITCHES))


def emulated(options: CudaOptions) -> CudaOptions:
    """Returns ``options`` adapted to ``cuda-machine``: it has one device, whose addresses no other library can use."""
    return replace(options, ordinal=0, exports=False)


def _read(environment: Environment, variables: tuple[Variable, ...]) -> CudaOptions:
    options: dict[str, Any] = {}
    for variable in variables:
        text = (environment.get(variable.name) or "").strip().lower()
        if not text:
            continue
        try:
            options[variable.option] = variable.read(text)
        except (ValueError, KeyError):
            raise InvalidConfig(
                f"{variable.name}={text!r} is not {variable.expected}", fix=f"use {variable.expected}, or unset it."
            ) from None
    return replace(DEFAULT_OPTIONS, **options)
