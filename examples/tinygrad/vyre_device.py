"""vyre as a device of tinygrad: with ``DEV=VYRE``, tinygrad runs on the backend that ``VYRE_BACKEND`` names.

    import vyre_device

    vyre_device.register()
    from tinygrad import Tensor

A device of tinygrad has four parts.  Here memory is resident arrays of a session, a kernel is a program, a launch is
bound to its memory once, and the graph of a jitted function is a sequence of the session.
"""

from __future__ import annotations

import sys
from functools import lru_cache, partial
from time import perf_counter
from typing import Any, Final

from lowering import NATIVE, OF_F64, STORED, Lowering
from tinygrad.device import BufferSpec, Compiled, Compiler, CompilerPair, CompilerSet, LRUAllocator
from tinygrad.dtype import DType
from tinygrad.engine.jit import GraphRunner
from tinygrad.renderer import Renderer
from tinygrad.uop.ops import UOp

import vyre
from tinygrad import Device

KEPT: Final = 256
"""The launches of a kernel, and the sequences of a graph, that stay bound to the memory with which they last ran."""
Size = tuple[int, ...]
ONE: Final[Size] = (1, 1, 1)


class VyreRenderer(Renderer):
    """Makes programs, in vyre's text form, which ``DEBUG=4`` prints."""

    device = "VYRE"
    global_max = (2**31 - 1, 65535, 65535)
    local_max = (1024, 1024, 64)
    shared_max = 48 * 1024
    code_for_op = dict.fromkeys(NATIVE)
    extra_matcher = OF_F64

    def render(self, uops: list[UOp]) -> str:
        info = uops[-1].arg
        return Lowering("kernel" if info is None else info.function_name, uops).program().to_text()


class VyreCompiler(Compiler):
    """Makes the wire form of programs: vyre compiles them itself, and keeps what it compiled."""

    def compile(self, src: str) -> bytes:
        return vyre.Program.from_text(src).to_wire()


class VyreProgram:
    """A kernel that can be launched."""

    def __init__(self, device: VyreDevice, name: str, lib: bytes) -> None:
        self.session, self.program = device.session, vyre.Program.from_wire(lib)
        self.bound = lru_cache(KEPT)(self.bind)

    def arguments(self, memory: tuple[Any, ...], values: Size) -> dict[str, Any]:
        """Returns what a launch is given, by the names of the program's buffers."""
        return dict(zip((buffer.name for buffer in self.program.abi_buffers), (*memory, *values), strict=True))

    def grid(self, global_size: Size, local_size: Size | None) -> Size:
        """Returns the number of workgroups; where tinygrad tries out workgroups, they are not the program's."""
        sizes = zip(global_size, local_size or ONE, self.program.workgroup_size, strict=True)
        return tuple(int(groups * lanes) // own for groups, lanes, own in sizes)

    def bind(self, memory: tuple[Any, ...], values: Size, *sizes: Any) -> Any:
        return self.session.bind_resident(self.program, self.arguments(memory, values), grid=self.grid(*sizes))

    def __call__(
        self, *memory: Any, global_size: Size = ONE, local_size: Size | None = None, vals: Size = (), wait: bool = False
    ) -> float | None:
        """Launches and waits.  Returns the seconds that it took if ``wait`` asks for them."""
        begin = perf_counter()
        self.bound(memory, vals, global_size, local_size)()
        return perf_counter() - begin if wait else None


class VyreAllocator(LRUAllocator["VyreDevice"]):
    """Memory as resident arrays of bytes, and parts of it as their views."""

    def _alloc(self, size: int, options: BufferSpec) -> Any:
        try:
            return self.dev.session.resident(size)
        except vyre.DeviceOutOfMemory as full:
            raise MemoryError(str(full)) from full  # by which tinygrad gives up the memory that it keeps

    def _free(self, memory: Any, options: BufferSpec) -> None:
        memory.close()  # also if a launch is still bound to it, which is never run again

    def _offset(self, memory: Any, size: int, offset: int) -> Any:
        return memory.view(offset, size)

    def _copyin(self, memory: Any, data: memoryview) -> None:
        memory.upload(data)

    def _copyout(self, data: memoryview, memory: Any) -> None:
        data[:] = memory.download().data

    def _transfer(self, to: Any, memory: Any, *_: Any, **devices: VyreDevice) -> None:
        to.upload(memory.download())  # from session to session, which each of tinygrad's devices has one of


class VyreGraph(GraphRunner):
    """The kernels of a jitted function: one sequence for each list of input buffers that it is called with."""

    def __init__(self, jit_cache: list[Any], input_buffers: list[Any], var_vals: dict[str, int]) -> None:
        super().__init__(jit_cache, input_buffers, var_vals)
        self.buffers = [list(item.bufs) for item in jit_cache]  # tinygrad takes the inputs out of its own lists
        self.bound = lru_cache(KEPT)(self.bind)

    def bind(self, inputs: tuple[Any, ...], values: tuple[tuple[str, int], ...]) -> Any:
        steps = []
        for number, (item, buffers) in enumerate(zip(self.jit_cache, self.buffers, strict=True)):
            kernel, spec, known = item.prg._prg, item.prg.p, dict(values) | item.fixedvars
            given = {place: inputs[which] for (at, place), which in self.input_replace.items() if at == number}
            memory = tuple(given[place] if place in given else buffers[place]._buf for place in spec.globals)
            arguments = kernel.arguments(memory, tuple(known[variable.expr] for variable in spec.vars))
            steps.append(vyre.Step(kernel.program, arguments, grid=kernel.grid(*spec.launch_dims(known))))
        return kernel.session.sequence(steps)

    def __call__(self, input_buffers: list[Any], var_vals: dict[str, int], wait: bool = False) -> float | None:
        begin, values = perf_counter(), tuple((name, var_vals[name]) for name in self.vars)
        self.bound(tuple(buffer._buf for buffer in input_buffers), values)()
        return perf_counter() - begin if wait else None


class VyreDevice(Compiled):
    """The device, which tinygrad makes when it is first used: a session and the four parts."""

    def __init__(self, device: str) -> None:
        self.session = vyre.open()
        compilers = CompilerSet([CompilerPair(VyreRenderer, VyreCompiler)])
        super().__init__(device, VyreAllocator(self), compilers, partial(VyreProgram, self), VyreGraph)

    def finalize(self) -> None:
        self.session.close()


_theirs = sys.modules["tinygrad.device"].is_dtype_supported


def is_dtype_supported(dtype: DType, device: str | None = None) -> bool:
    """Returns whether a device has a type.  tinygrad's own function knows only the devices that come with it."""
    name = Device.DEFAULT if device is None else device
    return dtype in STORED if name.split(":")[0] == "VYRE" else _theirs(dtype, device)


def register() -> None:
    """Makes the device known to tinygrad as ``VYRE``; it is called before anything asks for ``Device.DEFAULT``."""
    sys.modules.setdefault("tinygrad.runtime.ops_vyre", sys.modules[__name__])
    Device._devices = list(dict.fromkeys([*Device._devices, "VYRE"]))
    for name, module in list(sys.modules.items()):
        if name.startswith("tinygrad.") and hasattr(module, "is_dtype_supported"):
            module.is_dtype_supported = is_dtype_supported
