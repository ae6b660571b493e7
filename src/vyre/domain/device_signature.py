"""Device signatures: known facts about devices that a driver does not report, with the source of each.

A signature matches by name.  It fills facts of a profile that are unknown and never
overrides a fact that was probed (vyre-driver, the Rust system from which vyre's formats come, does override them and
describes every card of a generation as its largest).
"""

from __future__ import annotations

from dataclasses import replace

from vyre.domain.device import DeviceProfile
from vyre.domain.errors import InvalidField
from vyre.domain.record import U32, U32_MAX, record


@record
class DeviceSignature:
    """Facts about one family of devices.

    Sizes ending in ``_kb`` are KiB, ``mem_bw_gbps`` is in 10^9 bytes per second.  0 and empty mean unknown, except for
    the warp, vector, tile and bank fields.  ``sources``: the name of each fact that was stated, and where it is from.
    """

    id: str
    family: str
    architecture_generation: U32 | None = None
    device_name_contains: tuple[str, ...] = ()
    max_sm: U32 = 0
    warp_size: U32 = 32
    regs_per_thread_max: U32 = 0
    shared_mem_per_sm_kb: U32 = 0
    l1_kb: U32 = 0
    l2_kb: U32 = 0
    mem_bw_gbps: U32 = 0
    tensor_core_supported: bool = False
    tensor_core_dtypes: tuple[str, ...] = ()
    ideal_unroll_depth: U32 = 0
    ideal_vector_pack_bits: U32 = 128
    ideal_workgroup_tile: tuple[U32, U32, U32] = (1, 1, 1)
    bank_count: U32 = 32
    bank_width_bytes: U32 = 4
    sources: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        kib = range(U32_MAX // 1024 + 1)
        for field, holds, expected in (
            ("id", bool(self.id.strip()), "a name that is not blank"),
            ("family", bool(self.family.strip()), "a name that is not blank"),
            ("warp_size", self.warp_size.bit_count() == 1, "a power of two"),
            (
                "ideal_vector_pack_bits",
                self.ideal_vector_pack_bits > 0 and self.ideal_vector_pack_bits % 32 == 0,
                "a positive multiple of 32",
            ),
            ("ideal_workgroup_tile", 0 not in self.ideal_workgroup_tile, "three positive ints"),
            ("bank_count", self.bank_count > 0, "a positive int"),
            ("bank_width_bytes", self.bank_width_bytes > 0, "a positive int"),
            ("shared_mem_per_sm_kb", self.shared_mem_per_sm_kb in kib, "a size below 4 GiB"),
            ("l1_kb", self.l1_kb in kib, "a size below 4 GiB"),
            ("l2_kb", self.l2_kb in kib, "a size below 4 GiB"),
        ):
            if not holds:
                raise InvalidField(record="DeviceSignature", field=field, value=getattr(self, field), expected=expected)

    def matches_name(self, device_name: str) -> bool:
        """Returns whether the name contains one of the aliases, ignoring case."""
        folded = device_name.lower()
        return any(alias.lower() in folded for alias in self.device_name_contains)

    def completed(self, profile: DeviceProfile) -> DeviceProfile:
        """Returns ``profile`` with its unknown facts filled from the signature.

        The workgroup memory of a profile is what one workgroup may have, which is less than what a multiprocessor has
        (``shared_mem_per_sm_kb``), so that the latter fills nothing; and a tile of one lane is no advice.
        """
        known = {
            "subgroup_size": self.warp_size,
            "compute_units": self.max_sm,
            "regs_per_thread_max": self.regs_per_thread_max,
            "l1_cache_bytes": self.l1_kb * 1024,
            "l2_cache_bytes": self.l2_kb * 1024,
            "mem_bw_gbps": self.mem_bw_gbps,
            "ideal_unroll_depth": self.ideal_unroll_depth,
            "ideal_vector_pack_bits": self.ideal_vector_pack_bits,
            "ideal_workgroup_tile": None if self.ideal_workgroup_tile == (1, 1, 1) else self.ideal_workgroup_tile,
            "shared_memory_bank_count": self.bank_count,
            "shared_memory_bank_width_bytes": self.bank_width_bytes,
        }
        missing = {name: value for name, value in known.items() if value and getattr(profile, name) is None}
        return replace(profile, **missing)  # type: ignore[arg-type]
