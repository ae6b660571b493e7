"""The facts about a device beyond those that its driver tells: its signature, and its profile completed by that."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final, NamedTuple

from vyre.adapters.device_files import PATH_VARIABLE, SignatureTable, signature_table
from vyre.adapters.system import USED_ENVIRONMENT
from vyre.adapters.telemetry.guarded import expect_methods
from vyre.app.fusing import FusionLimits
from vyre.app.tuning.keys import source_of
from vyre.domain.device import DeviceProfile
from vyre.domain.device_signature import DeviceSignature
from vyre.domain.float_mode import in_default_mode
from vyre.ports.backend import Backend
from vyre.ports.support import Environment

_UUID: Final = re.compile(r" [0-9a-f]{32}$")
_ASKED: Final = {"mem_bw_gbps": "mem_bw_gbps", "max_shared_memory_bytes": "shared_mem_per_sm_kb"}
"""The field of a signature that fills a field of a profile which the driver leaves unknown, by the latter."""


@in_default_mode
def device_signatures(environment: Environment | None = None) -> SignatureTable:
    """Returns the known devices: those of the directories in ``VYRE_DEVICE_PATH``, then those that vyre ships.

    Its ``diagnostics`` say what is wrong with files, which are left out; nothing is raised.
    """
    environment = USED_ENVIRONMENT.get() if environment is None else environment
    expect_methods("environment", environment, "get")
    return signature_table(environment.get(PATH_VARIABLE))


def signature_for(backend: Backend, environment: Environment | None = None) -> DeviceSignature | None:
    """Returns the signature of the device of a backend, by its name; None for a device that no table knows."""
    return device_signatures(environment).find(_UUID.sub("", source_of(backend).device))


class KnownProfile(NamedTuple):
    """A profile in which signatures fill what planners ask for; ``notes``: each such value, with its source."""

    profile: DeviceProfile
    notes: tuple[str, ...] = ()


def known_profile(backend: Backend, environment: Environment | None = None) -> KnownProfile:
    """Returns the profile of a backend with what its driver does not tell filled from the signature, if there is one.

    For planners, which compare times: nothing that a program needs to run depends on it.  The memory of a workgroup is
    that of a multiprocessor, but at most what a workgroup has without asking for more.
    """
    profile = backend.profile
    missing = [name for name in _ASKED if getattr(profile, name) is None]
    signature = signature_for(backend, environment) if missing else None
    if signature is None:
        return KnownProfile(profile)
    shared = min(signature.shared_mem_per_sm_kb * 1024, FusionLimits().shared_nbytes)
    values = {"mem_bw_gbps": signature.mem_bw_gbps, "max_shared_memory_bytes": shared}
    filled = {name: values[name] for name in missing if values[name]}
    sources = dict(signature.sources)
    notes = (f"{name} is {value}, as of {signature.id}: {sources[_ASKED[name]]}" for name, value in filled.items())
    return KnownProfile(replace(profile, **filled), tuple(notes))  # type: ignore[arg-type]
