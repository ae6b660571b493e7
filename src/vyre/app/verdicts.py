"""Verdicts of validity: kept on the program itself, and in the store for other processes.

Only the verdict that a program is valid is stored.  An invalid program is validated again each time, since its
diagnostics point into its author's source.  A stored verdict tells the name of the program to those who list the store.
A verdict belongs to the exact program including its names, because validity depends on them; the digest by which code
is shared ignores them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from vyre.app.services import WIRING
from vyre.domain.ir.expr import Native
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.program_report import InvalidProgram, Report
from vyre.domain.validation.known import is_checked, remember_order

if TYPE_CHECKING:
    from vyre.domain.artifact_key import ArtifactKey
    from vyre.domain.ir.program import Program
    from vyre.ports.artifact_store import Artifact, ArtifactStore

VALID: Final = b"valid"
ORDERED: Final = b"valid, and sensitive to the order of atomics"
UNDEFINED: Final = "V223"
"""The code of a call of what the program does not define."""
MOST_NAME_BYTES: Final = 200
_DOMAIN: Final = b"vyre.exact-program.v1\0"
_KNOWN: Final = "found valid"


def require_valid(program: Program, artifacts: Callable[[], ArtifactStore | None] | None = None) -> None:
    """Raises ``InvalidProgram`` with every diagnostic.  ``artifacts`` returns the store of verdicts, if there is one:
    a program that is found valid there is not validated here.
    """
    if _KNOWN in program._cache:
        return
    store = None if artifacts is None or is_checked(program) else artifacts()
    if store is not None:
        _require_valid(program, store)
    else:
        _check(program)
    program._cache[_KNOWN] = True


def trust_lowering(program: Program) -> Program:
    """Returns a valid program whose native text, if any, the caller compares with a definition."""
    from vyre.domain.validation.validator import check_rules

    check_rules(program).raise_if_invalid()
    program._cache[_KNOWN] = True
    return program


def valid_program(program: Program, artifacts: Callable[[], ArtifactStore | None] | None = None) -> Program:
    """Returns a valid program, with the definitions of registered operations that it calls and does not carry.

    Raises ``InvalidProgram`` and heeds ``artifacts`` as ``require_valid`` does.
    """
    try:
        require_valid(program, artifacts)
    except InvalidProgram as error:  # it may call operations that are registered, and not in the program
        resolved = with_names_resolved(program)
        if resolved is program:
            if error.report is not None and any(each.code == UNDEFINED for each in error.report.errors):
                raise _explained(error.report).error(error.excerpt) from None
            raise
        require_valid(resolved, artifacts)
        return resolved
    return program


def with_names_resolved(program: Program) -> Program:
    """Returns a program with the definitions of registered operations that it calls and does not carry.

    It is the very program if there are none; whether it is valid is left to others.
    """
    from vyre.domain.validation.validator import check_rules

    if all(each.code != UNDEFINED for each in check_rules(program).errors):
        return program
    from vyre.app.dialects.current import dialect_registry  # few programs call operations

    return dialect_registry().snapshot.resolved(program)


def _explained(report: Report) -> Report:
    """Returns a report whose calls of unknown operations name the dialects that failed to load."""
    from dataclasses import replace

    from vyre.app.dialects.current import dialect_registry
    from vyre.domain.diagnostics import Severity

    diagnostics = dialect_registry().snapshot.diagnostics
    failures = "; ".join(f"{each.message} ({each.loc})" for each in diagnostics if each.severity is Severity.ERROR)
    if not failures:
        return report
    errors = [
        replace(each, message=f"{each.message}; dialects failed to load: {failures}")
        if each.code == UNDEFINED
        else each
        for each in report.errors
    ]
    return replace(report, errors=tuple(errors))


def valid_with_registered(program: Program) -> Program:
    """Returns a valid program ``with_names_resolved``; raises ``InvalidProgram`` with every diagnostic."""
    program = with_names_resolved(program)
    _check(program)
    return program


def _check(program: Program) -> Report:
    """Returns the report of a valid program; raises ``InvalidProgram`` with every diagnostic."""
    from vyre.domain.validation.validator import check_rules  # imported on use: most programs are known to be valid

    report = check_rules(program)
    if report.errors:
        report.raise_if_invalid()
    if Native in node_facts(program).types:
        problem = "native text stands in a program that is given, where nothing compares it with a definition"
        raise InvalidProgram(problem, fix="call the operation, whose lowering holds the text.")
    return report


def _require_valid(program: Program, store: ArtifactStore) -> None:
    key = verdict_key(program)
    known = None if key is None else store.get(key)
    if known is not None and known.code in (VALID, ORDERED):
        remember_order(program, sensitive=known.code == ORDERED)
        return
    now_ns = WIRING.get().clock().now_ns
    started = now_ns()
    report = _check(program)
    if key is not None:
        store.put(key, _verdict(program, report, now_ns() - started))


def keep_verdict(program: Program, store: ArtifactStore | None) -> None:
    """Stores the verdict of a program that is known to be valid, and with it the name, unless it is stored already."""
    key = None if store is None else verdict_key(program)
    if store is not None and key is not None and store.get(key) is None:
        store.put(key, _verdict(program, _check(program)))


def _verdict(program: Program, report: Report, cost_ns: int = 0) -> Artifact:
    from vyre.ports.artifact_store import Artifact

    return Artifact(_named(program), ORDERED if report.order_sensitive else VALID, cost_ns)


def _named(program: Program) -> bytes:
    """Returns the digest by which code of the program is stored, and its name, for those who list the store."""
    return program.digest + (program.name or "").encode("utf-8", "replace")[:MOST_NAME_BYTES]


def verdict_key(program: Program) -> ArtifactKey | None:
    """Returns the key of the verdict, or None for a program that cannot be encoded.

    The digest of the emitter's source covers the validator's source too.
    """
    from blake3 import blake3

    from vyre.adapters.source_digest import emitter_digest
    from vyre.domain.artifact_key import ArtifactKey, ArtifactKind
    from vyre.domain.ir.wire import encode

    try:
        exact = encode(program)
    except Exception:  # a malformed tree may fail anywhere; the validator says what is wrong with it
        return None
    digest = blake3(_DOMAIN + exact).digest()
    return ArtifactKey(kind=ArtifactKind.VERDICT, emitter=emitter_digest(), program=digest)
