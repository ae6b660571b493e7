"""The backend that runs samples again: another one than the session's, opened when the first sample is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import BackendError, BackendUnavailable
from vyre.domain.host_options import NO_HOST_OPTIONS, HostOptions
from vyre.domain.ir.program import Program
from vyre.domain.missing import missing_from
from vyre.ports.backend import Backend, BackendCatalog, BackendRegistration, BackendRole, BackendServices

ONE_THREAD: Final = HostOptions(threads=1)


def checking_registration(catalog: BackendCatalog, usual: str, wanted: str | None) -> BackendRegistration:
    """Returns the registration of the backend that runs the samples of a session on backend ``usual``.

    That is ``wanted``, or else the processor of this machine if it can run here, or else the reference; never ``usual``
    itself.  Raises ``BackendUnavailable``.
    """
    others = [each for each in catalog.by_precedence() if each.id != usual and each.role is not BackendRole.EMIT_ONLY]
    if wanted is not None:
        registration = next((each for each in others if each.id == wanted), None)
        if registration is None:
            known = ", ".join(f"`{each.id}`" for each in others) or "none"
            raise BackendUnavailable(
                f"a session on `{usual}` cannot have its shadow on `{wanted}`",
                fix=f"choose another installed backend ({known}) with Shadow(on=...).",
            )
        return registration
    ranked = [each for each in others if each.on_host and each.role is BackendRole.PRODUCTION and _can_run(each)]
    ranked += [each for each in others if each.role is BackendRole.REFERENCE]
    if not ranked:
        raise BackendUnavailable(
            f"no other backend than `{usual}` can run the shadow of a session on it",
            fix="leave shadow= out, or pass a catalog that has the reference.",
        )
    return ranked[0]


def _can_run(registration: BackendRegistration) -> bool:
    try:
        registration.probe()
    except BackendError:
        return False
    return True


def open_checker(registration: BackendRegistration, now_ns: Callable[[], int]) -> Backend:
    """Returns a new backend on one thread, without optimizations and without stored code."""
    host = ONE_THREAD if registration.on_host else NO_HOST_OPTIONS
    backend = registration.make(BackendServices(optimize=False, host=host, now_ns=now_ns))
    backend.lifecycle.prepare()
    return backend


def unoptimized(config: DispatchConfig) -> DispatchConfig:
    """Returns the config of code with every optimization off."""
    return replace(config, optimize=False, profile=None)


def checking_config(config: DispatchConfig, timeout_s: float) -> DispatchConfig:
    """Returns the config under which the shadow runs a dispatch: what decides its bytes, and nothing else."""
    return replace(
        unoptimized(config),
        race_check=False,
        chunk_workgroups=None,
        timeout_s=timeout_s,
        ulp_budget=None,
        speculation=None,
        persistent_thread=None,
        cooperative=False,
    )


def check_comparable(program: Program, config: DispatchConfig, checker: Backend) -> None:
    """Raises ``Incomparable`` for a program for which two right backends may give other bytes, or one of them none."""
    from vyre.domain.validation.known import order_sensitive

    if config.ulp_budget:
        raise Incomparable(program, f"ulp_budget={config.ulp_budget} allows other bytes", always=False)
    if order_sensitive(program):
        raise Incomparable(program, "its results depend on the order of atomics", always=True)
    if missing := missing_from(program, checker.profile, checker.supported_ops, config):
        raise Incomparable(program, f"backend `{checker.id}` lacks {'; '.join(map(str, missing))}", always=True)


class Incomparable(Exception):
    """A program that cannot be compared, and why: ``always``, or under its config."""

    def __init__(self, program: Program, why: str, *, always: bool) -> None:
        super().__init__(why)
        self.program: Program = program
        self.why: str = why
        self.always: bool = always
