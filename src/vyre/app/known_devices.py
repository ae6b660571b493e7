"""The facts about a device beyond those that its driver tells: its signature, and its profile completed by that."""

from __future__ import annotations

import re
from typing import Final

from vyre.adapters.device_files import PATH_VARIABLE, SignatureTable, signature_table
from vyre.adapters.system import ProcessEnvironment
from vyre.adapters.telemetry.guarded import expect_methods
from vyre.app.tuning.keys import source_of
from vyre.domain.device import DeviceProfile
from vyre.domain.device_signature import DeviceSignature
from vyre.domain.float_mode import in_default_mode
from vyre.ports.backend import Backend
from vyre.ports.support import Environment

_UUID: Final = re.compile(r" [0-9a-f]{32}$")


@in_default_mode
def device_signatures(environment: Environment | None = None) -> SignatureTable:
    """Returns the known devices: those of the directories in ``VYRE_DEVICE_PATH``, then those that vyre ships.

    Its ``diagnostics`` say what is wrong with files, which are left out; nothing is raised.
    """
    environment = ProcessEnvironment() if environment is None else environment
    expect_methods("environment", environment, "get")
    return signature_table(environment.get(PATH_VARIABLE))


def signature_for(backend: Backend, environment: Environment | None = None) -> DeviceSignature | None:
    """Returns the signature of the device of a backend, by its name; None for a device that no table knows."""
    return device_signatures(environment).find(_UUID.sub("", source_of(backend).device))


def known_profile(backend: Backend) -> DeviceProfile:
    """Returns the profile of a backend with what its driver does not tell filled from the signature, if there is one.

    For planners, which compare times: nothing that a program needs to run depends on it.
    """
    profile = backend.profile
    if profile.mem_bw_gbps is not None:
        return profile
    signature = signature_for(backend)
    return profile if signature is None else signature.completed(profile)
