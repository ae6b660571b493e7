"""A dispatch recorded as a CUDA graph: copy up, zero, kernels, copy back as one launch.

Nodes are added explicitly, in a chain, so that each can be updated later: replays see new bytes in the pinned memory by
themselves, new scalars and uniforms through ``update``.  Nothing is captured from a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from vyre.adapters.cuda.runtime.device import CudaDevice, release_all
from vyre.adapters.cuda.runtime.launch import BoundKernel
from vyre.adapters.cuda.seam import CudaCallError, DeviceAddress, Event, GraphNode, HostAddress, Launcher, Stream

NODE_LIMIT: Final = 1024
"""Kernels beyond which recording costs more than it saves in memory and time."""


class Copy(NamedTuple):
    """Between pinned memory and the device."""

    device: DeviceAddress
    host: HostAddress
    nbytes: int


class Recording(NamedTuple):
    """The operations of one dispatch, in order; the events time the kernels."""

    upload: Copy | None
    zero: tuple[DeviceAddress, int] | None
    started: Event
    kernels: tuple[BoundKernel, ...]
    ended: Event
    reads: tuple[Copy, ...]


class DispatchGraph:
    """An executable graph on one stream.  Raises ``CudaCallError``.  Not for two threads at once."""

    __slots__ = ("_driver", "_executable", "_graph", "_kernels", "_packed", "launch")

    def __init__(self, device: CudaDevice, recording: Recording, stream: Stream) -> None:
        driver = self._driver = device.driver
        self._graph = driver.graph_create()
        undo: list[Callable[[], None]] = [partial(driver.graph_destroy, self._graph)]
        try:
            self._kernels: Final = _add_nodes(device, self._graph, recording)
            self._executable = driver.graph_instantiate(self._graph)
            undo.insert(0, partial(driver.graph_exec_destroy, self._executable))
            driver.graph_upload(self._executable, stream)
            self.launch: Final[Launcher] = driver.prepare_graph_launch(self._executable, stream)
        except CudaCallError as error:
            device.roll_back(error, undo)
            raise
        self._packed = self._parameters()

    def update(self) -> None:
        """Take over the present parameters of the kernels, where they changed."""
        packed = self._parameters()
        for (node, kernel), before, now in zip(self._kernels, self._packed, packed, strict=True):
            if before != now:
                self._driver.graph_update_kernel(
                    self._executable, node, kernel.kernel.handle, kernel.shape, kernel.parameters
                )
        self._packed = packed

    def release(self) -> None:
        """Destroy it; it is not running."""
        release_all(
            (
                partial(self._driver.graph_exec_destroy, self._executable),
                partial(self._driver.graph_destroy, self._graph),
            )
        )

    def _parameters(self) -> list[bytes]:
        return [bytes(kernel.parameters.buffer) for _, kernel in self._kernels]


def _add_nodes(device: CudaDevice, graph: int, recording: Recording) -> list[tuple[GraphNode, BoundKernel]]:
    """One chain of nodes; returns those of the kernels."""
    driver = device.driver
    last: Sequence[GraphNode] = ()
    if recording.upload is not None:
        to, host, nbytes = recording.upload
        last = (driver.graph_add_copy_to_device(graph, last, to, host, nbytes),)
    if recording.zero is not None:
        address, nbytes = recording.zero
        last = (driver.graph_add_memset8(graph, last, address, 0, nbytes),)
    last = (driver.graph_add_event_record(graph, last, recording.started),)
    kernels: list[tuple[GraphNode, BoundKernel]] = []
    for kernel in recording.kernels:
        last = (driver.graph_add_kernel(graph, last, kernel.kernel.handle, kernel.shape, kernel.parameters),)
        kernels.append((last[0], kernel))
    last = (driver.graph_add_event_record(graph, last, recording.ended),)
    for source, host, nbytes in recording.reads:
        last = (driver.graph_add_copy_to_host(graph, last, host, source, nbytes),)
    return kernels
