"""Manifests of earlier forms, as those of the present one."""

from __future__ import annotations

from typing import Any

from vyre.domain.errors import MalformedJson
from vyre.domain.evidence.records import FORM


def in_present_form(document: Any) -> Any:
    """Returns the JSON document of a manifest in the present form: what an earlier form did not record is empty.

    Anything else than a manifest of an earlier form is returned as it is.  Raises ``MalformedJson`` for a manifest
    that has fields which its form does not have.
    """
    if not isinstance(document, dict) or type(document.get("form")) is not int or document["form"] != 1:
        return document
    found = document | {"form": FORM}
    if isinstance(device := document.get("device"), dict):
        found["device"] = _with(device, profile=[], of_family=[])
    if isinstance(run := document.get("run"), dict):
        found["run"] = run = _with(run, resident=[])
        for name in ("got", "expected"):
            if isinstance(answer := run.get(name), dict):
                run[name] = _with(answer, error=None)
    return found


def _with(record: dict[str, Any], **fields: object) -> dict[str, Any]:
    for name in fields:
        if name in record:
            raise MalformedJson(
                f"a manifest of form 1 has the field `{name}`", fix="use the evidence as it was written."
            )
    return record | fields
