"""Invalidation of stored code: entries that depend on something that changed are removed, and reported with the reason.

It is rarely needed: a key covers everything that decides the code, so that any change is a cache miss.  It frees the
space of entries that are no longer used, and it removes code that a user distrusts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.domain.arguments import expect
from vyre.domain.artifact_key import ArtifactKey
from vyre.domain.errors import InvalidConfig
from vyre.domain.frozen import frozen
from vyre.domain.ir.program import Program
from vyre.domain.validation.validator import without_calls
from vyre.policies.caching.artifact_dependencies import Change, Dependency, affected_artifacts
from vyre.policies.journal import DecisionSink, decide

if TYPE_CHECKING:
    from vyre.ports.artifact_store import ArtifactStore, StoredEntry

OLD: Final = "old"
"""Stands for every emitter except the present one."""
LEAST_DIGITS: Final = 8
_OBJECTS: Final[dict[str, tuple[type, ...]]] = {"key": (ArtifactKey,), "program": (Program,)}
_DIGITS: Final = re.compile(f"[0-9a-f]{{{LEAST_DIGITS},64}}")


@frozen(kw_only=True)
class Invalid:
    """A selection of stored entries: all that depend on at least one of these.

    ``key``: one entry, and everything derived from it.  ``program``: a program, or the first digits of its digest.
    ``driver``: its version, such as ``13000``.  ``tool``: the first words of its name, version and options, such as
    ``ptxas 13.0.88``.  ``emitter``: the first digits of the digest of its source, or ``old``.  ``target``: such as
    ``sm_90``.

    Raises ``InvalidConfig`` if every field is None, and for text that is not a digest.
    """

    key: ArtifactKey | str | None = None
    program: Program | str | None = None
    driver: str | None = None
    tool: str | None = None
    emitter: str | None = None
    target: str | None = None

    def __post_init__(self) -> None:
        names = [each.name for each in fields(self)]
        for name in names:
            kinds = (str, type(None), *_OBJECTS.get(name, ()))
            expect(name, getattr(self, name), kinds, "a text, or None")
        named = [value for value in (getattr(self, name) for name in names) if value is not None]
        if not named or any(isinstance(value, str) and not value.strip() for value in named):
            wanted = ", ".join(names)
            raise InvalidConfig("nothing is named that is not valid any more", fix=f"name one of {wanted}.")
        for name in ("key", "program", "emitter"):
            value = getattr(self, name)
            if isinstance(value, str) and (name, value) != ("emitter", OLD) and not _DIGITS.fullmatch(value.lower()):
                raise InvalidConfig(
                    f"{name}={value!r} is no digest", fix=f"give at least {LEAST_DIGITS} hexadecimal digits."
                )

    def changes(self) -> list[Change]:
        """Returns the changes for the policy.  Raises ``UnreadableFile`` if the source of the emitter is needed."""
        plain = {Dependency.DRIVER: self.driver, Dependency.TOOL: self.tool, Dependency.TARGET: self.target}
        changes = [Change(field, value) for field, value in plain.items() if value is not None]
        if self.emitter == OLD:
            from vyre.adapters.source_digest import emitter_digest

            changes.append(Change(Dependency.EMITTER, emitter_digest().hex(), others=True))
        elif self.emitter is not None:
            changes.append(Change(Dependency.EMITTER, self.emitter.lower()))
        return changes + [Change(Dependency.PROGRAM, digits) for digits in self._programs()]

    def named(self, stored: Iterable[ArtifactKey]) -> list[ArtifactKey]:
        """Returns the selected keys; a key given by digits is looked up in ``stored``."""
        if isinstance(self.key, str):
            return [key for key in stored if key.digest.hex().startswith(self.key.lower())]
        return [] if self.key is None else [self.key]

    def programs(self, report: InvalidationReport) -> frozenset[bytes] | None:
        """Returns the digests of the programs whose pipelines in memory are invalid too; ``report`` is that of the
        store.

        None means all programs: it is not known what a pipeline was made with, so every pipeline in doubt is dropped.
        """
        shared = (self.driver, self.tool, self.emitter, self.target)
        if any(value is not None for value in shared) or isinstance(self.key, str) or isinstance(self.program, str):
            return None
        named = {each.program for each in (self.key,) if each is not None}
        if self.program is not None:
            named |= {self.program.digest, without_calls(self.program).digest}  # code is stored under the latter
        return report.programs | named

    def _programs(self) -> list[str]:
        if not isinstance(self.program, Program):
            return [] if self.program is None else [self.program.lower()]
        from vyre.app.verdicts import verdict_key

        verdict = verdict_key(self.program)  # validity is stored under another digest
        digests = [self.program.digest, *([] if verdict is None else [verdict.program])]
        if self.program.definitions:
            digests.append(without_calls(self.program).digest)
        return [digest.hex() for digest in digests]


class InvalidEntry(NamedTuple):
    """A stored entry that is invalid.

    ``why``: the path of dependencies from the change to the entry, on one line.  ``layer``: the read-only cache layer
    that holds it, or empty.
    """

    key: ArtifactKey
    nbytes: int
    why: str
    layer: str = ""


@frozen(kw_only=True)
class InvalidationReport:
    """The result of an invalidation.

    ``removed``: entries that were removed, or in a ``dry_run`` would be.  ``failed``: entries that could not be
    removed, because of the storage (telemetry has the reason), or because they are in a read-only ``layer``; they are
    still served. ``kept``: number of entries that do not depend on the change.  ``forgotten``: number of pipelines that
    the session dropped.
    """

    removed: tuple[InvalidEntry, ...] = ()
    failed: tuple[InvalidEntry, ...] = ()
    kept: int = 0
    forgotten: int = 0
    dry_run: bool = False

    @property
    def nbytes(self) -> int:
        """Total bytes of the removed entries."""
        return sum(entry.nbytes for entry in self.removed)

    @property
    def programs(self) -> frozenset[bytes]:
        """Digests of the programs of all invalid entries."""
        return frozenset(entry.key.program for entry in (*self.removed, *self.failed))

    def __str__(self) -> str:
        went = "would go" if self.dry_run else "went"
        lines = [f"{len(self.removed)} entries {went}, {self.nbytes} bytes; {self.kept} stay"]
        lines += [f"{_named(entry)} {went}: {entry.why}" for entry in self.removed]
        for entry in self.failed:
            where = f"is in the read-only {entry.layer}" if entry.layer else "could not be removed"
            lines.append(f"{_named(entry)} {where}: {entry.why}")
        return "\n".join(lines)


def invalidate(
    store: ArtifactStore | None, invalid: Invalid, *, dry_run: bool = False, sink: DecisionSink | None = None
) -> InvalidationReport:
    """Removes from ``store`` everything that depends on what ``invalid`` names, and nothing else; ``dry_run`` only
    reports.

    ``sink`` receives the decision, which covers all stored keys.  Entries that other processes store meanwhile stay.
    Raises ``UnreadableFile`` if the source of the emitter is needed and cannot be read; failures of the storage are
    reported in the result.
    """
    entries: list[StoredEntry] = [] if store is None else list(store.entries())
    keys = [entry.key for entry in entries]
    resting = decide(sink, affected_artifacts, keys, invalid.changes(), invalid.named(keys))
    reasons = {each.key: str(each.why) for each in resting}
    removed: list[InvalidEntry] = []
    failed: list[InvalidEntry] = []
    for entry in entries:
        if entry.key in reasons:
            invalid_entry = InvalidEntry(entry.key, entry.nbytes, reasons[entry.key], entry.layer)
            gone = not entry.layer and store is not None and (dry_run or store.remove(entry.key))
            (removed if gone else failed).append(invalid_entry)
    return InvalidationReport(
        removed=tuple(removed), failed=tuple(failed), kept=len(entries) - len(removed) - len(failed), dry_run=dry_run
    )


def _named(entry: InvalidEntry) -> str:
    return f"{entry.key.kind.value} of program {entry.key.program.hex()[:12]}"
