"""The table of known families of devices.

It holds what is the same for every device of a family; what differs from card to card, such as the number of
multiprocessors, stays unknown.  The source is the appendix "Compute Capabilities" of NVIDIA's CUDA Programming Guide,
version 13: table 31 for registers and shared memory, table 32 for the unified data cache, of which shared memory is a
part, and table 33 for the types of the tensor cores.  For compute capability 12.0 they give 100 KB of shared memory in
128 KB of cache; the Blackwell Tuning Guide calls all these 128 KB shared memory.
"""

from __future__ import annotations

from typing import Final

from vyre.domain.device_signature import DeviceSignature

_HALVES: Final = ("f16", "bf16", "tf32")


def _family(
    generation: int, family: str, names: tuple[str, ...], *, shared_kb: int, l1_kb: int, types: tuple[str, ...]
) -> DeviceSignature:
    return DeviceSignature(
        id=f"{family}_{generation}",
        family=family,
        architecture_generation=generation,
        device_name_contains=names,
        regs_per_thread_max=255,
        shared_mem_per_sm_kb=shared_kb,
        l1_kb=l1_kb,
        tensor_core_supported=True,
        tensor_core_dtypes=types,
    )


SIGNATURES: Final = (
    _family(75, "turing", ("Quadro RTX", "RTX 20", "Tesla T4"), shared_kb=64, l1_kb=96, types=("f16",)),
    _family(89, "ada", (" Ada", "RTX 40", "NVIDIA L4"), shared_kb=100, l1_kb=128, types=_HALVES),
    _family(86, "ampere", ("RTX A", "RTX 30", "NVIDIA A40", "A10G"), shared_kb=100, l1_kb=128, types=_HALVES),
    _family(80, "ampere", ("A100", "NVIDIA A30"), shared_kb=164, l1_kb=192, types=(*_HALVES, "f64")),
    _family(90, "hopper", ("H100", "H200", "GH200"), shared_kb=228, l1_kb=256, types=(*_HALVES, "f64")),
    _family(100, "blackwell", ("B100", "B200", "GB200"), shared_kb=228, l1_kb=256, types=(*_HALVES, "f64")),
    _family(120, "blackwell", ("RTX 50", "Blackwell"), shared_kb=100, l1_kb=128, types=_HALVES),
)
"""The families.  The order matters: a name belongs to the first family that it matches, and some names of workstation
cards, such as "RTX 5000 Ada", contain those of later cards.
"""


def signature_of(device_name: str, table: tuple[DeviceSignature, ...] = SIGNATURES) -> DeviceSignature | None:
    """Returns the family to which a device belongs by its name; None for one that the table does not know."""
    return next((signature for signature in table if signature.matches_name(device_name)), None)
