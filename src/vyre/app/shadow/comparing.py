"""A dispatch whose outputs differ from those of the shadow, and the evidence bundle that it becomes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vyre.domain.cached import cached_property
from vyre.domain.evidence.differences import OutputDifference, Returned, differences
from vyre.domain.ir.buffers import inputs_of, outputs_of

if TYPE_CHECKING:
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.ir.program import Program
    from vyre.policies.journal import Decision
    from vyre.ports.backend import Backend


class Outcome(NamedTuple):
    """A dispatch, with the bytes of its inputs and of its outputs, both in binding order."""

    program: Program
    config: DispatchConfig
    inputs: tuple[bytes, ...]
    got: tuple[bytes, ...]


@dataclass(frozen=True)
class Mismatch:
    """A dispatch on backend ``usual`` that ``got`` other bytes than ``expected``, which are those of ``checker``.

    ``inputs``, ``expected`` and ``got`` hold bytes by buffer name.
    """

    program: Program
    config: DispatchConfig
    inputs: Mapping[str, bytes]
    expected: Mapping[str, bytes]
    got: Mapping[str, bytes]
    usual: Backend
    checker: Backend

    @cached_property
    def difference(self) -> OutputDifference:
        """The first difference, in binding order; the end of the first buffer if only what is not returned differs."""
        expected, got = (Returned.of(self.program, content) for content in (self.expected, self.got))
        return next(differences(expected, got), expected[0].difference(got[0].content))

    def write(self, directory: Path | str | None, decisions: Iterable[Decision]) -> Path:
        """Writes a new evidence bundle in ``directory``, or among the temporary files, and returns its path.

        ``decisions``: those by which the dispatch was compared.  Raises what ``write_bundle`` raises, and
        ``OSError`` where no file can be made.
        """
        from vyre.app.evidence.writing import Noted, write_bundle

        if directory is not None:
            Path(directory).mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(".zip", "vyre-shadow-", directory)
        os.close(handle)
        path = Path(name)
        try:
            write_bundle(
                path,
                self.program,
                self.inputs,
                self.got,
                config=self.config,
                backend=self.usual,
                expected=self.expected,
                expected_by=str(self.checker.id),
                noted=Noted(tuple(decisions)),
            )
        except BaseException:
            path.unlink()
            raise
        return path


def mismatch(outcome: Outcome, right: Outcome, written: Program, usual: Backend, checker: Backend) -> Mismatch:
    """Returns how the outputs of a dispatch differ from the ``right`` ones, those of ``written``."""
    returned = [buffer.name for buffer in outputs_of(written.abi_buffers)]
    return Mismatch(
        written,
        outcome.config,
        dict(zip((buffer.name for buffer in inputs_of(written.abi_buffers)), outcome.inputs, strict=True)),
        dict(zip(returned, right.got, strict=True)),
        dict(zip(returned, outcome.got, strict=True)),
        usual,
        checker,
    )
