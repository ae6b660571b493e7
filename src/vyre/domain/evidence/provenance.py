"""Provenance: which source computed a result.

A source is named by two fingerprints.  The *source fingerprint* names the revision, and of a changed working tree a
digest of what was changed; the *tree fingerprint* is a digest of all files of the package.  Both are hashes over
framed fields, so that no two different lists of fields give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from vyre.domain.frozen import frozen

_CHANGES: Final = b"vyre-evidence-changes-v1"
_TREE: Final = b"vyre-evidence-tree-v1"


class SourceFile(NamedTuple):
    """A file below the folder of a package: its path with ``/``, and its content; None if it cannot be read."""

    path: str
    content: bytes | None


class WorkingTree(NamedTuple):
    """The answer of Git about the working tree that holds a package.

    ``status`` and ``diff`` are the bytes of ``git status --porcelain -z`` and of ``git diff --binary HEAD``; None if
    Git did not answer.  ``untracked`` holds the files of the whole tree that Git neither tracks nor ignores, ``files``
    those of the package, tracked or not.
    """

    commit: str
    branch: str | None
    parent: str | None
    committed_at: str | None
    status: bytes | None
    diff: bytes | None
    untracked: tuple[SourceFile, ...]
    files: tuple[SourceFile, ...]


@frozen
class GitFacts:
    """The revision of a source.

    ``dirty`` says whether files differ from the commit, and is None where Git did not say; ``changes`` is then the
    digest of the differences.  ``committed_at`` is in the form of ISO 8601.
    """

    commit: str
    branch: str | None
    dirty: bool | None
    changes: str | None
    parent: str | None
    committed_at: str | None


@frozen
class SourceState:
    """The source of a package: its version, both fingerprints, and the revision where Git knows one."""

    package: str
    version: str
    fingerprint: str
    tree: str
    git: GitFacts | None


def source_state(package: str, version: str, tree: WorkingTree | None) -> SourceState:
    """Returns the state of a package's source; without a working tree the version alone names it."""
    if tree is None:
        return SourceState(package, version, f"package:{package}:{version}", f"package:{package}:{version}", None)
    dirty = None if tree.status is None else bool(tree.status)
    changes = changes_digest(tree) if dirty else None
    git = GitFacts(tree.commit, tree.branch, dirty, changes, tree.parent, tree.committed_at)
    return SourceState(package, version, _fingerprint(git), f"tree-v1:{tree_digest(tree.files)}", git)


def changes_digest(tree: WorkingTree) -> str | None:
    """Returns the digest of everything in which the tree differs from its commit; None where Git did not say."""
    if tree.status is None or tree.diff is None:
        return None
    fields = [(b"format", _CHANGES), (b"status", tree.status), (b"diff", tree.diff)]
    return _digest([*fields, *_fields(tree.untracked)])


def tree_digest(files: Iterable[SourceFile]) -> str:
    """Returns the digest of the paths and contents of files, in the order of their paths."""
    return _digest([(b"format", _TREE), *_fields(sorted(files, key=lambda file: file.path))])


def _fingerprint(git: GitFacts) -> str:
    if git.dirty:
        return f"git:{git.commit}:dirty=true:changes={git.changes or 'unknown'}"
    return f"git:{git.commit}:dirty={'unknown' if git.dirty is None else 'false'}"


def _fields(files: Iterable[SourceFile]) -> Iterable[tuple[bytes, bytes]]:
    for file in files:
        yield b"path", file.path.encode("utf-8", "surrogateescape")
        yield (b"unreadable", b"") if file.content is None else (b"content", file.content)


def _digest(fields: Iterable[tuple[bytes, bytes]]) -> str:
    from blake3 import blake3

    hasher = blake3()
    for field in fields:
        for part in field:
            hasher.update(len(part).to_bytes(8, "little"))
            hasher.update(part)
    return hasher.hexdigest()
