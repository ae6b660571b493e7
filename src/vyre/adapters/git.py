"""Git, asked by its command about the working tree that holds a package."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from vyre.domain.evidence.provenance import SourceFile, WorkingTree
from vyre.ports.interrupts import undisturbed

_LIMIT_S: Final = 30
"""Seconds that one command of Git may take."""


class GitRepository:
    """Implements ``SourceRepository`` for the package in ``folder``.

    ``generated`` lists folders and files of the repository, relative to its root, that hold evidence: they make no tree
    dirty, since writing evidence would.
    """

    __slots__ = ("_folder", "_generated")

    def __init__(self, folder: Path, generated: tuple[str, ...] = ()) -> None:
        self._folder = folder
        self._generated = tuple(f":(top,exclude){path}" for path in generated)

    def working_tree(self) -> WorkingTree | None:
        root = self._line("rev-parse", "--show-toplevel")
        commit = self._line("rev-parse", "--verify", "HEAD")
        if root is None or commit is None or not self._asked(self._folder, "ls-files", "-z", "--", "."):
            return None  # a package that lies in a repository which does not track it
        everywhere = ("--", ":(top)", *self._generated)
        top = Path(root)
        return WorkingTree(
            commit=commit,
            branch=self._line("symbolic-ref", "--quiet", "--short", "HEAD"),
            parent=self._line("rev-parse", "--verify", "--quiet", "HEAD^"),
            committed_at=self._line("show", "--no-patch", "--format=%cI", "HEAD"),
            status=self._asked(top, "status", "--porcelain=v1", "-z", "--untracked-files=all", *everywhere),
            diff=self._asked(top, "diff", "--binary", "--no-ext-diff", "HEAD", *everywhere),
            untracked=self._files(top, "--others", "--exclude-standard", *everywhere),
            files=self._files(self._folder, "--cached", "--others", "--exclude-standard", "--", "."),
        )

    def _files(self, folder: Path, *arguments: str) -> tuple[SourceFile, ...]:
        listed = self._asked(folder, "ls-files", "-z", *arguments) or b""
        paths = sorted({os.fsdecode(name) for name in listed.split(b"\0") if name})
        return tuple(SourceFile(path, _content(folder / path)) for path in paths)

    def _line(self, *arguments: str) -> str | None:
        answer = self._asked(self._folder, *arguments)
        return (answer.decode("utf-8", "replace").strip() or None) if answer is not None else None

    def _asked(self, folder: Path, *arguments: str) -> bytes | None:
        """Returns the output of a command; None if it failed, or if there is no Git."""
        environment = os.environ | {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        try:
            done = undisturbed(
                subprocess.run,
                ["git", "--no-pager", *arguments],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LIMIT_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout if done.returncode == 0 else None


def _content(path: Path) -> bytes | None:
    try:
        return os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
    except OSError:
        return None
