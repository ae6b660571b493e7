"""PTX texts for tests of the emulated driver, and launching them."""

from __future__ import annotations

from typing import Final

from driver_contract.ptx import image, launch_shape
from support.machine.driver import Rig
from vyre.adapters.cuda.seam import Kernel, Launcher, ParameterBlock, ParameterPlace, Stream

TRAP: Final = """
.visible .entry trapping()
{
    trap;
    ret;
}
"""

POINTER_AND_WORD: Final = (ParameterPlace(0, 8, "Q"), ParameterPlace(8, 4, "I"))
TWO_POINTERS: Final = (ParameterPlace(0, 8, "Q"), ParameterPlace(8, 8, "Q"))


def load_kernel(rig: Rig, body: str, name: str) -> Kernel:
    library = rig.driver.library_load(image(body)).library
    return rig.driver.library_kernel(library, name)


def block(slots: tuple[ParameterPlace, ...], *values: int) -> ParameterBlock:
    made = ParameterBlock(slots)
    made.pack(*values)
    return made


def store(rig: Rig, kernel: Kernel, target: int, value: int, words: int = 32, stream: Stream | None = None) -> Launcher:
    """A prepared launch of ``STORE`` over ``words`` words, a multiple of 32."""
    parameters = block(POINTER_AND_WORD, target, value)
    return rig.driver.prepare_launch(kernel, launch_shape(words // 32), stream or rig.stream, parameters)
