"""Where and by what source evidence is made: the parts of a manifest that do not depend on what was run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Final

from vyre.adapters.machine_facts import environment
from vyre.app.known_devices import signature_for
from vyre.app.services import WIRING, installed
from vyre.app.tuning.keys import source_of
from vyre.domain.device import DeviceProfile
from vyre.domain.errors import BackendError
from vyre.domain.evidence.provenance import source_state
from vyre.domain.evidence.records import FORM, Device, Evidence
from vyre.ports.backend import Backend, BackendCatalog
from vyre.ports.provenance import SourceRepository

PACKAGES: Final = ("vyre", "numpy", "blake3")


def empty_evidence(packages: Sequence[str], repository: SourceRepository | None) -> Evidence:
    """Returns a manifest without run and measurements, made now."""
    wiring = WIRING.get()
    return Evidence(
        form=FORM,
        made_at=datetime.fromtimestamp(wiring.clock().time_ns() // 10**9, UTC).isoformat(timespec="seconds"),
        source=source_state("vyre", version("vyre"), (repository or wiring.source_repository()).working_tree()),
        environment=environment(dict.fromkeys((*PACKAGES, *packages))),
        device=None,
        run=None,
        measurements=(),
        claims=(),
    )


def device_of(backend: Backend, catalog: BackendCatalog | None = None) -> Device:
    """Returns the description of a backend and its device.  ``catalog`` has its registration, if any.

    Numbers of the device that its driver does not tell are those of its family, where that is known.
    """
    source = source_of(backend)
    family = signature_for(backend)
    probed = _numbers(backend.profile)
    profile = probed if family is None else _numbers(family.completed(backend.profile))
    return Device(
        backend=str(backend.id),
        version=backend.version,
        name=source.device,
        driver=source.driver,
        signature=None if family is None else family.id,
        toolchain=backend.toolchain(),
        facts=_facts(backend, catalog or installed()),
        profile=profile,
        of_family=tuple(sorted(profile.keys() - probed.keys())),
    )


def _numbers(profile: DeviceProfile) -> dict[str, int]:
    values = ((field.name, getattr(profile, field.name)) for field in fields(profile))
    return {name: value for name, value in values if type(value) is int}


def packages_of(backend_id: str, catalog: BackendCatalog | None = None) -> tuple[str, ...]:
    """Returns the distributions that a backend uses where they are installed."""
    registration = (catalog or installed()).get(backend_id)
    return () if registration is None else registration.packages


def _facts(backend: Backend, catalog: BackendCatalog) -> Mapping[str, str]:
    registration = catalog.get(backend.id)
    if registration is None or registration.facts is None:
        return {}
    try:
        return dict(registration.facts())
    except BackendError as error:
        return {"unknown": error.message}
