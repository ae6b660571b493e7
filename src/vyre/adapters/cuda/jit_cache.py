"""The driver's own cache of what it assembles: the backstop where no tool makes machine code that we could store.

The driver reads its settings from the environment, once, when it is initialised.  What the user has set stands.  The
directory is left where it is, since every library of the process shares it, and would assemble everything again.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Final, NamedTuple

SIZE: Final = "CUDA_CACHE_MAXSIZE"
DISABLE: Final = "CUDA_CACHE_DISABLE"
LEAST_BYTES: Final = 1 << 30
"""What the driver takes by itself on most systems, but not on all; a quarter of what it allows."""


class JitCacheSettings(NamedTuple):
    """``add``: variables that the user has not set.  ``problem``: why kernels may be assembled again each time."""

    add: Mapping[str, str]
    problem: str = ""


def jit_cache_settings(environment: Mapping[str, str]) -> JitCacheSettings:
    """What to add to the environment of a process that has not initialised the driver yet."""
    if environment.get(DISABLE, "0") not in ("", "0"):
        return JitCacheSettings({}, f"{DISABLE}={environment[DISABLE]} turns the driver's cache off")
    size = environment.get(SIZE, "")
    if not size:
        return JitCacheSettings({SIZE: str(LEAST_BYTES)})
    if not (size.isascii() and size.isdigit()):
        return JitCacheSettings({}, f"{SIZE}={size!r} is no number of bytes")
    if int(size) < LEAST_BYTES:
        return JitCacheSettings({}, f"{SIZE}={size} is less than the {LEAST_BYTES} bytes that vyre would take")
    return JitCacheSettings({})


def configure_jit_cache(environment: MutableMapping[str, str]) -> JitCacheSettings:
    """Complete ``environment``, in practice ``os.environ``; done before the driver is initialised, or in vain."""
    settings = jit_cache_settings(environment)
    environment.update(settings.add)
    return settings
