"""Other ways from Python to a kernel: the same work, launched as each library's documentation says.

Every function raises ``ImportError`` where its library is missing.  Those that load PTX get the same hand-written text;
Numba and Triton compile a kernel of their own.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

ENTRY: Final = "saxpy"
PTX: Final = """.version 6.3
.target sm_75
.address_size 64
.visible .entry saxpy(.param .u64 px, .param .u64 py, .param .f32 pa, .param .u32 pn)
.reqntid 256, 1, 1
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .f32 %f<5>;
    .reg .b64 %rd<6>;
    ld.param.u32 %r0, [pn];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r1, 256, %r2;
    setp.ge.u32 %p0, %r3, %r0;
    @%p0 bra $end;
    ld.param.u64 %rd0, [px];
    ld.param.u64 %rd1, [py];
    ld.param.f32 %f0, [pa];
    cvta.to.global.u64 %rd2, %rd0;
    cvta.to.global.u64 %rd3, %rd1;
    mad.wide.u32 %rd4, %r3, 4, %rd2;
    mad.wide.u32 %rd5, %r3, 4, %rd3;
    ld.global.f32 %f1, [%rd4];
    ld.global.f32 %f2, [%rd5];
    mul.rn.f32 %f3, %f0, %f1;
    add.rn.f32 %f4, %f3, %f2;
    st.global.f32 [%rd5], %f4;
