"""Journal files: writing decisions, and deciding recorded ones again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from vyre.adapters.evidence_files import ARCHIVE
from vyre.adapters.files import read_file, write_files
from vyre.adapters.policy_sources import find_policy, version_of
from vyre.app.journal import DecisionJournal
from vyre.domain.arguments import path_of
from vyre.domain.errors import InvalidConfig, MalformedJson
from vyre.policies.decision_records import Replayed, from_lines, replay, to_lines
from vyre.policies.journal import Decision

MAX_BYTES: Final = 1 << 28
"""Maximum size of a journal that is read."""


def write_decisions(decisions: Iterable[Decision], path: Path) -> None:
    """Writes decisions to ``path``.  Raises ``UnreadableFile``."""
    write_files({path: to_lines(decisions, version_of).encode()})


def write_journal(journal: DecisionJournal | None, path: Path) -> int:
    """Implements ``Session.write_journal``."""
    if journal is None:
        raise InvalidConfig("there is no journal", fix="open the session with vyre.open(journal=DecisionJournal()).")
    decisions = journal.decisions
    write_decisions(decisions, path)
    return len(decisions)


def replay_file(path: Path | str) -> Iterator[Replayed]:
    """Yields every decision of a journal, or of the journal in an evidence bundle, decided again, in order.

    Raises ``UnreadableFile``, ``MalformedJson`` for a file that is neither, and ``MalformedBundle`` for a bundle that
    is damaged or holds no run.
    """
    data = read_file(path_of("path", path), max_bytes=MAX_BYTES)
    if data.startswith(ARCHIVE):
        from vyre.app.evidence.bundle import read_evidence

        return (replay(record, find_policy) for record in read_evidence(path).decisions)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise MalformedJson(
            f"{path} is no journal: it is not UTF-8", fix="use the journal as it was written."
        ) from None
    return (replay(record, find_policy) for record in from_lines(text))
