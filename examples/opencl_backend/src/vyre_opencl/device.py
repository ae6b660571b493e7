"""The OpenCL device: found without opening it, and opened once for each backend."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from vyre import BackendUnavailable, DeviceOutOfMemory, DispatchFailed, KernelCompileFailed
from vyre.ir import ScalarType
from vyre.lowering import LaunchLimits, TimingQuality
from vyre.ports import BackendId, DeviceProfile
from vyre_opencl.writer import NAME

ID: Final = BackendId(NAME)
OPTIONS: Final = ("-cl-std=CL1.2", "-w")
"""The options of every compilation; contraction is off by a pragma in ``prelude.cl``.  Warnings are off."""
POCL: Final = "Portable Computing Language"
INTEL: Final = "Intel(R) OpenCL"
CPU_LANES: Final = 1024
"""The lanes of a workgroup on a processor: PoCL keeps what lanes hold across barriers on the stack of a thread."""
CPU_PRIVATE_NBYTES: Final = 4 << 20
"""The bytes of private memory of a workgroup on a processor, half of a usual stack: more would end the process."""
_EXTENSIONS: Final = ("cl_khr_fp64", "cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics")
_MODES: Final = ("DENORM", "INF_NAN", "ROUND_TO_NEAREST")


class Rounding(NamedTuple):
    """A mode of single precision that a device may lack.

    ``ask`` is the option of the compiler that asks for it, and ``without`` the one that has ``prelude.cl`` compute the
    same in f64.
    """

    mode: str
    ask: str | None
    without: str


ROUNDINGS: Final = (
    Rounding("CORRECTLY_ROUNDED_DIVIDE_SQRT", "-cl-fp32-correctly-rounded-divide-sqrt", "-DVY_DIVIDE_IN_F64"),
    Rounding("FMA", None, "-DVY_FMA_IN_F64"),
)

_INSTALL: Final = "install a driver of a device with double precision and 64-bit atomics, such as PoCL."
_COMPILING: Final = threading.Lock()
"""Held while PyOpenCL compiles, which warns of every message of a compiler: filters of warnings are of the process."""


@cache
def cl() -> Any:
    """Returns the module ``pyopencl``; raises ``BackendUnavailable`` where it cannot be imported.

    Where the user has chosen no folder, PoCL keeps the code of kernels in one of this backend.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vyre-opencl" / "pocl"
    os.environ.setdefault("POCL_CACHE_DIR", str(folder))
    try:
        module = import_module("pyopencl")
    except ImportError as error:
        raise BackendUnavailable(f"PyOpenCL is missing ({error})", fix="install `pyopencl`.") from error
    if os.environ["POCL_CACHE_DIR"] == str(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return module


def find_device() -> Any:
    """Returns the first device that gives the reference's bytes, GPUs before processors.

    The variable ``VYRE_OPENCL_DEVICE`` of the environment leaves the devices whose name, or whose platform's name,
    contains its text.  Raises ``BackendUnavailable`` with the reasons.
    """
    module = cl()
    try:
        devices = [device for platform in module.get_platforms() for device in platform.get_devices()]
    except module.Error as error:
        raise BackendUnavailable(f"OpenCL has no platform ({error})", fix=_INSTALL) from error
    wanted = os.environ.get("VYRE_OPENCL_DEVICE", "")
    reasons = []
    for device in sorted(devices, key=is_cpu):
        name = f"{device.name.strip()} of {device.platform.name.strip()}"
        lacking = _lacking(module, device)
        if wanted.lower() not in name.lower():
            reasons.append(f"{name} is not the {wanted!r} of VYRE_OPENCL_DEVICE")
        elif lacking:
            reasons.append(f"{name} lacks {', '.join(lacking)}")
        else:
            return device
    raise BackendUnavailable(
        f"no OpenCL device can give the reference's bytes: {'; '.join(reasons) or 'there is none'}", fix=_INSTALL
    )


def _lacking(module: Any, device: Any) -> list[str]:
    """Returns what a device lacks: extensions, modes of single precision, a compiler that works."""
    wanted = module.device_fp_config
    has = device.extensions.split()
    lacking = [name for name in _EXTENSIONS if name not in has]
    lacking += [name for name in _MODES if not device.single_fp_config & getattr(wanted, name)]
    if device.platform.name.strip() == POCL and device.version.strip().endswith("x86_64-unknown-linux-gnu-generic"):
        lacking.append("a compiler that knows this processor")  # its LLVM refuses `generic`
    return lacking


def _is_miscompiled(device: Any, *, has_private_arrays: bool) -> bool:
    """Returns whether the driver is known to compile such kernels wrongly when it optimizes them.

    PoCL 3.1 made loops over lanes with private arrays endless.  Intel's runtime for processors, in its versions of 2025
    and 2026, ended the process at an ``if`` around a load and a store.
    """
    platform = device.platform.name.strip()
    return (platform == POCL and has_private_arrays) or (platform == INTEL and is_cpu(device))


def rounding_options(device: Any) -> list[str]:
    """Returns the options with which f32 quotients, roots and ``fma`` are rounded correctly on a device."""
    modes = cl().device_fp_config
    options = (r.ask if device.single_fp_config & getattr(modes, r.mode) else r.without for r in ROUNDINGS)
    return [option for option in options if option is not None]


def is_cpu(device: Any) -> bool:
    """Returns whether a device is a processor."""
    return bool(device.type & cl().device_type.CPU)


def profile_of(device: Any) -> DeviceProfile:
    """Returns the profile of a device, without opening it."""
    lanes = device.max_work_group_size
    if is_cpu(device):
        lanes = min(lanes, CPU_LANES)
    x, y, z = (min(size, lanes) for size in device.max_work_item_sizes[:3])
    return DeviceProfile(
        backend=ID,
        supports_specialization_constants=True,
        element_types=frozenset(ScalarType),
        supports_trap_propagation=True,
        supports_speculation=True,
        allows_host_grid_sync_split=True,
        has_shared_memory=True,
        timing_quality=TimingQuality.DEVICE_TIMESTAMPS,
        supports_device_timestamps=True,
        max_native_int_width=64,
        max_workgroup_size=(x, y, z),
        max_invocations_per_workgroup=lanes,
        max_shared_memory_bytes=device.local_mem_size,
        max_storage_buffer_bytes=device.max_mem_alloc_size,
        compute_units=device.max_compute_units,
    )


def limits_of(profile: DeviceProfile) -> LaunchLimits:
    """Returns the limits of a launch."""
    return LaunchLimits(NAME, profile.max_invocations_per_workgroup, profile.max_workgroup_size)


def facts() -> Mapping[str, str]:
    """Returns what ``vyre doctor`` and certificates say about the device."""
    device = find_device()
    return {
        "device": device.name.strip(),
        "platform": f"{device.platform.name.strip()} {device.platform.version.strip()}",
        "driver": device.driver_version.strip(),
        "PyOpenCL": cl().VERSION_TEXT,
    }


class Device:
    """A context and a queue on the device, opened by the first call that needs them; a ``DeviceLifecycle``."""

    def __init__(self) -> None:
        self._lock: Final = threading.RLock()
        self._epoch = 0
        self._open: tuple[Any, Any] | None = None
        self._closed = False

    # ---- DeviceLifecycle
    @property
    def epoch(self) -> int:
        """Returns the number of recoveries."""
        return self._epoch

    def prepare(self) -> None:
        """Opens the device."""
        self.opened()

    def flush(self) -> None:
        """Waits for everything that was submitted."""
        if self._open is not None:
            with translated():
                self._open[1].finish()

    def close(self) -> None:
        """Lets go of the context; what was compiled and allocated in it is refused from now on."""
        with self._lock:
            self._closed, self._open = True, None

    def device_lost(self) -> bool:
        """Returns False: OpenCL 1.2 does not say that a device is lost."""
        return False

    def recover(self) -> None:
        """Opens a new context in a new epoch."""
        with self._lock:
            self._closed, self._open = False, None
            self._epoch += 1
            self.opened()

    # ---- the device
    def opened(self) -> tuple[Any, Any]:
        """Returns the context and the queue."""
        with self._lock:
            if self._closed:
                raise DispatchFailed("the OpenCL backend is closed", fix="open another session.")
            if self._open is None:
                module = cl()
                with translated():
                    context = module.Context([find_device()])
                    self._open = context, self._queue(context)
            return self._open

    def renew_queue(self, queue: Any) -> None:
        """Replaces a queue whose last kernel has not ended, so that later work does not wait for it."""
        with self._lock:
            if self._open is not None and self._open[1] is queue:
                self._open = self._open[0], self._queue(self._open[0])

    def _queue(self, context: Any) -> Any:
        module = cl()
        return module.CommandQueue(context, properties=module.command_queue_properties.PROFILING_ENABLE)

    def allocate(self, nbytes: int) -> Any:
        """Returns device memory of at least this size, with undefined content."""
        module = cl()
        context, queue = self.opened()
        most = queue.device.max_mem_alloc_size
        if nbytes > most:
            raise DeviceOutOfMemory(requested=nbytes, available=most)
        with translated(nbytes):
            return module.Buffer(context, module.mem_flags.READ_WRITE, max(1, nbytes))

    def kernel(self, source: str, entry: str, *, has_private_arrays: bool) -> Any:
        """Returns a newly compiled kernel."""
        module = cl()
        context, queue = self.opened()
        options = [*OPTIONS, *rounding_options(queue.device)]
        if _is_miscompiled(queue.device, has_private_arrays=has_private_arrays):
            options.append("-cl-opt-disable")
        try:
            with _COMPILING, warnings.catch_warnings():
                warnings.simplefilter("ignore", module.CompilerWarning)
                return module.Kernel(module.Program(context, source).build(options=options, cache_dir=False), entry)
        except module.RuntimeError as error:
            raise KernelCompileFailed(backend=NAME, compiler_log=str(error)) from error


@contextmanager
def translated(nbytes: int = 0) -> Iterator[None]:
    """Raises errors of OpenCL as those of vyre; ``nbytes`` is what is being allocated."""
    module = cl()
    try:
        yield
    except module.MemoryError as error:
        raise DeviceOutOfMemory(requested=nbytes) from error
    except module.Error as error:
        raise DispatchFailed(f"OpenCL refused a command: {error}") from error
