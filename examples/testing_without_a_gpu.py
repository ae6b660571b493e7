"""How an application that runs kernels is tested without a GPU: swap one adapter in the container.

The application below asks for a session and scales numbers.  Its tests override a single provider, the catalog of
backends, and run it (1) on the reference, (2) on a backend that records what reached it, (3) on one that fails.
Run it: ``python examples/testing_without_a_gpu.py``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from dependency_injector import providers

from vyre import DeviceOutOfMemory, Program, ProgramBuilder, f32
from vyre.container import Container
from vyre.ports import Backend, BackendCatalog
from vyre.testing import failing, load_catalog, recording, registration_of

Floats = npt.NDArray[np.float32]


# ---------------------------------------------------------------- the application
def scale_program() -> Program:
    """``y = factor * x``."""
    with ProgramBuilder("scale", workgroup=64) as p:
        factor = p.param("factor", f32)
        x = p.input("x", f32)
        y = p.output("y", f32, like=x)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = factor * x[i]
    return p.build()


class Scaler:
    """Scales numbers on whatever backend the container provides; splits the work in two when memory runs out."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._program = scale_program()

    def scale(self, numbers: Floats, factor: float) -> Floats:
        with self._container.session() as session:
            try:
                return session.dispatch(self._program, {"factor": factor, "x": numbers})["y"]
            except DeviceOutOfMemory:
                halves = np.array_split(numbers, 2)
                parts = [session.dispatch(self._program, {"factor": factor, "x": half})["y"] for half in halves]
                return np.concatenate(parts)


# ---------------------------------------------------------------- its tests
def container_with(backend: Backend) -> Container:
    """The application's container, with one override: the only backend is ``backend``."""
    container = Container()
    container.catalog.override(providers.Object(BackendCatalog((registration_of(backend),))))
    return container


def reference() -> Backend:
    """The reference backend: no GPU, the same bytes."""
    registration = load_catalog().get("reference")
    assert registration is not None
    return registration.make()


NUMBERS = np.arange(10, dtype=np.float32)


def test_the_answer_is_right() -> None:
    scaled = Scaler(container_with(reference())).scale(NUMBERS, 3.0)
    np.testing.assert_array_equal(scaled, NUMBERS * 3)


def test_one_dispatch_is_enough() -> None:
    backend, log = recording(reference())
    Scaler(container_with(backend)).scale(NUMBERS, 3.0)
    assert log.names == ["compiler.compile", "pipeline.dispatch"]


def test_running_out_of_memory_splits_the_work() -> None:
    error = DeviceOutOfMemory(requested=40, available=20)
    backend, log = recording(failing(reference(), 1, error, prefix="pipeline."))
    scaled = Scaler(container_with(backend)).scale(NUMBERS, 3.0)
    np.testing.assert_array_equal(scaled, NUMBERS * 3)
    assert log.names.count("pipeline.dispatch") == 3


if __name__ == "__main__":
    for test in (test_the_answer_is_right, test_one_dispatch_is_enough, test_running_out_of_memory_splits_the_work):
        test()
        print(f"{test.__name__}: ok")
