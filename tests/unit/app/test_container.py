"""One override swaps an adapter, and the wiring fits the constructors."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from dependency_injector import providers

import vyre
from support.small_programs import catalog_of, saxpy_catalog, saxpy_program, square_kernel
from vyre.app.container import MADE, Container
from vyre.domain.host_options import HostOptions
from vyre.testing.fakes import function_backend
from vyre.testing.recording_telemetry import RecordingTelemetry


@pytest.fixture
def container() -> Iterator[Container]:
    instance = Container()
    yield instance
    instance.reset_override()


def wiring_errors(container: Container) -> list[str]:
    """Providers whose arguments do not fit what they call: provider arguments are untyped."""
    errors: list[str] = []
    for name, provider in container.providers.items():
        target = getattr(provider, "provides", None)
        if not callable(target):
            continue
        try:
            given = ("of a session",) if name in MADE else ()
            inspect.signature(target).bind(*getattr(provider, "args", ()), *given, **getattr(provider, "kwargs", {}))
        except TypeError as error:
            errors.append(f"{name}: {error}")
    return errors


def test_wiring_is_complete(container: Container) -> None:
    assert wiring_errors(container) == []
    container.telemetry.add_args(1)
    assert len(wiring_errors(container)) == 1


def test_one_override_swaps_the_backends(container: Container) -> None:
    container.catalog.override(providers.Object(saxpy_catalog()))
    x = np.arange(4, dtype=np.float32)
    with container.session() as session:
        assert session.backend == "fake"
        np.testing.assert_array_equal(session.dispatch(saxpy_program(), [2.0, x, x])["y"], 3 * x)


def test_one_override_swaps_the_telemetry(container: Container) -> None:
    telemetry = RecordingTelemetry()
    container.telemetry.override(providers.Object(telemetry))
    container.catalog.override(providers.Object(saxpy_catalog()))
    with container.session() as session:
        session.compile(saxpy_program())
    assert [name for name, _ in telemetry.counts] == ["vyre.decision", "vyre.pipeline.prepared"]


def test_the_environment_and_the_name_choose(container: Container) -> None:
    class Forced:
        def get(self, name: str, /) -> str | None:
            return {"VYRE_BACKEND": "b"}.get(name)

    catalog = catalog_of(function_backend(square_kernel, "a"), function_backend(square_kernel, "b"))
    container.catalog.override(providers.Object(catalog))
    container.environment.override(providers.Object(Forced()))
    with container.session() as session:
        assert session.explain().reason == "forced by VYRE_BACKEND"
    container.backend_name.override(providers.Object("a"))
    with container.session() as session:
        assert session.backend == "a"


def test_singletons_are_per_instance(container: Container) -> None:
    assert container.telemetry() is container.telemetry()
    assert container.telemetry() is not Container().telemetry()


def test_open_and_the_container_choose_alike(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_BACKEND", "reference-scalar")
    with vyre.open() as opened, container.session() as contained:
        assert opened.backend == contained.backend == "reference-scalar"
        assert opened.explain() == contained.explain()


def test_there_is_a_provider_for_every_argument_of_open(container: Container) -> None:
    named = {name if name != "backend" else "backend_name" for name in inspect.signature(vyre.open).parameters}
    assert named <= container.providers.keys()


class Variables:
    """An environment that remembers which variables were read."""

    def __init__(self, **values: str) -> None:
        self.values = values
        self.read: set[str] = set()

    def get(self, name: str, /) -> str | None:
        self.read.add(name)
        return self.values.get(name)


@pytest.mark.parametrize(
    ("backend", "variable"), [("cpu", "VYRE_CPU_THREADS"), ("cuda-machine", "VYRE_CUDA_GRAPH_AFTER")]
)
def test_the_variables_of_backends_come_from_the_environment_alone(
    container: Container, monkeypatch: pytest.MonkeyPatch, backend: str, variable: str
) -> None:
    monkeypatch.setenv(variable, "of the process, and not valid")
    given = Variables(VYRE_CACHE_DIR="")
    container.environment.override(providers.Object(given))
    container.backend_name.override(providers.Object(backend))
    with container.session() as session, vyre.open(backend, environment=given) as opened:
        assert session.backend == opened.backend == backend
    assert variable in given.read
    wrong = Variables(**{variable: "of the double"})
    with pytest.raises(vyre.InvalidConfig, match="of the double"):
        vyre.open(backend, environment=wrong)
    if backend == "cpu":  # which is asked whether it can run, before it is chosen
        with pytest.raises(vyre.InvalidConfig, match="of the double"):
            vyre.open(environment=wrong)


def test_every_argument_reaches_the_session_of_the_container(container: Container) -> None:
    told = RecordingTelemetry()
    for name, value in {
        "telemetry": [told, vyre.RecentEvents(3)],
        "backend_name": "reference",
        "cache": False,
        "max_in_flight": 3,
        "resident_budget": 64,
        "optimize": False,
        "optimizer": "device",
        "journal": vyre.DecisionJournal(),
    }.items():
        getattr(container, name).override(providers.Object(value))
    with container.session() as session:
        services = session._selection.services
        assert (services.optimize, services.device_passes is None) == (False, False)
        assert session.journal is container.journal()
        with pytest.raises(vyre.DeviceOutOfMemory):
            session.resident(65)
    assert told.events and session.recent()[-1].name == "vyre.session.closed"
    container.max_in_flight.override(providers.Object(0))
    with pytest.raises(vyre.InvalidConfig, match="max_in_flight"):
        container.session()


STORES: Final = ("artifact_store", "tuning_store", "cost_store", "wave_time_store", "verdict_store")


@pytest.mark.parametrize("overridden", STORES)
def test_a_store_that_is_overridden_alone_is_another(container: Container, tmp_path: Path, overridden: str) -> None:
    double = object()
    container.cache.override(providers.Object(tmp_path))
    container.backend_name.override(providers.Object("reference"))
    getattr(container, overridden).override(providers.Object(double))
    with container.session() as session:
        found = session._sources
        assert found is not None
        openers = (session._selection.services.artifacts, found.store, found.costs, found.wave_times, found.verdicts)
        opened = dict(zip(STORES, (opener() for opener in openers), strict=True))
        assert all(opener() is each for opener, each in zip(openers, opened.values(), strict=True)), "opened once"
    assert opened.pop(overridden) is double
    assert [type(each).__name__[:4] for each in opened.values()] == ["Disk"] * 4


def test_threads_and_affinity_reach_the_services(container: Container) -> None:
    container.threads.override(providers.Object(3))
    container.affinity.override(providers.Object([1, 0]))
    container.catalog.override(providers.Object(saxpy_catalog()))
    with container.session() as session:
        assert session._selection.services.host == HostOptions(3, frozenset({0, 1}))
