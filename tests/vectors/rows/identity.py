"""Rows of ``specialization`` and ``input_identity``."""

from __future__ import annotations

from typing import Any, Final

from vectors.codec import Codec, Row, bits_of_float
from vectors.seeds.input_identity import domain_separated_exact_input_key, exact_input_key
from vectors.seeds.specialization_keys import (
    SpecCacheKey,
    dtype_tag,
    map_hash,
    pipeline_f64,
    value_hash,
    versioned_specialization_artifact_key,
    vsa_specialization_key,
)
from vyre.domain.dispatch import ReadableBuffer
from vyre.domain.ir.program import Dim3
from vyre.domain.ir.types import SCALAR_BY_TEXT, DataType, ReservedType
from vyre.domain.specialization import SpecKind, SpecMap, SpecValue


def _data_type(name: str) -> DataType:
    return SCALAR_BY_TEXT.get(name) or ReservedType(name)


def _spec_value(raw: dict[str, Any]) -> SpecValue:
    kind, value = SpecKind[raw["kind"].upper()], raw["value"]
    match kind:
        case SpecKind.DTYPE:
            return SpecValue.dtype(_data_type(value))
        case SpecKind.F32:  # by bits: signalling NaNs and -0.0 are told apart
            return SpecValue(kind, int(value, 16))
        case SpecKind.U32:
            return SpecValue.u32(value)
        case SpecKind.I32:
            return SpecValue.i32(value)
        case SpecKind.BOOL:
            return SpecValue.bool_(value)


def _spec_map(inserts: list[tuple[str, dict[str, Any]]]) -> SpecMap:
    built = SpecMap()
    for name, raw in inserts:
        built = built.with_value(name, _spec_value(raw))
    return built


CODEC: Final = Codec({DataType: _data_type, SpecValue: _spec_value, SpecMap: _spec_map})


def _dtype_tag(dtype: DataType) -> dict[str, object]:
    return {"tag": dtype_tag(dtype), "cache_hash": value_hash(SpecValue.dtype(dtype))}


def _describe_value(constant: SpecValue) -> dict[str, object]:
    return {"cache_hash": value_hash(constant), "as_pipeline_f64": bits_of_float(pipeline_f64(constant))}


def _describe_map(inserts: SpecMap) -> dict[str, object]:
    return {
        "len": len(inserts),
        "is_empty": not inserts,
        "ordered_names": list(inserts),
        "cache_hash": map_hash(inserts),
        "numeric_constants": [[name, bits_of_float(pipeline_f64(value))] for name, value in inserts.items()],
    }


def _known_collision(a: SpecMap, b: SpecMap) -> dict[str, object]:
    """The maps differ and their interchange hashes do not; the canonical encodings must."""
    assert a.canonical_bytes() != b.canonical_bytes()
    return {"a_hash": map_hash(a), "b_hash": map_hash(b), "equal": map_hash(a) == map_hash(b)}


def _cache_key(
    shader_hash: int, binding_sig: int, workgroup_size: Dim3, inserts: SpecMap, adapter_id: str
) -> dict[str, object]:
    key = SpecCacheKey.build(shader_hash, binding_sig, workgroup_size, inserts)
    return {
        "shader_hash": key.shader_hash,
        "binding_sig": key.binding_sig,
        "workgroup_size": list(key.workgroup_size),
        "spec_hash": key.spec_hash,
        "autotune_key_hex": key.autotune_key().hex(),
        "autotune_adapter_id": adapter_id,
    }


def _vsa_key(program_fingerprint_hex: bytes, spec_hash: int) -> dict[str, object]:
    key = vsa_specialization_key(program_fingerprint_hex, spec_hash)
    return {"key": key, "key_hex": f"{key:032x}"}


def _exact(inputs_hex: tuple[bytes, ...]) -> bytes:
    return exact_input_key(_buffers(inputs_hex))


def _separated(domain_tag_hex: bytes, domain_id: int, feature_key: int, inputs_hex: tuple[bytes, ...]) -> bytes:
    return domain_separated_exact_input_key(domain_tag_hex, domain_id, feature_key, _buffers(inputs_hex))


def _buffers(inputs: tuple[bytes, ...]) -> list[ReadableBuffer]:
    return list(inputs)


SPECIALIZATION: Final = {
    "dtype_tag": Row(_dtype_tag),
    "spec_value": Row(_describe_value),
    "spec_map": Row(_describe_map),
    "spec_map_known_collision": Row(_known_collision),
    "spec_cache_key": Row(_cache_key),
    "vsa_specialization_key": Row(_vsa_key),
    "versioned_specialization_artifact_key": Row(versioned_specialization_artifact_key),
}
INPUT_IDENTITY: Final = {
    "exact_input_key": Row(_exact),
    "domain_separated_exact_input_key": Row(_separated, fallible=True),
}
