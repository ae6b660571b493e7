"""Records the kernels that tinygrad lowers for ``expressions.py``: programs, memory before, and NumPy's answers.

    python record_kernels.py ../../tests/data/kernels/cases.zip

The answers come from NumPy alone.  An expression of which the reference's result is not NumPy's is an error.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

os.environ |= {"DEV": "VYRE", "VYRE_BACKEND": "reference", "LRU": "0", "NO_MEMORY_PLANNER": "1", "CCACHE": "0"}

sys.path.append(str(Path(__file__).resolve().parents[1]))

import numpy as np
import vyre_device

vyre_device.register()

from expressions import Expression, expressions  # noqa: E402
from tinygrad.helpers import Context  # noqa: E402

from recorded_cases import described, named, write  # noqa: E402
from tinygrad import Tensor  # noqa: E402
from vyre.ir import Program  # noqa: E402

AS_WRITTEN = ("sum", "max0", "matmul_8", "softmax_4", "conv", "cumsum")
"""Names of expressions begin with one of these if their kernels are recorded without tinygrad's optimizations too."""


class Recorder:
    """What is uploaded and launched while it is on."""

    def __init__(self) -> None:
        self.memory: dict[int, tuple[Any, bytes | None]] = {}
        self.launches: list[tuple[vyre_device.VyreProgram, tuple[Any, ...], tuple[int, ...], tuple[int, ...]]] = []

        launch, upload = vyre_device.VyreProgram.__call__, vyre_device.VyreAllocator._copyin

        def launched(
            kernel: Any, *memory: Any, global_size: Any, local_size: Any, vals: Any = (), wait: bool = False
        ) -> Any:
            for each in memory:
                self.memory.setdefault(id(each), (each, None))
            self.launches.append((kernel, memory, kernel.grid(global_size, local_size), vals))
            return launch(kernel, *memory, global_size=global_size, local_size=local_size, vals=vals, wait=wait)

        def uploaded(allocator: Any, memory: Any, data: memoryview) -> None:
            self.memory[id(memory)] = memory, bytes(data)
            upload(allocator, memory, data)

        vyre_device.VyreProgram.__call__ = launched
        vyre_device.VyreAllocator._copyin = uploaded
        vyre_device.VyreAllocator._free = lambda *_: None  # what is between two kernels is read at the end

    def record(self, expression: Expression) -> tuple[dict[str, Any], dict[str, Program], dict[str, Any]]:
        """Returns a case, its programs and its arrays."""
        self.memory.clear()
        self.launches.clear()
        tensors = [Tensor(each).realize() for each in expression.inputs]
        result = expression.made(*tensors).contiguous().realize()
        with np.errstate(all="ignore"):
            answer = np.asarray(expression.answer(*expression.inputs), order="C")
        got = result.numpy()
        assert got.dtype == answer.dtype and got.shape == answer.shape, (
            expression.name,
            got.dtype,
            answer.dtype,
            got.shape,
        )
        np.testing.assert_allclose(got, answer, rtol=expression.close, atol=expression.close, err_msg=expression.name)
        used = {id(each) for _, memory, _, _ in self.launches for each in memory}
        names = {key: f"m{number}" for number, key in enumerate(key for key in self.memory if key in used)}
        arrays = {
            f"{expression.name}/{names[key]}": np.frombuffer(content, np.uint8)
            for key, (_, content) in self.memory.items()
            if key in names and content is not None
        }
        arrays[f"{expression.name}/answer"] = answer
        programs = {named(kernel.program): kernel.program for kernel, *_ in self.launches}
        case = described(
            expression.name,
            {names[key]: each.nbytes for key, (each, _) in self.memory.items() if key in names},
            [
                (kernel.program, kernel.arguments(tuple(names[id(each)] for each in memory), values), grid)
                for kernel, memory, grid, values in self.launches
            ],
            names[id(result.uop.base.realized._buf)],
            expression.close,
            (each.download().tobytes() for key, (each, _) in self.memory.items() if key in names),
        )
        return case, programs, arrays


def main(path: str) -> None:
    recorder = Recorder()
    cases, programs, arrays = [], {}, {}
    for expression in expressions():
        for optimized in (True, False) if expression.name.startswith(AS_WRITTEN) else (True,):
            named = expression if optimized else expression._replace(name=f"{expression.name}_as_written")
            with Context(NOOPT=int(not optimized)):
                case, its_programs, its_arrays = recorder.record(named)
            if not case["launches"] or its_programs.keys() <= programs.keys():
                continue  # nothing that is not recorded already
            cases.append(case)
            programs |= its_programs
            arrays |= its_arrays
    write(path, cases, programs, arrays)


if __name__ == "__main__":
    main(sys.argv[1])
