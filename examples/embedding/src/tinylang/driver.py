"""The driver: programs are cached on disk in wire form and run in one session."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

import vyre
from tinylang.lower import RESULT, lower
from tinylang.syntax import parse

Floats = npt.NDArray[np.float32]


class Compiler:
    """Evaluates expressions; a context manager that owns a ``vyre.Session``."""

    def __init__(self, cache: Path, backend: str = "auto") -> None:
        self._cache = cache
        self._session = vyre.open(backend)
        self._pipelines: dict[str, vyre.Pipeline] = {}

    @property
    def backend(self) -> str:
        return self._session.backend

    def evaluate(self, text: str, arrays: Mapping[str, Floats]) -> Floats:
        """The value of ``text``; a ``vyre.VyreError`` says what is wrong with the arrays."""
        pipeline = self._pipelines.get(text)
        if pipeline is None:
            pipeline = self._pipelines[text] = self._session.compile(self._program(text))
        return pipeline(arrays)[RESULT]

    def _program(self, text: str) -> vyre.Program:
        path = self._cache / f"{sha256(text.encode()).hexdigest()}.vyrb"
        try:
            return vyre.Program.from_wire(path.read_bytes())
        except (OSError, vyre.MalformedWire):
            program = lower(parse(text))
            path.write_bytes(program.to_wire())
            return program

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._session.close()
