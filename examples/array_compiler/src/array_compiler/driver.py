"""Programs on a device: verdicts before anything is compiled, arrays that stay there, steps planned together."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt

import vyre
from array_compiler.emission import Emission
from array_compiler.fusion import fuse
from array_compiler.problems import NotSupported, RunError, ShapeError
from array_compiler.shapes import Checked, Node
from array_compiler.syntax import parse
from vyre import ir

Array: TypeAlias = npt.NDArray[np.generic]


class Executable:
    """A program that is compiled for a session.  Its arrays are on the device, and states stay from run to run.

    ``bundle``: code that was compiled ahead, from ``write_bundle``.  Raises an ``ArrayError``: ``ParseError`` and
    ``ShapeError`` of the text, ``NotSupported`` of the device.
    """

    def __init__(
        self, session: vyre.Session, text: str, file: str = "prog.arr", bundle: vyre.LoadedBundle | None = None
    ) -> None:
        self._session, self._bundle = session, bundle
        self.checked: Final = Checked(parse(text, file), file)
        groups, arrays = fuse(self.checked)
        names = (f"{Path(file).stem}_{number}" for number in range(len(groups)))
        self.kernels: Final = [
            Emission(group, arrays, name).kernel() for group, name in zip(groups, names, strict=True)
        ]
        self._nodes = {name: node for each in groups for name, node in each.outputs.items()}
        self._nodes |= self.checked.inputs | self.checked.states
        self._arrays = dict[str, vyre.ResidentArray]()
        self._sequence: vyre.StepSequence | None = None
        self.last_run: vyre.SequenceRun | None = None
        for kernel in self.kernels:
            for lack in session.missing(kernel.program, extent=kernel.lanes):
                place = lack.locations[0] if lack.locations else kernel.place
                raise NotSupported(f"`{session.backend}` lacks what this needs: {lack.what}", place)

    def run(self, inputs: Mapping[str, Array], steps: int = 1) -> dict[str, Array]:
        """Runs so many steps; returns the outputs of the last one, and the states after it.

        Raises ``ShapeError`` for arrays that do not fit, and ``RunError`` where the device fails.
        """
        for name, node in self.checked.inputs.items():
            array = inputs.get(name)
            if array is None or (array.dtype, array.shape) != (_dtype(node), node.shape):
                passed = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
                raise ShapeError(f"`{name}` is {node}, and {passed} is passed in", node.place)
            with _failures(node.place):
                self._array(name, node).upload(np.ascontiguousarray(array))
        self._sequence = self._sequence or self._bound()
        with _failures(*(kernel.place for kernel in self.kernels)):
            self.last_run = self._sequence(rounds=steps)
            names = [*self.checked.outputs, *self.checked.states]
            values = self._session.download(self._arrays[name] for name in names)
        return {name: each.reshape(self._nodes[name].shape) for name, each in zip(names, values, strict=True)}

    def tune(self, budget_s: float | None = None) -> list[vyre.TuningReport]:
        """Measures other workgroups for each kernel; the samples are stored, and later runs use the winners."""
        settings, reports = vyre.TuningSettings(budget_s=budget_s), list[vyre.TuningReport]()
        for each in self.kernels:
            zeros = {name: np.zeros(self._nodes[name].size, _dtype(self._nodes[name])) for name in each.reads}
            with _failures(each.place):
                reports.append(self._session.tune(each.program, zeros, extent=each.lanes, settings=settings))
        return reports

    def write_bundle(self, path: Path) -> vyre.WrittenBundle:
        """Writes the code of all kernels to a file, with which the program runs where nothing can be compiled."""
        return vyre.build_bundle({kernel.program.name or "": kernel.program for kernel in self.kernels}, path)

    def close(self) -> None:
        """Frees the arrays; a later run allocates them again, and states are zeros: so after a device was lost."""
        if self._sequence is not None:
            self._sequence.close()
        for array in self._arrays.values():
            array.close()
        self._sequence, self._arrays = None, {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _bound(self) -> vyre.StepSequence:
        """The kernels as steps on arrays of the device; what only they see lasts for one run, and may never exist."""
        bound: dict[str, vyre.ResidentArray | vyre.Temporary] = {}
        for name, node in self._nodes.items():
            is_inner = name.startswith("_")
            with _failures(node.place):
                bound[name] = self._session.temporary(node.dtype, node.size) if is_inner else self._array(name, node)
        steps: list[vyre.Step] = []
        for kernel in self.kernels:
            with _failures(kernel.place):
                read = {name: bound[name] for name in kernel.reads}
                tuned = self._session.tuned(kernel.program, read, extent=kernel.lanes)
                used = {name: bound[name] for name in (*kernel.reads, *kernel.writes)}
                steps.append(vyre.Step(kernel.program, used, tuned.config))
        with _failures(*(kernel.place for kernel in self.kernels)):
            return self._session.sequence(steps)

    def _array(self, name: str, node: Node) -> vyre.ResidentArray:
        if name not in self._arrays:
            self._arrays[name] = self._session.resident(np.zeros(node.size, _dtype(node)), label=name)
        return self._arrays[name]


def _dtype(node: Node) -> np.dtype[np.generic]:
    return np.dtype(np.bool_ if node.dtype is ir.bool_ else node.dtype.numpy_name)


@contextmanager
def _failures(first: ir.SourceLocation, *others: ir.SourceLocation) -> Generator[None]:
    """Errors of vyre become ``RunError``, at the statement that they name, or else at the first of several."""
    try:
        yield
    except vyre.VyreError as error:
        place = error.loc if isinstance(error, vyre.TrapError) else None
        lines = sorted({each.line for each in (first, *others)})
        among = f" (lines {', '.join(map(str, lines))} were running)" if place is None and others else ""
        raise RunError(f"{type(error).__name__}: {error.message}{among}", place or first) from error
