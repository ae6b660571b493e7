"""Which code answers which golden-vector file: file stem -> codec and rows by ``fn``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from vectors.codec import Codec, PlanCodec, Row
from vectors.rows import (
    graphs,
    identity,
    measurement,
    numeric,
    oracle,
    policies,
    queues,
    residency,
    speculation,
    topology,
    transfers,
    waves,
)


class VectorFile(NamedTuple):
    rows: Mapping[str, Row]
    codec: Codec = Codec()


FILES: Final[dict[str, VectorFile]] = {
    "specialization": VectorFile(identity.SPECIALIZATION, identity.CODEC),
    "input_identity": VectorFile(identity.INPUT_IDENTITY, identity.CODEC),
    "numeric": VectorFile(numeric.ROWS),
    "oracle-driver-policies": VectorFile(oracle.ROWS),
    **{stem: VectorFile(rows) for stem, rows in policies.FILES.items()},
    **{stem: VectorFile(rows) for stem, rows in speculation.FILES.items()},
    **{stem: VectorFile(rows, PlanCodec()) for stem, rows in residency.FILES.items()},
    **{stem: VectorFile(rows, PlanCodec()) for stem, rows in measurement.FILES.items()},
    **{stem: VectorFile(rows, graphs.CODEC) for stem, rows in graphs.FILES.items()},
    **{stem: VectorFile(rows, queues.CODEC) for stem, rows in queues.FILES.items()},
    **{stem: VectorFile(rows, topology.CODEC) for stem, rows in topology.FILES.items()},
    **{stem: VectorFile(rows, transfers.CODEC) for stem, rows in transfers.FILES.items()},
    **{stem: VectorFile(rows, waves.CODEC) for stem, rows in waves.FILES.items()},
}
CONFORMANCE_FILES: Final = frozenset({"oracle-programs", "oracle-scalar-ops", "ir-conformance"})
"""Files that ``vyre.testing.conformance`` takes."""
