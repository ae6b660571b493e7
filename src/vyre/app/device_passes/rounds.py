"""``Rounds``: runs the kernels of passes on a session, once or until they change nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from vyre.app.sequences.steps import Step
from vyre.domain.dispatch import DispatchConfig

if TYPE_CHECKING:
    from vyre.app.device_passes.pass_kernel import PassKernel
    from vyre.app.resident import ResidentArray
    from vyre.app.result import Result
    from vyre.app.session import Session
    from vyre.domain.ir.program import Program

    Words: TypeAlias = npt.NDArray[np.uint32]


def _lanes(count: int) -> DispatchConfig:
    """Returns the config of so many lanes; the kernels of passes are not themselves optimized by passes."""
    return DispatchConfig(extent=count, optimize=False)


class Rounds:
    """Runs kernels on the backend of a session.

    ``lanes``: the most lanes that walk over the rows of a program, each over as many as another.
    """

    def __init__(self, session: Session, lanes: int) -> None:
        self._session = session
        self._lanes = lanes

    def once(self, program: Program, extent: int, inputs: Mapping[str, Any]) -> Result:
        """Runs a program with so many lanes; returns what it wrote to arrays of the host, by name."""
        return self._session.dispatch(program, inputs, _lanes(extent))

    @contextmanager
    def held(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Iterator[dict[str, ResidentArray]]:
        """Keeps arrays in the memory of the device for the launches of a block."""
        with ExitStack() as stack:
            yield {name: stack.enter_context(self._session.resident(array)) for name, array in arrays.items()}

    def settled(
        self, kernel: PassKernel, rows: int, inputs: Mapping[str, Any], result: str, extra: tuple[str, ...] = ()
    ) -> dict[str, Words]:
        """Runs a kernel until what it writes to ``result`` is what it was given as ``known``; returns that.

        Both begin as zeros, as do the arrays of the names ``extra``, all of so many u32 as there are rows.
        """
        span = max(1, -(-rows // self._lanes))
        session = self._session
        with ExitStack() as stack:
            arrays = {
                name: stack.enter_context(session.resident(np.zeros(max(1, rows), np.uint32)))
                for name in ("known", result, *extra)
            }
            changed, ignored = (stack.enter_context(session.resident(np.zeros(1, np.uint32))) for _ in range(2))
            bound = {**inputs, **arrays, "span": np.uint32(span)}
            turned = {**bound, "known": arrays[result], result: arrays["known"]}
            program, config = kernel.program, _lanes(-(-rows // span))
            steps = [
                Step(program, {**bound, "changed": ignored}, config),
                Step(program, {**turned, "changed": changed}, config),
            ]
            end = session.fixpoint(steps, changed=changed, limit=rows + 2)()
            assert end.converged, "every round settles at least the last row that was not settled"
            return {name: arrays[name].download() for name in (result, *extra)}
