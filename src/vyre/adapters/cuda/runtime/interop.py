"""Device memory shared with other libraries: ``__cuda_array_interface__`` and DLPack out, adoption in.

Another library would crash on addresses of an emulated device; there both exports raise ``BufferError``, unless a test
enables them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final, NamedTuple

from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.seam import CudaCallError, PointerFacts
from vyre.adapters.dlpack import borrow
from vyre.domain.errors import InvalidResource
from vyre.ports.resident_buffer import Described

CUDA_ARRAY_INTERFACE: Final = "__cuda_array_interface__"
_CAI_VERSION: Final = 3
_KDL_CUDA: Final = 2


# ---------------------------------------------------------------- out
def array_interface(address: int, shape: Sequence[int], typestr: str, *, readonly: bool) -> dict[str, Any]:
    """Returns the array interface, version 3; its stream is None, because no work is pending on the memory between
    calls.
    """
    return {
        "shape": tuple(shape),
        "typestr": typestr,
        "data": (address, readonly),
        "version": _CAI_VERSION,
        "strides": None,
        "stream": None,
    }


def dlpack_device(ordinal: int) -> tuple[int, int]:
    """Returns the device in DLPack's form: the type CUDA, and the ordinal."""
    return _KDL_CUDA, ordinal


def refuse_export(what: str) -> BufferError:
    """Returns the error of an export from an emulated device."""
    return BufferError(
        f"{what} of emulated device memory has no address that another library could use. "
        "Fix: download it, or pass export_fake=True in a test of your own exporter code"
    )


# ---------------------------------------------------------------- in
class ForeignArray(NamedTuple):
    """Contiguous device memory that another library describes.

    ``synchronise``: its producer may still be writing on some stream.  ``owner`` keeps the memory.
    """

    address: int
    nbytes: int
    readonly: bool
    synchronise: bool
    described: Described
    owner: object


def read_foreign(array: object) -> ForeignArray:
    """Returns the array that ``array`` exports by ``__cuda_array_interface__``, or else by DLPack.

    Raises ``InvalidResource`` if it is not a contiguous device array.
    """
    interface = getattr(array, CUDA_ARRAY_INTERFACE, None)
    if interface is None and hasattr(array, "__dlpack__") and not isinstance(array, type):
        lent = borrow(array, expected=_KDL_CUDA)
        described = Described(lent.shape, lent.typestr)
        return ForeignArray(lent.address, lent.nbytes, lent.readonly, True, described, lent)
    if not isinstance(interface, Mapping):
        raise InvalidResource(
            f"a {type(array).__name__} has no {CUDA_ARRAY_INTERFACE}, and no DLPack",
            fix="pass an array that lives on this GPU (CuPy, Numba, PyTorch, JAX), or upload host data.",
        )
    try:
        version = interface.get("version", _CAI_VERSION)
        shape = tuple(int(n) for n in interface["shape"])
        typestr = str(interface["typestr"])
        address, readonly = int(interface["data"][0]), bool(interface["data"][1])
        itemsize = int(typestr[2:])
        if type(version) is not int or not 0 <= version <= _CAI_VERSION:
            raise ValueError(f"version {version!r}")
        if any(n < 0 for n in shape) or itemsize < 1 or address < 0:
            raise ValueError(f"shape {shape}, type {typestr!r}, address {address}")
        stated = interface.get("strides")
        strides = None if stated is None else tuple(int(n) for n in stated)
        if strides is not None and len(strides) != len(shape):
            raise ValueError(f"{len(strides)} strides for {len(shape)} axes")
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise InvalidResource(
            f"the {CUDA_ARRAY_INTERFACE} of a {type(array).__name__} is malformed: {error!r}",
            fix="export shape, typestr and data as version 3 describes them.",
        ) from None
    if interface.get("mask") is not None:
        raise InvalidResource("a masked array cannot be adopted", fix="pass its data.")
    nbytes = itemsize
    for axis in reversed(range(len(shape))):
        if strides is not None and 0 not in shape and shape[axis] > 1 and strides[axis] != nbytes:
            raise InvalidResource("the array is not contiguous", fix="adopt a contiguous copy.")
        nbytes *= shape[axis]
    described = Described(shape, typestr)
    return ForeignArray(address, nbytes, readonly, interface.get("stream") is not None, described, array)


def check_pointer(foreign: ForeignArray, pointer_facts: Callable[[int], PointerFacts], ordinal: int) -> None:
    """Raises ``InvalidResource`` unless the memory is where it is said to be: on this device, and all of it."""
    size = foreign.nbytes // max(1, prod(foreign.described.shape))
    if foreign.address % size:
        raise InvalidResource(
            f"the array has elements of {size} bytes at the address {foreign.address:#x}, which is no multiple of that",
            fix="adopt an aligned copy.",
        )
    try:
        facts = pointer_facts(foreign.address)
    except CudaCallError as error:
        if error.code != Result.INVALID_VALUE:
            raise
        raise InvalidResource(
            f"the array points to {foreign.address:#x}, where the driver knows no memory of a device",
            fix="pass an array whose memory has not been freed and lies on this GPU; upload memory of the host.",
        ) from error
    if facts.device != ordinal:
        raise InvalidResource(
            f"the array lives on device {facts.device}, this backend runs on {ordinal}",
            fix="copy it to this device, or open a backend on that one.",
        )
    if facts.managed:
        raise InvalidResource("the array is in managed memory", fix="adopt a copy in device memory.")
    if foreign.address + foreign.nbytes > facts.base + facts.nbytes:
        raise InvalidResource(
            f"the array claims {foreign.nbytes} bytes, its allocation has "
            f"{facts.base + facts.nbytes - foreign.address}",
            fix="export the size the memory has.",
        )
