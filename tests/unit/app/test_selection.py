"""Every candidate gets a reason, and the reference is never a silent fallback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from vyre.app.selection import BackendSelector, Selection
from vyre.domain.device import DeviceProfile
from vyre.domain.errors import BackendUnavailable, InvalidConfig, UnsupportedFeature
from vyre.domain.host_options import HostOptions, host_options
from vyre.ports.backend import (
    Backend,
    BackendCatalog,
    BackendRegistration,
    BackendRole,
    BackendServices,
    DiscoveryFailure,
)
from vyre.ports.lifecycle import NullLifecycle
from vyre.testing.fakes import function_backend, registration_of
from vyre.testing.recording_telemetry import RecordingTelemetry


def raising(error: Exception) -> Callable[[BackendServices], Backend]:
    def fail(services: BackendServices) -> Backend:
        raise error

    return fail


def probe_raising(error: Exception) -> Callable[[], DeviceProfile]:
    def fail() -> DeviceProfile:
        raise error

    return fail


def entry(
    name: str, role: BackendRole = BackendRole.PRODUCTION, rank: int = 1, *, f16: bool = False
) -> BackendRegistration:
    backend = function_backend(dict, name)
    return registration_of(replace(backend, profile=replace(backend.profile, supports_f16=f16)), role=role, rank=rank)


REFERENCE = entry("reference", BackendRole.REFERENCE, 900)
SCALAR = entry("reference-scalar", BackendRole.REFERENCE, 910)
EMITTER = entry("emitter", BackendRole.EMIT_ONLY)
DOUBLE = entry("double", BackendRole.EMULATION, f16=True)
BETTER, PLAIN = entry("better", f16=True), entry("plain")
NO_DEVICE = BackendUnavailable("no device found")


def choose(
    *registrations: BackendRegistration, name: str = "auto", forced: str | None = None
) -> tuple[Selection, RecordingTelemetry]:
    telemetry = RecordingTelemetry()
    return BackendSelector(BackendCatalog(registrations), telemetry, forced).select(name), telemetry


def reasons(selection: Selection) -> dict[str, str]:
    return {c.id: c.reason for c in selection.report.candidates}


def test_a_test_double_is_taken_by_name_only() -> None:
    selection, _ = choose(REFERENCE, DOUBLE)
    assert selection.report.chosen == "reference"
    assert reasons(selection)["double"] == "a test double: by name only"
    assert choose(REFERENCE, DOUBLE, name="double")[0].backend.id == "double"
    with pytest.raises(BackendUnavailable):
        choose(DOUBLE)


def test_auto_takes_the_best_production_backend() -> None:
    selection, telemetry = choose(REFERENCE, PLAIN, BETTER, EMITTER)
    assert selection.backend.id == selection.report.chosen == "better"
    assert "score 18" in selection.report.reason
    assert "score 16 against 18" in reasons(selection)["plain"]
    assert all(reasons(selection).values())
    assert set(reasons(selection)) == {"reference", "plain", "better", "emitter"}
    assert telemetry.events == []


@pytest.mark.parametrize("error", [NO_DEVICE, OSError("libcuda.so.1: not found")])
def test_a_candidate_whose_probe_or_factory_fails_is_passed_over_with_its_reason(error: Exception) -> None:
    for broken in (replace(BETTER, probe=probe_raising(error)), replace(BETTER, factory=raising(error))):
        selection, _ = choose(broken, PLAIN)
        assert selection.backend.id == "plain"
        assert str(error).partition(". Fix")[0] in reasons(selection)["better"]


@pytest.mark.parametrize("name", ["auto", "better"])
def test_an_invalid_setting_is_refused_instead_of_another_backend_taken(name: str) -> None:
    error = InvalidConfig("VYRE_THING='abc' is no number", fix="set it to 1.")
    for broken in (replace(BETTER, probe=probe_raising(error)), replace(BETTER, factory=raising(error))):
        if name == "auto" or broken.probe is BETTER.probe:
            with pytest.raises(InvalidConfig) as caught:
                choose(broken, PLAIN, REFERENCE, name=name)
            assert caught.value is error


def test_auto_without_a_production_backend_takes_the_reference_and_says_so() -> None:
    selection, telemetry = choose(SCALAR, REFERENCE, replace(BETTER, probe=probe_raising(NO_DEVICE)))
    assert selection.backend.id == "reference"
    assert "no production backend can run here (`better`: no device found)" in selection.report.reason
    (event,) = telemetry.events
    assert (event.name, event.level) == ("vyre.backend.reference_selected", "warning")
    assert event.fields["reason"] == selection.report.reason


def test_an_explicit_name_is_taken_as_it_is() -> None:
    selection, telemetry = choose(REFERENCE, BETTER, name="reference", forced="better")
    assert selection.backend.id == "reference"
    assert reasons(selection)["better"] == "`reference` was asked for by name"
    assert telemetry.events == []


@pytest.mark.parametrize("forced", ["plain", "  plain "])
def test_the_environment_names_what_auto_stands_for(forced: str) -> None:
    selection, telemetry = choose(REFERENCE, PLAIN, BETTER, forced=forced)
    assert selection.backend.id == "plain"
    assert selection.report.reason == "forced by VYRE_BACKEND"
    assert telemetry.events == []


@pytest.mark.parametrize("forced", ["", "  ", "auto", None])
def test_an_empty_variable_is_unset(forced: str | None) -> None:
    assert choose(PLAIN, BETTER, forced=forced)[0].backend.id == "better"


def test_forcing_the_reference_is_one_warning() -> None:
    selection, telemetry = choose(REFERENCE, BETTER, forced="reference")
    assert selection.backend.id == "reference"
    assert [e.level for e in telemetry.events] == ["warning"]


@pytest.mark.parametrize(("name", "forced"), [("nope", None), ("auto", "nope")])
def test_an_unknown_name_lists_what_is_there(name: str, forced: str | None) -> None:
    with pytest.raises(BackendUnavailable, match=r"`nope`.*`plain`.*Fix:"):
        choose(PLAIN, name=name, forced=forced)


def test_an_explicit_backend_that_fails_is_not_replaced() -> None:
    with pytest.raises(BackendUnavailable, match="no device found"):
        choose(REFERENCE, replace(BETTER, factory=raising(NO_DEVICE)), name="better")


def test_an_emitter_cannot_run() -> None:
    with pytest.raises(BackendUnavailable, match="only emits"):
        choose(EMITTER, name="emitter")


def test_nothing_at_all() -> None:
    with pytest.raises(BackendUnavailable, match=r"none is installed.*no reference.*Fix:"):
        choose()


def test_the_report_prints_candidates_and_broken_plugins() -> None:
    catalog = BackendCatalog((REFERENCE, BETTER), (DiscoveryFailure("x = a:b", "ImportError: a"),))
    text = str(BackendSelector(catalog, RecordingTelemetry()).select().report)
    assert "* better (production)" in text
    assert "- reference (reference)" in text
    assert "! x = a:b: ImportError: a" in text
    with pytest.raises(BackendUnavailable, match="ImportError: a"):
        BackendSelector(catalog, RecordingTelemetry()).select("nope")


def on_host(made: BackendRegistration) -> BackendRegistration:
    return replace(made, on_host=True)


HOST = on_host(entry("host", f16=True))
NO_COMPILER = BackendUnavailable("llvmlite is not installed", fix="install it.")


def test_a_device_of_its_own_is_preferred_to_the_processor_whatever_their_scores() -> None:
    selection, telemetry = choose(REFERENCE, HOST, PLAIN)
    assert selection.backend.id == "plain"
    assert reasons(selection)["host"] == "ranked after `plain` (which has a device of its own)"
    assert telemetry.events == []


def test_the_processor_is_taken_where_no_device_can_run_and_the_reason_says_so() -> None:
    selection, telemetry = choose(REFERENCE, HOST)
    assert selection.report.reason == "the processor of this machine; no backend of another device is installed"
    for broken in (replace(PLAIN, probe=probe_raising(NO_DEVICE)), replace(PLAIN, factory=raising(NO_DEVICE))):
        selection, telemetry = choose(REFERENCE, HOST, broken)
        assert selection.backend.id == "host"
        reason = "the processor of this machine; no other device can run here (`plain`: no device found)"
        assert selection.report.reason == reasons(selection)["host"] == reason
    assert telemetry.events == []


def test_the_report_says_what_to_install() -> None:
    selection, _ = choose(REFERENCE, HOST, replace(PLAIN, probe=probe_raising(NO_COMPILER)))
    assert reasons(selection)["plain"] == "llvmlite is not installed. Fix: install it"
    assert selection.report.reason.endswith("no other device can run here (`plain`: llvmlite is not installed)")
    selection, _ = choose(REFERENCE, replace(HOST, factory=raising(NO_COMPILER)))
    assert selection.backend.id == "reference"
    assert reasons(selection)["host"] == "llvmlite is not installed. Fix: install it"
    assert "(`host`: llvmlite is not installed. Fix: install it)" in selection.report.reason


def test_the_report_tells_a_restriction_of_what_is_taken() -> None:
    def restricted(services: BackendServices) -> Backend:
        return replace(HOST.factory(services), restriction="only stored code runs")

    selection, _ = choose(REFERENCE, replace(HOST, factory=restricted))
    reason = "the processor of this machine; no backend of another device is installed; only stored code runs"
    assert selection.report.reason == reasons(selection)["host"] == reason
    selection, _ = choose(REFERENCE, replace(HOST, factory=restricted), name="host")
    assert selection.report.reason == reasons(selection)["host"] == "asked for by name; only stored code runs"


def opened(
    *registrations: BackendRegistration, name: str = "auto", forced: str | None = None, **options: Any
) -> Selection:
    services = BackendServices(host=host_options(**options))
    return BackendSelector(BackendCatalog(registrations), RecordingTelemetry(), forced, services).select(name)


def test_threads_reach_the_backend_that_is_chosen() -> None:
    found: list[BackendServices] = []

    def make(services: BackendServices) -> Backend:
        found.append(services)
        return function_backend(dict, "host")

    opened(replace(HOST, factory=make), name="host", threads=3, affinity=[2, 0, 2])
    assert found[0].host == HostOptions(3, frozenset({0, 2}))


@pytest.mark.parametrize("options", [{"threads": 2}, {"affinity": {0}}])
def test_threads_of_a_backend_without_any_are_refused_if_it_is_asked_for_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedFeature, match=r"^backend `plain` does not support `threads= and affinity=`\. Fix: "):
        opened(HOST, PLAIN, name="plain", **options)
    assert opened(HOST, PLAIN, **options).backend.id == "plain"
    assert opened(HOST, PLAIN, forced="plain", **options).backend.id == "plain"
    assert opened(HOST, PLAIN, name="host", **options).backend.id == "host"


def test_race_checks_go_elsewhere_only_if_nobody_named_a_backend() -> None:
    checker = opened(REFERENCE, SCALAR, PLAIN).race_checker
    assert checker is not None and checker().id == "reference"
    assert opened(PLAIN).race_checker is None
    assert opened(REFERENCE).race_checker is None
    assert opened(REFERENCE, PLAIN, name="plain").race_checker is None
    assert opened(REFERENCE, PLAIN, forced="plain").race_checker is None


class Unprepared(NullLifecycle):
    """A lifecycle whose backend finds out that it cannot run only when it is prepared; ``closed`` counts."""

    closed = 0

    def prepare(self) -> None:
        raise NO_COMPILER

    def close(self) -> None:
        self.closed += 1


def test_a_processor_that_cannot_be_prepared_is_passed_over_and_closed() -> None:
    lifecycle = Unprepared(HOST.id)

    def made(services: BackendServices) -> Backend:
        return replace(HOST.make(services), lifecycle=lifecycle)

    selection, _ = choose(REFERENCE, replace(HOST, factory=made))
    assert (selection.backend.id, lifecycle.closed) == ("reference", 1)
    assert "Fix: install it" in selection.report.reason
    named, _ = choose(REFERENCE, replace(HOST, factory=made), name="host")
    with pytest.raises(BackendUnavailable, match="llvmlite is not installed"):
        named.backend.lifecycle.prepare()
