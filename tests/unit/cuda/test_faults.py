"""Driver codes as typed errors."""

from __future__ import annotations

import pytest

from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.runtime.faults import typed_error
from vyre.adapters.cuda.seam import CudaCallError
from vyre.domain.errors import (
    BackendError,
    BackendUnavailable,
    DeviceLost,
    DeviceOutOfMemory,
    DispatchFailed,
    KernelCompileFailed,
    UnsupportedFeature,
)

EXPECTED: dict[int, type[BackendError]] = {
    Result.INVALID_VALUE: DispatchFailed,
    Result.INVALID_CONTEXT: DispatchFailed,
    Result.INVALID_HANDLE: DispatchFailed,
    Result.LAUNCH_OUT_OF_RESOURCES: DispatchFailed,
    Result.COOPERATIVE_LAUNCH_TOO_LARGE: DispatchFailed,
    Result.OUT_OF_MEMORY: DeviceOutOfMemory,
    Result.INVALID_PTX: KernelCompileFailed,
    Result.NO_BINARY_FOR_GPU: KernelCompileFailed,
    Result.UNSUPPORTED_PTX_VERSION: KernelCompileFailed,
    Result.NO_DEVICE: BackendUnavailable,
    Result.SYSTEM_DRIVER_MISMATCH: BackendUnavailable,
    Result.NOT_SUPPORTED: UnsupportedFeature,
    Result.ILLEGAL_ADDRESS: DeviceLost,
    Result.LAUNCH_TIMEOUT: DeviceLost,
    Result.MISALIGNED_ADDRESS: DeviceLost,
    Result.ECC_UNCORRECTABLE: DeviceLost,
    12345: DispatchFailed,
}


def failure(code: int, log: str = "") -> CudaCallError:
    return CudaCallError(code, "CUDA_ERROR_NAME", "cuMemAllocAsync", {"nbytes": 4096, "stream": 7}, log)


@pytest.mark.parametrize(("code", "expected"), EXPECTED.items())
def test_every_code_has_its_error(code: int, expected: type[BackendError]) -> None:
    assert type(typed_error(failure(code), "cuda")) is expected


@pytest.mark.parametrize("code", [c for c, e in EXPECTED.items() if e is not DeviceOutOfMemory])
def test_a_message_names_the_call_its_arguments_the_log_and_a_fix(code: int) -> None:
    text = str(typed_error(failure(code, "the log"), "cuda-machine"))
    parts = ["the log", "Fix: ", "cuda-machine"]
    if EXPECTED[code] is not KernelCompileFailed:
        parts += ["cuMemAllocAsync(nbytes=4096, stream=7)", "CUDA_ERROR_NAME", str(code)]
    assert [part for part in parts if part not in text] == []


def test_without_a_log_a_compile_error_names_the_call() -> None:
    error = typed_error(failure(Result.INVALID_PTX), "cuda")
    assert isinstance(error, KernelCompileFailed)
    assert "cuMemAllocAsync" in error.compiler_log


def test_out_of_memory_has_the_figures() -> None:
    error = typed_error(failure(Result.OUT_OF_MEMORY), "cuda", available=100)
    assert isinstance(error, DeviceOutOfMemory)
    assert (error.requested, error.available) == (4096, 100)


def test_the_native_code_is_kept() -> None:
    error = typed_error(failure(Result.INVALID_HANDLE), "cuda")
    assert isinstance(error, DispatchFailed)
    assert error.native_code == 400
