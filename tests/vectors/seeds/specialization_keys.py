"""Keys of specialized modules as vyre-driver makes them; nothing here is stored under them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from blake3 import blake3

from vyre.domain.errors import InvalidConfig
from vyre.domain.ir.types import DataType, ReservedType
from vyre.domain.names import Dim3
from vyre.domain.specialization import SpecKind, SpecMap, SpecValue, _checked, _frame

_ARTIFACT_DOMAIN: Final = b"vyre-specialization-artifact-key-v1\0"
_U64_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
_FNV_OFFSET: Final = 0xCBF2_9CE4_8422_2325
_FNV_PRIME: Final = 0x0000_0100_0000_01B3
UNTAGGED: Final = 0xFFFF_FFFF
"""The interchange tag of a type that vyre-driver's table lacks."""


def dtype_tag(dtype: DataType) -> int:
    """Returns the interchange tag: the type's wire tag, except for ``quantized``, which vyre-driver's table lacks."""
    return UNTAGGED if isinstance(dtype, ReservedType) and dtype.name == "quantized" else dtype.tag


def value_hash(value: SpecValue) -> int:
    """Returns the 64-bit interchange contribution of a value: the kind in the low byte, the bits above it."""
    payload = value.bits if value.data_type is None else dtype_tag(value.data_type)
    return value.kind.value | payload << 8


def map_hash(specs: SpecMap) -> int:
    """Returns 64-bit FNV-1a over names and value hashes, without frames, so that different maps can collide."""
    state = _FNV_OFFSET
    for name, value in specs.items():
        for byte in name.encode("utf-8", "surrogatepass") + value_hash(value).to_bytes(8, "little"):
            state = ((state ^ byte) * _FNV_PRIME) & _U64_MASK
    return state


@dataclass(frozen=True, slots=True)
class SpecCacheKey:
    """The interchange identity of a specialized module: three u64 hashes and the workgroup size."""

    shader_hash: int
    binding_sig: int
    workgroup_size: Dim3
    spec_hash: int

    @classmethod
    def build(cls, shader_hash: int, binding_sig: int, workgroup_size: Dim3, specs: SpecMap) -> SpecCacheKey:
        """Returns the key for these constants."""
        return cls(shader_hash, binding_sig, workgroup_size, map_hash(specs))

    def autotune_key(self) -> bytes:
        """Returns 16 bytes: LE64(spec ^ workgroup), LE64(shader ^ binding), with the workgroup as x ^ y << 16 ^ z <<
        32.
        """
        x, y, z = self.workgroup_size
        workgroup = (x ^ y << 16 ^ z << 32) & _U64_MASK
        return struct.pack("<QQ", self.spec_hash ^ workgroup, self.shader_hash ^ self.binding_sig)


def vsa_specialization_key(fingerprint: bytes, spec_hash: int) -> int:
    """Returns a 128-bit key: the first eight bytes of a 32-byte program fingerprint above a 64-bit ``spec_hash``."""
    if len(fingerprint) != 32:
        raise InvalidConfig(f"a program fingerprint has 32 bytes, not {len(fingerprint)}", fix="pass Program.digest.")
    return int.from_bytes(fingerprint[:8], "little") << 64 | _checked(spec_hash, 64, "spec_hash")


def versioned_specialization_artifact_key(cache_version: int, spec_hash: str, backend_fingerprint: str) -> str:
    """Returns lower-case hex BLAKE3-256 over version (u32), spec hash and backend fingerprint, both length-framed."""
    state = blake3(_ARTIFACT_DOMAIN + b"version\0")
    state.update(_checked(cache_version, 32, "cache_version").to_bytes(4, "little"))
    state.update(b"\0spec\0" + _frame(spec_hash.encode()))
    state.update(b"\0backend\0" + _frame(backend_fingerprint.encode()))
    return state.hexdigest()


def pipeline_f64(value: SpecValue) -> float:
    """Returns the value as a float, exactly; a bool is 0 or 1, a data type its tag."""
    if value.data_type is not None:
        return float(dtype_tag(value.data_type))
    if value.kind is SpecKind.F32:
        return float(struct.unpack("<f", value.bits.to_bytes(4, "little"))[0])
    if value.kind is SpecKind.I32:
        return float(value.bits - (value.bits >> 31 << 32))
    return float(value.bits)
