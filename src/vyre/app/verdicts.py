"""Verdicts of validity: kept on the program itself, and in the store for other processes.

Only the verdict that a program is valid is stored.  An invalid program is validated again each time, since its
diagnostics point into its author's source.  A stored verdict tells the name of the program to those who list the store.
A verdict belongs to the exact program including its names, because validity depends on them; the digest by which code
is shared ignores them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from vyre.domain.validation.validator import check_rules, known_report

if TYPE_CHECKING:
    from vyre.app.session import Session
    from vyre.domain.artifact_key import ArtifactKey
    from vyre.domain.errors import InvalidProgram
    from vyre.domain.ir.program import Program
    from vyre.ports.artifact_store import ArtifactStore

VALID: Final = b"valid"
UNDEFINED: Final = "V223"
"""The code of a call of what the program does not define."""
MOST_NAME_BYTES: Final = 200
_DOMAIN: Final = b"vyre.exact-program.v1\0"
_KNOWN: Final = "found valid"


def require_valid(program: Program, artifacts: Callable[[], ArtifactStore | None] | None = None) -> None:
    """Raises ``InvalidProgram`` with every diagnostic.  ``artifacts`` returns the store of verdicts, if there is
    one.
    """
    if _KNOWN in program._cache:
        return
    report = known_report(program)
    store = None if artifacts is None or report is not None else artifacts()
    if store is not None:
        _require_valid(program, store)
    else:
        report = report or check_rules(program)
        if report.errors:
            report.raise_if_invalid()
    program._cache[_KNOWN] = True


def with_registered(program: Program, error: InvalidProgram) -> Program:
    """Returns an invalid program with the definitions of registered operations that it calls and does not carry.

    Raises ``error`` again if there are none.
    """
    found = with_names_resolved(program)
    if found is program:
        raise error
    return found


def with_names_resolved(program: Program) -> Program:
    """Returns a program with the definitions of registered operations that it calls and does not carry.

    It is the very program if there are none; whether it is valid is left to others.
    """
    if all(each.code != UNDEFINED for each in check_rules(program).errors):
        return program
    from vyre.app.dialects.current import dialect_registry  # few programs call operations

    return dialect_registry().snapshot.resolved(program)


def valid_with_registered(program: Program) -> Program:
    """Returns a valid program ``with_names_resolved``; raises ``InvalidProgram`` with every diagnostic."""
    program = with_names_resolved(program)
    check_rules(program).raise_if_invalid()
    return program


def _require_valid(program: Program, store: ArtifactStore) -> None:
    from vyre.ports.artifact_store import Artifact  # imported on use: only a store needs it

    key = verdict_key(program)
    if key is not None and store.get(key) is not None:
        return
    started = time.perf_counter_ns()
    check_rules(program).raise_if_invalid()
    if key is not None:
        store.put(key, Artifact(_named(program), VALID, time.perf_counter_ns() - started))


def keep_verdict(program: Program, session: Session) -> None:
    """Stores the verdict of a program that is known to be valid, and with it the name, unless it is stored already."""
    from vyre.ports.artifact_store import Artifact

    store = session._selection.services.artifacts() if session._lease.backend.stores_code else None
    key = None if store is None else verdict_key(program)
    if store is not None and key is not None and store.get(key) is None:
        store.put(key, Artifact(_named(program), VALID))


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
