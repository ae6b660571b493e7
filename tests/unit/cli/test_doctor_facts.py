"""``vyre doctor`` shows what a backend says about its device."""

from __future__ import annotations

from dataclasses import replace

from vyre.adapters.discovery import load_catalog
from vyre.app.cli.doctor import Finding, device_facts
from vyre.domain.errors import BackendUnavailable
from vyre.ports.backend import BackendRole

REFERENCE = next(r for r in load_catalog().registrations if r.id == "reference")


def unknown() -> dict[str, str]:
    raise BackendUnavailable("no processor of this kind is known", fix="ask for `reference`.")


def test_each_topic_is_a_finding() -> None:
    assert device_facts(REFERENCE) == []
    facts = replace(REFERENCE, facts=lambda: {"threads": "2", "lanes": "16"})
    assert device_facts(facts) == [Finding("reference threads", True, "2"), Finding("reference lanes", True, "16")]


def test_facts_that_cannot_be_found_are_an_error_of_a_reference_alone() -> None:
    finding = Finding("reference device", False, "no processor of this kind is known", "ask for `reference`.")
    assert device_facts(replace(REFERENCE, facts=unknown)) == [finding]
    production = replace(REFERENCE, facts=unknown, role=BackendRole.PRODUCTION)
    assert device_facts(production) == [finding._replace(ok=True)]
