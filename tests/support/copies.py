"""A count of the copies between host and device that a session asks its backend for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import vyre
from vyre.ports.requests import Readback, ResidentSequence, Upload


class Copies:
    """The copies that a session's backend was asked for: their number, bytes, and launches."""

    def __init__(self, session: vyre.Session, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads: list[int] = []
        self.writes: list[int] = []
        self.launches = 0
        memory = session._lease.backend.require_memory()
        executor: Any = session._lease.backend.require_resident_executor()
        gathering: Any = session._lease.backend.gathering
        download, upload, run = memory.download, memory.upload, executor.run

        def downloaded(reads: Sequence[Readback]) -> None:
            self.reads += [each.into.nbytes for each in reads]
            download(reads)

        def uploaded(uploads: Sequence[Upload]) -> None:
            self.writes += [each.data.nbytes for each in uploads]
            upload(uploads)

        def ran(sequence: ResidentSequence) -> object:
            before = len(self.reads)
            result = run(sequence)
            del self.reads[before:]  # the reference downloads what a sequence reads
            self.reads += [each.into.nbytes for each in sequence.reads]
            self.launches += len(sequence.prefix)
            return result

        def bound(buffers: Any, ranges: Any) -> Callable[[memoryview], None]:
            inner = bind(buffers, ranges)

            def gather(into: memoryview) -> None:
                self.reads.append(int(ranges.nbytes.sum()))
                inner(into)

            return gather

        monkeypatch.setattr(memory, "download", downloaded)
        monkeypatch.setattr(memory, "upload", uploaded)
        monkeypatch.setattr(executor, "run", ran)
        if gathering is not None:
            bind = gathering.bind
            monkeypatch.setattr(gathering, "bind", bound)
