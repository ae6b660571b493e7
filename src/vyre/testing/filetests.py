"""Runs filetests: ``python -m vyre.testing.filetests PATH... [--backend NAME] [-k GLOB] [--json]``.

A path is a ``.vyre`` file or a directory of them; docs/filetests.md has the directives.  Prints a line for every run
that fails or needs a feature that the backend lacks and, last, ``N passed, N failed, N skipped``.  Exit code: 0 if
nothing failed, 1 if something did, 2 for a path that cannot be read, a directive that does not parse, or a backend that
does not exist.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from blake3 import blake3

from vyre.adapters.terminal import command, complain
from vyre.domain.errors import BackendError, MalformedText, UnreadableFile, UnsupportedFeature, VyreError
from vyre.domain.ir.buffers import element_of
from vyre.domain.ir.program import Program
from vyre.domain.printable import indented
from vyre.domain.validation.validator import check_rules
from vyre.ports.backend import Backend
from vyre.testing.execution import ORDER_SENSITIVE, execute, find_scheduled
from vyre.testing.filetest_checks import judge_checks
from vyre.testing.filetest_syntax import ExpectedError, ExpectedOutput, Filetest, Run, parse_filetest
from vyre.testing.filetest_values import summary_text
from vyre.testing.outcomes import Outcome, Verdict, print_outcomes


def load_filetests(paths: Iterable[Path]) -> Iterator[Filetest]:
    """Yields the tests of files and directories; raises ``UnreadableFile`` and ``MalformedText``."""
    for path in paths:
        files = sorted(path.rglob("*.vyre")) if path.is_dir() else [path]
        if not files:
            raise UnreadableFile(f"no .vyre file in {path}")
        for file in files:
            try:
                text = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise UnreadableFile(f"cannot read {file}: {error}") from None
            yield parse_filetest(text, str(file))


def run_filetest(
    test: Filetest, backend: Backend, *, canonical_order: bool = True, **defaults: Any
) -> Iterator[Outcome]:
    """Yields one outcome for the diagnostics, one for every run and one for the checks of every emission.

    ``canonical_order``: whether lanes run in the canonical schedule; otherwise runs of order-sensitive programs are
    skipped.  ``defaults`` are fields of ``DispatchConfig`` for runs that do not set them.
    """
    yield _judge_findings(test)
    if test.program is None or not check_rules(test.program).ok:
        for line in (*(run.line for run in test.runs), *(check.line for check in test.checks)):
            yield Outcome(f"{test.filename}:{line}", Verdict.FAILED, "the program is invalid and cannot run")
        return
    for line, difference in judge_checks(test.program, test.checks):
        verdict = Verdict.PASSED if difference is None else Verdict.FAILED
        yield Outcome(f"{test.filename}:{line}", verdict, difference or "")
    comparable = canonical_order or not check_rules(test.program).order_sensitive
    for run in test.runs:
        if not comparable:
            yield Outcome(f"{test.filename}:{run.line}", Verdict.SKIPPED, ORDER_SENSITIVE)
            continue
        yield Outcome(f"{test.filename}:{run.line}", *_judge_run(run, test.program, backend, defaults))


def _judge_findings(test: Filetest) -> Outcome:
    findings: list[tuple[str, str, int | None]]
    if test.malformed is not None:
        loc = test.malformed.loc
        findings = [("error", test.malformed.code.name, loc.line if loc is not None else None)]
    else:
        assert test.program is not None
        report = check_rules(test.program)
        findings = [
            (d.severity.value, d.code, d.loc.line if d.loc is not None else None)
            for d in (*report.errors, *report.warnings)
        ]
    wanted_warnings = any(f.severity == "warning" for f in test.findings)
    findings = [f for f in findings if wanted_warnings or f[0] == "error"]
    unplaced = Counter((f.severity, f.code) for f in test.findings)
    if unplaced != Counter((severity, code) for severity, code, _ in findings):
        return Outcome(test.filename, Verdict.FAILED, f"reported: {_listed(findings)}; expected: {_wanted(test)}")
    for finding in test.findings:
        if finding.line is not None and (finding.severity, finding.code, finding.line) not in findings:
            return Outcome(test.filename, Verdict.FAILED, f"reported: {_listed(findings)}; expected: {_wanted(test)}")
    return Outcome(test.filename, Verdict.PASSED)


def _listed(findings: Iterable[tuple[str, str, int | None]]) -> str:
    return ", ".join(f"{code} at line {line}" for _, code, line in findings) or "nothing"


def _wanted(test: Filetest) -> str:
    return _listed((f.severity, f.code, f.line) for f in test.findings)


def _judge_run(run: Run, program: Program, backend: Backend, defaults: dict[str, Any]) -> tuple[Verdict, str]:
    """Returns the verdict on a run and its reason.  An unsupported feature skips the run, unless that error is
    expected.
    """
    try:
        outputs = execute(backend, program, run.inputs, run.config(program, **defaults))
    except Exception as error:  # any error of a backend is an answer, right or wrong
        difference = error_difference(error, run.expected)
        if difference is not None and isinstance(error, UnsupportedFeature):
            return Verdict.SKIPPED, error.message
    else:
        difference = answer_difference(run, program, outputs)
    return (Verdict.PASSED, "") if difference is None else (Verdict.FAILED, difference)


def answer_difference(run: Run, program: Program, outputs: Mapping[str, bytes]) -> str | None:
    """Returns in words how outputs differ from those that the run expects."""
    if isinstance(run.expected, ExpectedError):
        return f"it runs; expected the error {run.expected.code.name}"
    differences = [
        _difference(program, name, outputs[name], expected)
        for name, expected in run.expected.items()
        if not _fits(outputs[name], expected)
    ]
    return "; ".join(differences) or None


def error_difference(error: Exception, expected: Mapping[str, ExpectedOutput] | ExpectedError) -> str | None:
    """Returns in words how an error differs from what a run expects."""
    if not isinstance(error, VyreError) or not isinstance(expected, ExpectedError):
        return f"{type(error).__name__}: {error}"
    if error.code is not expected.code:
        return f"{error.code.name} ({error}); expected {expected.code.name}"
    if expected.text not in error.message:
        return f"the message is {error.message!r}; expected {expected.text!r} in it"
    for name, wanted in expected.attributes.items():
        actual = getattr(error, name, None)
        if actual != wanted:
            return f"{error.code.name} has {name}={actual!r}; expected {wanted!r}"
    return None


def _fits(data: bytes, expected: ExpectedOutput) -> bool:
    if expected.digest is not None:
        return blake3(data).hexdigest().startswith(expected.digest)
    return data == expected.data


def _difference(program: Program, name: str, data: bytes, expected: ExpectedOutput) -> str:
    element = element_of(program.buffer(name))
    if expected.data is None:
        return f'`{name}` is {summary_text(element, data)}, expected blake3("{expected.digest}")'
    where = ""
    if len(data) == len(expected.data):
        first = next(i for i, (a, b) in enumerate(zip(data, expected.data, strict=True)) if a != b)
        where = f" (first at element {first // element.size})"
    return f"`{name}` is {summary_text(element, data)}, expected {summary_text(element, expected.data)}{where}"


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m vyre.testing.filetests", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    parser.add_argument("--backend", default="reference", metavar="NAME")
    parser.add_argument("-k", dest="pattern", default="*", metavar="GLOB", help="only files whose path fits")
    parser.add_argument("--json", action="store_true", help="one JSON object a case instead of lines")
    options = parser.parse_args(arguments)
    try:
        registration, canonical_order = find_scheduled(options.backend)
        backend = registration.make()
        tests = [t for t in load_filetests(options.paths) if fnmatchcase(t.filename, options.pattern)]
    except (UnreadableFile, MalformedText, BackendError) as error:
        complain(indented(str(error)))
        return 2
    outcomes = (o for test in tests for o in run_filetest(test, backend, canonical_order=canonical_order))
    return print_outcomes(outcomes, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
