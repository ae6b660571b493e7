"""The record of which laws the prover proves: ``python -m support.egraphs.law_proofs [NAME...]`` in ``tests``.

Laws whose digest is in the record already are left as they are, unless they are named; ``--all`` names all, for which
the prover needs about a quarter of an hour.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from vyre.adapters.proving.prover import LIMIT, Z3Prover
from vyre.domain.dialects.laws.catalogue import LAWS
from vyre.domain.dialects.laws.law import Law
from vyre.ports.proving import Answer, Prover

RECORD: Final = Path(__file__).resolve().parents[3] / "docs" / "laws-proved.json"


def proved(law: Law, prover: Prover, limit: int = LIMIT) -> dict[str, Any]:
    """The entry of one law; raises ``AssertionError`` for a law that the prover refutes."""
    entry: dict[str, Any] = {"digest": law.digest, "proved": [], "unproved": {}}
    for dtype in sorted(law.types, key=lambda t: t.value):
        proof = prover.prove_equal(*law.at(dtype), law.hole_types(dtype), law.condition_at(dtype), limit=limit)
        assert proof.answer is not Answer.REFUTED, (law, dtype, proof.values)
        if proof.answer is Answer.PROVED:
            entry["proved"].append(dtype.text)
        else:
            entry["unproved"][dtype.text] = proof.reason
    return entry


def record() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return found


def main(arguments: list[str]) -> int:
    prover = Z3Prover()
    old = record()["laws"] if RECORD.exists() and "--all" not in arguments else {}
    laws = {}
    for law in LAWS:
        known = old.get(law.name)
        is_known = known is not None and known["digest"] == law.digest and law.name not in arguments
        laws[law.name] = known if is_known else proved(law, prover)
    made = {"prover": prover.version, "limit": LIMIT, "laws": laws}
    RECORD.write_text(json.dumps(made, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
