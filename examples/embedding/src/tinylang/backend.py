"""A backend plug-in: the reference, with its dispatches counted."""

from __future__ import annotations

from dataclasses import replace

from vyre import BackendUnavailable
from vyre.ports import Backend, BackendId, BackendRegistration, BackendRole, BackendServices, DeviceProfile
from vyre.testing import CallLog, hooked, load_catalog

CALLS = CallLog()
_ID = BackendId("counting")


def _reference() -> BackendRegistration:
    registration = load_catalog().get("reference")
    if registration is None:
        raise BackendUnavailable("the reference backend is missing")
    return registration


def _probe() -> DeviceProfile:
    return replace(_reference().probe(), backend=_ID)


def _make(services: BackendServices) -> Backend:
    inner = _reference().make(services)
    without_memory = replace(inner, id=_ID, profile=_probe(), memory=None, resident_executor=None)
    return hooked(without_memory, CALLS)


COUNTING = BackendRegistration(id=_ID, rank=950, role=BackendRole.REFERENCE, factory=_make, probe=_probe)