$end:
    ret;
}
"""
_BLOCK: Final = 256


@dataclass(frozen=True, slots=True)
class Sides:
    """``launches``: by kind, each enqueues one; ``waited``: enqueues one and waits for it, with nothing around it.

    ``result``: y, after everything.  ``keep``: memory that must stay where it is.
    """

    launches: dict[str, Callable[[], object]]
    synchronize: Callable[[], object]
    result: Callable[[], Any]
    version: str
    waited: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    keep: object = None


def bindings(elements: int) -> Sides:
    """The driver API itself, without anything above it."""
    from cuda.bindings import driver

    checked = _checked
    checked(driver.cuInit(0))
    device = checked(driver.cuDeviceGet(0))
    checked(driver.cuCtxSetCurrent(checked(driver.cuDevicePrimaryCtxRetain(device))))
    stream = checked(driver.cuStreamCreateWithPriority(driver.CUstream_flags.CU_STREAM_NON_BLOCKING, 0))
    library = checked(driver.cuLibraryLoadData(PTX.encode() + b"\0", None, None, 0, None, None, 0))
    kernel = checked(driver.cuLibraryGetKernel(library, ENTRY.encode()))
    x, y = checked(driver.cuMemAlloc(4 * elements)), checked(driver.cuMemAlloc(4 * elements))
    ones, out = np.ones(elements, np.float32), np.zeros(elements, np.float32)
    checked(driver.cuMemcpyHtoDAsync(x, ones.ctypes.data, ones.nbytes, stream))
    checked(driver.cuMemcpyHtoDAsync(y, out.ctypes.data, out.nbytes, stream))
    checked(driver.cuStreamSynchronize(stream))
    values = (ctypes.c_uint64(int(x)), ctypes.c_uint64(int(y)), ctypes.c_float(1), ctypes.c_uint32(elements))
    packed = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
    address, grid = ctypes.addressof(packed), -(-elements // _BLOCK)
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = _BLOCK, 1, 1
    config.hStream = stream
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_uint32)
    launch, launch_ex = driver.cuLaunchKernel, driver.cuLaunchKernelEx
    synchronize, query, success = driver.cuStreamSynchronize, driver.cuStreamQuery, driver.CUresult.CUDA_SUCCESS

    def tuples() -> object:
        given = ((int(x), int(y), 1.0, elements), types)
        return launch(kernel, grid, 1, 1, _BLOCK, 1, 1, 0, stream, given, 0)

    def synchronized() -> None:
        launch_ex(config, kernel, address, 0)
        synchronize(stream)

    def polled() -> None:
        launch_ex(config, kernel, address, 0)
        while query(stream)[0] is not success:
            pass

    def result() -> Any:
        checked(driver.cuMemcpyDtoHAsync(out.ctypes.data, y, out.nbytes, stream))
        checked(synchronize(stream))
        return out

    return Sides(
        launches={
            "cuLaunchKernel, packed before": partial(launch, kernel, grid, 1, 1, _BLOCK, 1, 1, 0, stream, address, 0),
            "cuLaunchKernelEx, packed before": partial(launch_ex, config, kernel, address, 0),
            "cuLaunchKernel, tuples": tuples,
        },
        synchronize=lambda: checked(synchronize(stream)),
        result=result,
        version=_version("cuda-bindings"),
        waited={"bare, cuStreamSynchronize": synchronized, "bare, cuStreamQuery": polled},
        keep=(values, packed),
    )


def cuda_core(elements: int) -> Sides:
    try:
        from cuda import core
    except ImportError:
        from cuda.core import experimental as core

    device = core.Device()
    device.set_current()
    stream = device.create_stream()
    kernel = core.ObjectCode.from_ptx(PTX.encode()).get_kernel(ENTRY)
    x, y = (device.allocate(4 * elements, stream=stream) for _ in range(2))
    driver = bindings_driver()
    ones, out = np.ones(elements, np.float32), np.zeros(elements, np.float32)
    stream.sync()
    _checked(driver.cuMemcpyHtoD(int(x.handle), ones.ctypes.data, ones.nbytes))
    _checked(driver.cuMemcpyHtoD(int(y.handle), out.ctypes.data, out.nbytes))
    config = core.LaunchConfig(grid=-(-elements // _BLOCK), block=_BLOCK)
    a, n, launch = np.float32(1), np.uint32(elements), core.launch

    def result() -> Any:
        _checked(driver.cuMemcpyDtoH(out.ctypes.data, int(y.handle), out.nbytes))
        return out

    return Sides(
        {"launch": lambda: launch(stream, config, kernel, x, y, a, n)}, stream.sync, result, _version("cuda-core")
    )


def cupy(elements: int) -> Sides:
    cp: Any = import_module("cupy")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saxpy.ptx"
        path.write_text(PTX)
        kernel = cp.RawModule(path=str(path)).get_function(ENTRY)
        kernel.attributes  # noqa: B018  # loads the module while the file is there
    x, y = cp.ones(elements, cp.float32), cp.zeros(elements, cp.float32)
    grid, block, arguments = (-(-elements // _BLOCK),), (_BLOCK,), (x, y, np.float32(1), np.uint32(elements))
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    stream.use()
    return Sides(
        {"RawKernel call": lambda: kernel(grid, block, arguments)},
        stream.synchronize,
        lambda: cp.asnumpy(y),
        cp.__version__,
    )


def numba(elements: int) -> Sides:
    cuda: Any = import_module("numba.cuda")
    kernel: Any = import_module("gpu_runs.bench.numba_kernel").saxpy
    x, y = cuda.to_device(np.ones(elements, np.float32)), cuda.to_device(np.zeros(elements, np.float32))
    stream = cuda.stream()
    configured = kernel[-(-elements // _BLOCK), _BLOCK, stream]
    a, n = np.float32(1), np.uint32(elements)
    return Sides(
        {"configured call": lambda: configured(x, y, a, n)},
        stream.synchronize,
        lambda: y.copy_to_host(),
        _version("numba-cuda") if _version("numba-cuda") != "unknown" else _version("numba"),
    )


def triton(elements: int) -> Sides:
    torch: Any = import_module("torch")
    kernel: Any = import_module("gpu_runs.bench.triton_kernel").saxpy
    x = torch.ones(elements, device="cuda", dtype=torch.float32)
    y = torch.zeros(elements, device="cuda", dtype=torch.float32)
    grid = (-(-elements // _BLOCK),)
    return Sides(
        {"call": lambda: kernel[grid](x, y, 1.0, elements, BLOCK=_BLOCK)},
        torch.cuda.synchronize,
        lambda: y.cpu().numpy(),
        _version("triton"),
    )


def bindings_driver() -> Any:
    from cuda.bindings import driver

    return driver


def _checked(answer: tuple[Any, ...]) -> Any:
    if int(answer[0]) != 0:
        raise RuntimeError(f"the driver answers {answer[0]}")
    return answer[1] if len(answer) == 2 else answer[1:]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


RIVALS: Final[dict[str, Callable[[int], Sides]]] = {
    "cuda.bindings": bindings,
    "cuda.core": cuda_core,
    "CuPy": cupy,
    "numba-cuda": numba,
    "Triton": triton,
}
