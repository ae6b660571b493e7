"""``vyre doctor``: checks whether this installation can run programs, and says what is missing."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Final, NamedTuple

import numpy as np

from vyre.app.capabilities import offer_of, operations_text, profile_rows
from vyre.app.known_devices import device_signatures
from vyre.app.selection import AUTO, FORCE_VARIABLE, BackendSelector
from vyre.app.services import WIRING, installed
from vyre.app.session import Session
from vyre.domain.errors import VyreError
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import u32
from vyre.ports.backend import BackendCatalog, BackendRegistration, BackendRole
from vyre.ports.support import NullTelemetry

REQUIRED: Final = ("numpy", "blake3", "structlog", "dependency-injector")
OPTIONAL: Final = ("prometheus-client",)
_LANES: Final = 1000


class Finding(NamedTuple):
    """One check.  If it is not ``ok``, something does not work; ``fix`` says what to do."""

    check: str
    ok: bool
    found: str
    fix: str | None = None


def examine() -> list[Finding]:
    """Runs every check and returns the findings, in the order in which a person would check."""
    catalog = installed()
    return [
        Finding("python", True, f"{platform.python_implementation()} {platform.python_version()} on {sys.platform}"),
        *(_package(name, required=True) for name in ("vyre", *REQUIRED)),
        *(_package(name, required=False) for name in _optional(catalog)),
        *_environment(),
        *(Finding(f"device signature {n.loc}", False, n.message, n.fix) for n in device_signatures().diagnostics),
        *(Finding(f.entry_point, False, f.reason, "upgrade or remove this plug-in.") for f in catalog.failures),
        *(
            finding
            for each in catalog.by_precedence()
            for finding in (*device_facts(each), *_offered(each), _backend(catalog, each))
        ),
        _auto(catalog),
    ]


def self_test() -> Program:
    """Returns a small kernel that uses a branch, an input and wrapping arithmetic: ``y = x * x + 7``."""
    with ProgramBuilder("self_test", workgroup=64) as p:
        x = p.input("x", u32)
        y = p.output("y", u32, like=x)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = x[i] * x[i] + 7
    return p.build()


def _optional(catalog: BackendCatalog) -> tuple[str, ...]:
    """Returns the optional packages of the backends and of this package; each name once."""
    return tuple(dict.fromkeys([*(p for r in catalog.by_precedence() for p in r.packages), *OPTIONAL]))


def _package(name: str, *, required: bool) -> Finding:
    try:
        return Finding(name, True, version(name))
    except PackageNotFoundError:
        return Finding(name, not required, "not installed", f"pip install {name}")


def _environment() -> list[Finding]:
    environment = WIRING.get().environment()
    names: tuple[str, ...] = getattr(environment, "names", tuple)()  # others than that of the process may list none
    values = [(name, environment.get(name)) for name in names if name.startswith("VYRE_")]
    return [Finding(name, True, value) for name, value in values if value is not None]


def device_facts(registration: BackendRegistration) -> list[Finding]:
    """Returns what the backend says about its device, a finding for each topic; a failure is the only finding."""
    if registration.facts is None:
        return []
    try:
        facts = registration.facts()
    except VyreError as error:
        usable = registration.role is BackendRole.PRODUCTION
        return [Finding(f"{registration.id} device", usable, error.message, error.fix)]
    return [Finding(f"{registration.id} {topic}", True, text) for topic, text in facts.items()]


def _offered(registration: BackendRegistration) -> list[Finding]:
    """Returns the profile and the operations of a backend that can run here."""
    offer = offer_of(registration)
    if offer.profile is None:
        return []
    facts = "; ".join(f"{name} {value}" for name, value in profile_rows(offer.profile))
    return [
        Finding(f"{registration.id} profile", True, facts),
        Finding(f"{registration.id} operations", True, operations_text(offer.supported_ops)),
    ]


def _backend(catalog: BackendCatalog, registration: BackendRegistration) -> Finding:
    """Runs the self-test.  A production backend that cannot run here is not an error of the installation."""
    check = f"backend {registration.id}"
    if registration.role is BackendRole.EMIT_ONLY:
        return Finding(check, True, "emits code only")
    x = np.arange(_LANES, dtype=np.uint32) * np.uint32(0x9E37_79B9)
    try:
        selection = BackendSelector(catalog, NullTelemetry()).select(registration.id)
        with Session(selection, NullTelemetry()) as session:
            result = session.dispatch(self_test(), {"x": x})
    except VyreError as error:
        return Finding(check, registration.role is BackendRole.PRODUCTION, f"cannot run: {error.message}", error.fix)
    if not np.array_equal(result["y"], x * x + np.uint32(7)):
        return Finding(check, False, "the self-test gave a wrong answer", "report this with the output of this command")
    return Finding(check, True, f"self-test passed in {result.timing.wall_ns / 1e6:.2f} ms")


def _auto(catalog: BackendCatalog) -> Finding:
    try:
        selection = BackendSelector(catalog, NullTelemetry(), WIRING.get().environment().get(FORCE_VARIABLE)).select()
        selection.backend.lifecycle.close()
    except VyreError as error:
        return Finding(AUTO, False, error.message, error.fix)
    return Finding(AUTO, True, f"{selection.report.chosen}: {selection.report.reason}")
