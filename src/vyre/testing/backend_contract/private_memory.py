"""Cases of private memory, of which every lane has its own."""

from __future__ import annotations

from typing import Final

from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar
from vyre.testing.backend_contract.bench import Bench
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.elements import ALL, patterns, stored
from vyre.testing.backend_contract.expect import equal
from vyre.testing.backend_contract.programs import add_programs

PRIVATE: Final = Group("private")
add_programs(PRIVATE)


@PRIVATE.table(ALL)
def it_holds_every_element_type(bench: Bench, element: ScalarType) -> None:
    """It starts as zeros in every lane, and converts what is stored as buffers do."""
    kernel = f"""
    workgroup_size 16, 1, 1
    buffer x @0 read {element.text}[48]
    buffer y @1 write {element.text}[48]
    buffer z @2 write {element.text}[48]
    buffer own @- private {element.text}[3]
    body {{
      let k = gid.x % 3u
      z[gid.x] = own[k]
      own[k] = x[gid.x]
      own[(k + 1u) % 3u] = x[(gid.x + 1u) % 48u]
      y[gid.x] = own[k]
    }}
    """
    bits = (patterns(element) * 48)[:48]
    kept = b"".join(
        scalar.store_element(element, scalar.load_element(element, b.to_bytes(element.size, "little"))) for b in bits
    )
    equal(bench.run(kernel, stored(element, bits)), (kept, bytes(48 * element.size)))
