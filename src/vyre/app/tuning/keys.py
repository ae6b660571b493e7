"""Tuning keys: everything that the times of a launch depend on."""

from __future__ import annotations

import os
import platform
from dataclasses import fields
from typing import Final

from vyre.app.tuning.launches import TunedLaunch
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.identity import program_digest
from vyre.domain.launch_costs import CostSource
from vyre.domain.tuning import TimeKind, TuningKey, bucket_of
from vyre.ports.backend import Backend

_TOLD_ELSEWHERE: Final = frozenset(
    ("grid", "extent", "workgroup", "spec", "profile", "label", "timeout_s", "output_counts", "max_output_bytes")
)
"""Fields of a config that other fields of the key cover, or that do not affect speed."""


def tuning_key(backend: Backend, launch: TunedLaunch) -> TuningKey:
    """Returns the key of a launch on a backend; a backend without the facet ``tunable`` runs on the host."""
    tunable, config = backend.tunable, launch.config
    return TuningKey(
        program=program_digest(launch.program).hex(),
        spec="" if config.spec is None else config.spec.canonical_bytes().hex(),
        bucket=bucket_of(launch.lanes),
        backend=str(backend.id),
        device=host_name() if tunable is None else tunable.device,
        driver="" if tunable is None else tunable.driver,
        versions=f"{backend.id} {backend.version}, {host_versions() if tunable is None else tunable.versions}",
        declared=launch.launch.workgroup,
        settings=_settings_text(config),
    )


def time_kind(backend: Backend) -> TimeKind:
    """Returns how times of ``backend`` are obtained: as its facet ``tunable`` says, else on the host's clock."""
    return TimeKind.HOST if backend.tunable is None else backend.tunable.kind


def source_of(backend: Backend) -> CostSource:
    """Returns device and driver as the facet ``tunable`` names them; without it, those of the host."""
    tunable = backend.tunable
    if tunable is None:
        return CostSource(str(backend.id), host_name(), host_versions())
    return CostSource(str(backend.id), tunable.device, tunable.driver)


def host_name() -> str:
    """Returns the name of this machine's processor, as far as the system reports it."""
    return f"{platform.machine()} {platform.processor()} x{os.cpu_count()}"


def host_versions() -> str:
    """Returns the versions of the software that runs programs on the host."""
    import numpy as np

    return f"python {platform.python_version()}, numpy {np.__version__}"


def _settings_text(config: DispatchConfig) -> str:
    """Returns the config fields that affect speed and are set, as text."""
    settings = [(f.name, getattr(config, f.name), f.default) for f in fields(config) if f.name not in _TOLD_ELSEWHERE]
    return ", ".join(f"{name}={value}" for name, value, default in sorted(settings) if value != default)
