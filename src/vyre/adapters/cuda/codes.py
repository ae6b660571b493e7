"""Numbers of the driver API that the CUDA backends use: results, and attributes of a device.

They are part of the driver's ABI, so they can be defined here without its package.  A result that is not listed stays a
plain number.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Result(IntEnum):
    """The driver's results, ``CUresult``, without the prefix of their names."""

    SUCCESS = 0
    INVALID_VALUE = 1
    OUT_OF_MEMORY = 2
    NOT_INITIALIZED = 3
    DEINITIALIZED = 4
    STUB_LIBRARY = 34
    CALL_REQUIRES_NEWER_DRIVER = 36
    DEVICE_UNAVAILABLE = 46
    NO_DEVICE = 100
    INVALID_DEVICE = 101
    DEVICE_NOT_LICENSED = 102
    INVALID_IMAGE = 200
    INVALID_CONTEXT = 201
    NO_BINARY_FOR_GPU = 209
    ECC_UNCORRECTABLE = 214
    INVALID_PTX = 218
    NVLINK_UNCORRECTABLE = 220
    JIT_COMPILER_NOT_FOUND = 221
    UNSUPPORTED_PTX_VERSION = 222
    JIT_COMPILATION_DISABLED = 223
    CONTAINED = 226
    INSUFFICIENT_LOADER_VERSION = 227
    INVALID_SOURCE = 300
    INVALID_HANDLE = 400
    ILLEGAL_STATE = 401
    NOT_FOUND = 500
    NOT_READY = 600
    ILLEGAL_ADDRESS = 700
    LAUNCH_OUT_OF_RESOURCES = 701
    LAUNCH_TIMEOUT = 702
    CONTEXT_IS_DESTROYED = 709
    ASSERT = 710
    HARDWARE_STACK_ERROR = 714
    ILLEGAL_INSTRUCTION = 715
    MISALIGNED_ADDRESS = 716
    INVALID_ADDRESS_SPACE = 717
    INVALID_PC = 718
    LAUNCH_FAILED = 719
    COOPERATIVE_LAUNCH_TOO_LARGE = 720
    TENSOR_MEMORY_LEAK = 721
    NOT_PERMITTED = 800
    NOT_SUPPORTED = 801
    SYSTEM_NOT_READY = 802
    SYSTEM_DRIVER_MISMATCH = 803
    COMPAT_NOT_SUPPORTED_ON_DEVICE = 804
    MPS_CLIENT_TERMINATED = 810
    TIMEOUT = 909
    GRAPH_EXEC_UPDATE_FAILURE = 910
    INVALID_CLUSTER_SIZE = 912
    FUNCTION_NOT_LOADED = 913
    KEY_ROTATION = 916
    UNKNOWN = 999


STICKY: Final = frozenset(
    {
        Result.DEVICE_UNAVAILABLE,
        Result.ECC_UNCORRECTABLE,
        Result.NVLINK_UNCORRECTABLE,
        Result.CONTAINED,
        Result.ILLEGAL_ADDRESS,
        Result.LAUNCH_TIMEOUT,
        Result.CONTEXT_IS_DESTROYED,
        Result.ASSERT,
        Result.HARDWARE_STACK_ERROR,
        Result.ILLEGAL_INSTRUCTION,
        Result.MISALIGNED_ADDRESS,
        Result.INVALID_ADDRESS_SPACE,
        Result.INVALID_PC,
        Result.LAUNCH_FAILED,
        Result.TENSOR_MEMORY_LEAK,
        Result.MPS_CLIENT_TERMINATED,
        Result.KEY_ROTATION,
        Result.UNKNOWN,
    }
)
"""Results after which every call in the context fails, whichever call it is."""


DIAGNOSED: Final = 1 << 20
"""The result of ``KernelDiagnosis``, which no real driver returns: a kernel was stopped at a defect that hardware would
not notice, and the device goes on.
"""


def is_sticky(code: int) -> bool:
    """Returns whether a context is unusable after a call that returned ``code``."""
    return code in STICKY


def name_of(code: int) -> str:
    """Returns the driver's name of a result, or a text with its number if it is not listed."""
    if code == DIAGNOSED:
        return "DIAGNOSED"
    try:
        result = Result(code)
    except ValueError:
        return f"CUresult {code}"
    return "CUDA_SUCCESS" if result is Result.SUCCESS else f"CUDA_ERROR_{result.name}"


class Attribute(IntEnum):
    """Attributes of a device, ``CUdevice_attribute``, without the prefix.  Clocks are in kHz, sizes in bytes."""

    MAX_THREADS_PER_BLOCK = 1
    MAX_BLOCK_DIM_X = 2
    MAX_BLOCK_DIM_Y = 3
    MAX_BLOCK_DIM_Z = 4
    MAX_GRID_DIM_X = 5
    MAX_GRID_DIM_Y = 6
    MAX_GRID_DIM_Z = 7
    MAX_SHARED_MEMORY_PER_BLOCK = 8
    WARP_SIZE = 10
    MAX_REGISTERS_PER_BLOCK = 12
    MULTIPROCESSOR_COUNT = 16
    KERNEL_EXEC_TIMEOUT = 17
    INTEGRATED = 18
    MEMORY_CLOCK_RATE = 36
    GLOBAL_MEMORY_BUS_WIDTH = 37
    L2_CACHE_SIZE = 38
    MAX_THREADS_PER_MULTIPROCESSOR = 39
    COMPUTE_CAPABILITY_MAJOR = 75
    COMPUTE_CAPABILITY_MINOR = 76
    COOPERATIVE_LAUNCH = 95
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
    MAX_BLOCKS_PER_MULTIPROCESSOR = 106
    MEMORY_POOLS_SUPPORTED = 115
