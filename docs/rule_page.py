"""Makes the page of the codes of validation: rules, lints, and what vyre-driver reports and vyre does not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from vyre.domain.diagnostics import Severity
from vyre.domain.validation.rules import RULES, Rule

RETIRED: Final[dict[str, str]] = {
    "V013": "byte buffers are V201",
    "V014": "element types of atomics are V202",
    "V016": "defects of calls are V223 to V226",
    "V020": "defects of calls are V223 to V226",
    "V021": "defects of calls are V223 to V226",
    "V022": "several outputs are legal",
    "V023": "byte buffers are V201",
    "V025": "atomics on workgroup memory are legal",
    "V030": "there are no opaque expressions",
    "V031": "there are no opaque statements",
    "V034": "a backend that cannot cast raises UnsupportedFeature",
    "V041": "every backend has subgroup operations",
    "V044": "a written zero divisor is the lint L013",
    "V046": "collectives are lowered or refused at import",
    "V101": "a root region is optional",
    "V106": "element types are V201",
    "V125": "linear types are refused at import",
    "V126": "shape predicates are checked at import",
    "V132": "64-bit arithmetic is legal",
    "V133": "subgroup operations are expressions of their own",
}
"""Codes of vyre-driver's rules that vyre does not report, with the reasons."""


_LINT_PREFACE: Final = (
    "A program with an error is invalid and is not run. Warnings and notes leave it valid. Codes that begin with L are",
    "lints: notes on code that is legal but probably not intended. `vyre.validate` and `vyre validate` report them; a",
    "dispatch does not compute them, so they cost it nothing. The note V218 marks programs whose results depend on the",
    "order of atomics.",
)

_RETIRED_PREFACE: Final = (
    "Codes below V200 denote rules of vyre-driver, the Rust system from which vyre takes most of its rules. vyre does",
    "not report these:",
)


def render_catalogue(lints: Iterable[Rule] = ()) -> str:
    """Returns ``docs/validation.md``: every code, of rules and of ``lints``, with its meaning and remedy, as
    Markdown.
    """
    lines = ["# Validation rules", "", *_LINT_PREFACE, ""]
    for rule in (*RULES.values(), *lints):
        lines += [f"## {rule.code}: {rule.title}", ""]
        if rule.severity is not Severity.ERROR:
            lines += [f"Severity: {rule.severity.value}.", ""]
        lines += [rule.checks, "", f"**Fix:** {rule.fix}", ""]
    lines += ["## Codes that are not reported", "", *_RETIRED_PREFACE, "", "| Code | Why |", "|---|---|"]
    lines += [f"| {code} | {why} |" for code, why in RETIRED.items()]
    return "\n".join((*lines, ""))
