"""A backend without 64-bit types, 16-bit floats, subgroups and some operators, as WebGPU and Metal have them.

It runs the reference, and refuses what it lacks by looking for it in the text of a program, so that what its profile
declares is compared with what it does.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from support.seeded_backends import SEEDED, Seed, seeded_backend
from vyre.adapters.reference.executor import ReferenceExecutor
from vyre.adapters.reference.memory import ReferenceMemory
from vyre.adapters.reference.vector.engine import VectorKernel
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.ir.operators import ATOMIC, TRANSCENDENTALS, UNARY, AtomicOp, BinaryOp, operators_at
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.names import OpId
from vyre.domain.op_ids import USUAL_OPS
from vyre.ports.backend import Backend, BackendRegistration, BackendRole, BackendServices
from vyre.ports.lifecycle import NullLifecycle
from vyre.testing.fakes import claiming_all

LACKED_TYPES: Final = frozenset({ScalarType.F64, ScalarType.U64, ScalarType.I64, ScalarType.F16, ScalarType.BF16})
LACKED_OPERATORS: Final = TRANSCENDENTALS | {AtomicOp.FETCH_NAND, BinaryOp.MUL_HIGH}
LACKED_OPS: Final = frozenset({OpId("vyre.fma")})
PROFILE: Final = claiming_all(
    SEEDED,
    element_types=frozenset(ScalarType) - LACKED_TYPES,
    operators=frozenset(each for each in operators_at() if each.operator not in LACKED_OPERATORS),
    supports_subgroup_ops=False,
    has_subgroup_shuffle=False,
    supports_speculation=True,
    max_workgroup_size=(256, 256, 64),
    max_invocations_per_workgroup=256,
    max_grid_size=(65_535, 65_535, 65_535),
    max_shared_memory_bytes=16_384,
    max_storage_buffer_bytes=1 << 22,
)
"""The limits are those that every device of WebGPU has; its buffers are smaller, so that tests reach the limit."""
_WORDS: Final = "|".join(
    [UNARY[op].text for op in TRANSCENDENTALS] + [ATOMIC[AtomicOp.FETCH_NAND].text, "mulhi", "fma", r"subgroup_\w+"]
)
_LACKED: Final = re.compile(rf"(?<![a-zA-Z_])(0x[0-9a-f]+)?(f64|u64|i64|f16|bf16)(?!\w)|\b({_WORDS})\(")


def _able(program: Program) -> Program:
    """Raises ``UnsupportedFeature`` for a program whose text has a word that the backend does not know."""
    if found := _LACKED.search(replace(program, name=None).to_text()):
        raise UnsupportedFeature(feature=found[0], backend=SEEDED)
    return program


def _make(services: BackendServices) -> Backend:
    executor = ReferenceExecutor(PROFILE.launch_limits(), VectorKernel)
    memory = ReferenceMemory(SEEDED, executor)
    backend = Backend(
        id=SEEDED,
        version="1",
        profile=PROFILE,
        supported_ops=USUAL_OPS - LACKED_OPS,
        executor=executor,
        compiler=executor,
        memory=memory,
        foreign_memory=memory,
        resident_executor=memory,
        loops=memory,
        lifecycle=NullLifecycle(SEEDED),
    )
    return seeded_backend(backend, Seed(_able, always=True))


RESTRICTED: Final = BackendRegistration(
    id=SEEDED, rank=900, role=BackendRole.EMULATION, factory=_make, probe=lambda: PROFILE
)
