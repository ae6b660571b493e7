"""The options of an installed backend, from the environment."""

from __future__ import annotations

from typing import Final

from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.domain.errors import BackendUnavailable
from vyre.ports.support import Environment

ORDINAL_VARIABLE: Final = "VYRE_CUDA_DEVICE_ORDINAL"


def options_from(environment: Environment) -> CudaOptions:
    """The options of the installed backend.  ``VYRE_CUDA_DEVICE_ORDINAL`` chooses among the visible devices.

    Raises ``BackendUnavailable`` if it is no number.
    """
    ordinal = environment.get(ORDINAL_VARIABLE) or "0"
    if not (ordinal.isascii() and ordinal.isdigit()):
        raise BackendUnavailable(f"{ORDINAL_VARIABLE}={ordinal!r} is no ordinal", fix="use 0, 1, ... or unset it.")
    return CudaOptions(ordinal=int(ordinal))
