"""Loops in graphs: the kernel that ends a round, and whether the driver has such loops."""

from __future__ import annotations

from functools import partial
from typing import Final

from vyre.adapters.cuda.codes import is_sticky
from vyre.adapters.cuda.runtime.device import CudaDevice, DeviceMember, release_all
from vyre.adapters.cuda.runtime.graphs import Chain
from vyre.adapters.cuda.seam import (
    Condition,
    CudaCallError,
    DeviceAddress,
    Kernel,
    LaunchShape,
    Library,
    ParameterBlock,
    ParameterPlace,
)

ROUNDS_BYTES: Final = 8
"""Bytes of the record of a loop: the rounds run, and the flag that the last of them left, both u32."""
_ENTRY: Final = "vyre_end_round"
_SLOTS: Final = (
    ParameterPlace(0, 8, "Q"),
    ParameterPlace(8, 8, "Q"),
    ParameterPlace(16, 8, "Q"),
    ParameterPlace(24, 4, "I"),
)
_ONE_LANE: Final = LaunchShape((1, 1, 1), (1, 1, 1))
END_ROUND: Final = f"""\
.version 8.3
.target sm_75
.address_size 64

.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);

// Counts a round and notes the flag that it left.  Ends the loop where the flag is 0 and at the limit, else sets the
// flag to 0 and goes on.
.visible .entry {_ENTRY}(
    .param .u64 p_condition, .param .u64 p_record, .param .u64 p_flag, .param .u32 p_limit
)
{{
    .reg .pred %p<3>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd0, [p_condition];
    ld.param.u64 %rd1, [p_record];
    ld.param.u64 %rd2, [p_flag];
    ld.param.u32 %r0, [p_limit];
    ld.global.u32 %r1, [%rd1];
    add.u32 %r1, %r1, 1;
    ld.global.u32 %r2, [%rd2];
    st.global.u32 [%rd1], %r1;
    st.global.u32 [%rd1+4], %r2;
    setp.ne.u32 %p0, %r2, 0;
    setp.lt.u32 %p1, %r1, %r0;
    and.pred %p0, %p0, %p1;
    selp.u32 %r3, 1, 0, %p0;
    mov.u32 %r4, 0;
    @%p0 st.global.u32 [%rd2], %r4;
    {{
        .param .b64 a;
        .param .b32 b;
        st.param.b64 [a], %rd0;
        st.param.b32 [b], %r3;
        call cudaGraphSetConditional, (a, b);
    }}
    ret;
}}
"""


class Conditions(DeviceMember):
    """The kernel that ends a round of a loop in a graph.  Call its methods inside ``device.calls``."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._library: Library | None = None
        self._kernel: Kernel | None = None
        self._refused = device.options.graph_after is None
        device.add(self)

    @property
    def available(self) -> bool:
        """Whether the driver has loops in graphs.  The first look makes one, and launches nothing.

        Raises ``CudaCallError`` if the device is lost.
        """
        if self._kernel is None and not self._refused:
            try:
                self._probe()
            except CudaCallError as error:
                if is_sticky(error.code):
                    raise
                self.refuse()
        return not self._refused

    def refuse(self) -> None:
        """Records that the driver has refused a loop: there is none from now on."""
        self._refused = True

    def end_round(
        self, chain: Chain, condition: Condition, record: DeviceAddress, flag: DeviceAddress, limit: int
    ) -> None:
        """Adds the launch that ends a round."""
        assert self._kernel is not None
        parameters = ParameterBlock(_SLOTS)
        parameters.pack(condition, record, flag, limit)
        chain.launch(self._kernel, _ONE_LANE, parameters)

    def _probe(self) -> None:
        driver = self._device.driver
        self._library = driver.library_load(END_ROUND.encode() + b"\0", self._device.options.jit).library
        self._kernel = driver.library_kernel(self._library, _ENTRY)
        graph = driver.graph_create()
        undo = [partial(driver.graph_destroy, graph)]
        try:
            Chain(driver, graph).repeat(lambda body, condition: self.end_round(body, condition, 0, 0, 0))
            undo.insert(0, partial(driver.graph_exec_destroy, driver.graph_instantiate(graph)))
        except CudaCallError as error:
            self._device.roll_back(error, undo)
            raise
        release_all(undo)

    # ---- as a member of the device
    def release(self) -> None:
        """Unloads the kernel."""
        library = self._drop()
        if library is not None:
            self._device.driver.library_unload(library)

    def forget(self) -> None:
        """Drops the kernel without a driver call; it is unloaded in a new context."""
        library = self._drop()
        if library is not None:
            self._device.orphan(partial(self._device.driver.library_unload, library))

    def _drop(self) -> Library | None:
        library, self._library, self._kernel = self._library, None, None
        return library
