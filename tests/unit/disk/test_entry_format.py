"""The file of one entry: no damage of it goes unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.disk_cache import artifact, entry_file, key, store
from vyre.adapters.disk.entry_format import MAGIC, Damaged, decode, encode, read_header
from vyre.ports.artifact_store import Artifact

KEY = key().encode()
SMALL = Artifact(b"meta", b"code of a small kernel", 12_345)
DATA = encode(KEY, SMALL)


def test_what_is_encoded_comes_back() -> None:
    for held in (SMALL, Artifact(b"", b"", 0), Artifact(b"\0", bytes(70_000), 2**64 - 1)):
        assert decode(encode(KEY, held)) == (KEY, held)


def test_cost_is_kept_within_its_field() -> None:
    assert decode(encode(KEY, Artifact(b"", b"", 2**70))).artifact.cost_ns == 2**64 - 1
    assert decode(encode(KEY, Artifact(b"", b"", -1))).artifact.cost_ns == 0


@pytest.mark.parametrize("change", [1, 0x80, 0xFF])
def test_every_flip_of_a_byte_is_noticed(change: int) -> None:
    for at in range(len(DATA)):
        damaged = bytearray(DATA)
        damaged[at] ^= change
        with pytest.raises(Damaged):
            decode(bytes(damaged))


def test_every_truncation_is_noticed() -> None:
    for length in range(len(DATA)):
        with pytest.raises(Damaged):
            decode(DATA[:length])


def test_what_a_power_failure_leaves_is_noticed() -> None:
    """Lengths without content, and content that was not written from some block on."""
    for written in range(0, len(DATA), 16):
        with pytest.raises(Damaged):
            decode(DATA[:written] + bytes(len(DATA) - written))
    with pytest.raises(Damaged, match="bytes and should have"):
        decode(DATA + b"\0")


def test_damage_is_told_apart() -> None:
    assert DATA.startswith(MAGIC)
    for damaged, reason in (
        (b"", "ends after 0 bytes"),
        (b"\x7fELF" + DATA[4:], "does not begin as an entry"),
        (DATA[:8] + b"\2\0\0\0" + DATA[12:], "of format 2, not 1"),
        (DATA[:-1], "should have"),
        (DATA[:-1] + bytes([DATA[-1] ^ 1]), "digest does not match"),
    ):
        with pytest.raises(Damaged, match=reason):
            decode(damaged)


def test_header_alone_says_what_follows() -> None:
    header = read_header(DATA[:40])
    assert (header.key_bytes, header.metadata_bytes, header.code_bytes, header.cost_ns) == (len(KEY), 4, 22, 12_345)


def test_no_damaged_byte_of_a_stored_entry_is_ever_served(tmp_path: Path) -> None:
    """Through the store, for each byte of the file: a miss, the file out of the way, and the next put mends it."""
    cache = store(tmp_path / "cache")
    assert cache.put(key(), SMALL)
    path = entry_file(tmp_path / "cache")
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        assert cache.get(key()) is None, at
        assert not path.exists()
        path.write_bytes(whole[:at])
        assert cache.get(key()) is None, at
        assert not path.exists()
    assert cache.put(key(), SMALL)
    assert cache.get(key()) == SMALL
    assert cache.stats().corrupt == 2 * len(whole)


def test_an_entry_in_the_place_of_another_is_not_served(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    cache = store(root)
    assert cache.put(key(1), artifact(1))
    other = entry_file(root)
    kept = other.read_bytes()
    other.unlink()
    assert cache.put(key(2), artifact(2))
    entry_file(root).write_bytes(kept)
    assert cache.get(key(2)) is None
    assert cache.stats().corrupt == 1
