"""The driver's own cache of assembled code, which helps where no tool makes machine code that vyre could store.

The driver reads its settings from the environment once, when it is initialised.  Settings of the user are kept.  The
cache's directory is left as it is: every library of the process shares it, and would assemble its code again in another
one.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Final, NamedTuple

SIZE: Final = "CUDA_CACHE_MAXSIZE"
DISABLE: Final = "CUDA_CACHE_DISABLE"
LEAST_BYTES: Final = 1 << 30
"""The size that the driver uses by default on most systems, but not on all; a quarter of the largest that it allows."""


_DIGITS: Final = 20


class JitCacheSettings(NamedTuple):
    """Settings of the driver's cache: ``add`` holds variables that the user has not set.

    ``problem`` says why kernels may be assembled again in each process; it is empty if they are not.
    """

    add: Mapping[str, str]
    problem: str = ""


def jit_cache_settings(environment: Mapping[str, str]) -> JitCacheSettings:
    """Returns what to add to the environment of a process that has not initialised the driver yet."""
    if environment.get(DISABLE, "0") not in ("", "0"):
        return JitCacheSettings({}, f"{DISABLE}={environment[DISABLE]} turns the driver's cache off")
    size = environment.get(SIZE, "")
    if not size:
        return JitCacheSettings({SIZE: str(LEAST_BYTES)})
    if not (size.isascii() and size.isdigit() and len(size) <= _DIGITS):
        return JitCacheSettings({}, f"{SIZE}={size!r} is no number of bytes")
    if int(size) < LEAST_BYTES:
        return JitCacheSettings({}, f"{SIZE}={size} is less than the {LEAST_BYTES} bytes that vyre would take")
    return JitCacheSettings({})


def configure_jit_cache(environment: MutableMapping[str, str]) -> JitCacheSettings:
    """Adds missing settings to ``environment``, in practice ``os.environ``.

    This has an effect only before the driver is initialised.
    """
    settings = jit_cache_settings(environment)
    environment.update(settings.add)
    return settings
