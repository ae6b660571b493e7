"""The PTX of many programs stays the same, byte for byte, until somebody means to change it."""

from __future__ import annotations

from support.cuda import ptx_digests


def test_nothing_emits_other_ptx_than_recorded() -> None:
    """After a change that is meant: ``PYTHONPATH=src:tests python -m support.cuda.ptx_digests``."""
    emitted, recorded = ptx_digests.digests(), ptx_digests.recorded()
    assert {name: digest for name, digest in emitted.items() if recorded.get(name) != digest} == {}
    assert sorted(recorded.keys() - emitted.keys()) == []
