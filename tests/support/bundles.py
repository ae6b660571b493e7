"""Bundles for tests: small ones, and crafted ones whose seal is right and whose manifest is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

from support.small_programs import saxpy_program
from vyre.adapters.bundles.builder import build_bundle
from vyre.adapters.bundles.container import seal, unseal
from vyre.adapters.bundles.manifest import encode
from vyre.adapters.cuda.aot.emitters import cuda_emitters
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import u32
from vyre.ports.aot import AotRegistry
from vyre.ports.bundles import AotTargetId, Bundle

Manifest: TypeAlias = dict[str, Any]
TEXT_ONLY: Final = AotRegistry(cuda_emitters(None), groups={"cuda": (AotTargetId("sm_75"),)})


def copy_program() -> Program:
    """``y = x``, the least that has an input and an output."""
    with ProgramBuilder("copy", workgroup=32) as p:
        x, y = p.input("x", u32), p.output("y", u32, like="x")
        y[p.global_id()] = x[p.global_id()]
    return p.build()


@cache
def small_bundle() -> Bundle:
    return build_bundle({"copy": copy_program()}, ["sm_75"], TEXT_ONLY).bundle


@cache
def saxpy_bundle() -> Bundle:
    """Two entry points, one of them with a scalar parameter, for two targets."""
    return build_bundle({"saxpy": saxpy_program(), "copy": copy_program()}, ["sm_75", "sm_90"], TEXT_ONLY).bundle


def crafted(change: Callable[[Manifest], object], bundle: Bundle | None = None) -> bytes:
    """A file with a changed manifest and a digest that matches."""
    _, manifest, blobs = unseal(encode(bundle or saxpy_bundle()))
    value = json.loads(manifest)
    change(value)
    return seal(json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode(), [bytes(blobs)])
