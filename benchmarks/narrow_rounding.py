"""Exhaustive proofs that narrow values are correctly rounded, each over 2^32 cases.

``python -m benchmarks.narrow_rounding [PROOF...]`` runs these proofs:

* ``add``, ``sub``, ``mul`` and ``div``: for all 2^32 pairs of f16 operands, the operator of f32 followed by
  ``narrow<f16>`` gives the exact result rounded once to f16, and ``pack<f16>`` gives its bits;
* ``add.rn.f16``, ``sub.rn.f16``, ``mul.rn.f16``, ``add.rn.bf16``, ``sub.rn.bf16`` and ``mul.rn.bf16``: for all 2^32
  pairs of operands of the type, ``pack`` of the operator of f32 gives the bits of the emulated device's instruction of
  this name, which computes in binary64 and rounds once, so that the instruction may stand for the operator;
* ``f16`` and ``bf16``: for all 2^32 values of f32, ``narrow`` and ``pack`` of the type give the value rounded once.

What is proved is the rules of the reference engine (``vyre.adapters.lanes``), which the other engines are compared
with, and of the emulated device.  The judge uses integer arithmetic only, so nothing that rounds takes part in it:

* A finite f16 is an integer in units of 2^-24, of at most 40 bits, so a sum of two is an exact integer of at most 41.
* A finite f16 other than zero is m * 2^e with an integer m of 11 bits, so a product is an exact integer of at most 22
  bits times a power of two; m of a bf16 has 8 bits.
* A sum of two bf16 whose exponents differ by 40 at most is an exact integer of at most 49 bits times a power of two.
  Otherwise the smaller one counts as one unit, 2^-40 of the greater one's last place: it decides nothing but ties.
* The quotient of two such integers is taken to 14 places after the point, and one more bit says whether a rest is left.
  It has at least 14 bits before that bit, so wherever a rounding to 11 bits or fewer takes place, the last bit lies
  below half a place and turns what looks like a tie into what it is.
* An f32 is an integer of 24 bits times a power of two.

``nearest`` rounds such an integer times a power of two by its definition: it splits the integer at the last place of
the result and compares the rest with half a place.  Zeros, infinities and NaN follow the rules of IEEE 754.

The proofs ``add.bf16``, ``sub.bf16``, ``mul.bf16`` and ``div.bf16``, which are those of f16 for bf16, are run if they
are named; a test takes slices of them.

The case with the number i has the patterns i // 2^16 and i % 2^16 as its operands, or is the f32 of the pattern i.  The
record, ``benchmarks/results/narrow-rounding.json``, keeps a checksum of each of 256 chunks of 2^24 cases, so that an
interrupted run goes on where it stopped: the sum over the cases i of the chunk, from 0, of bits(i) * (2i + 1) modulo
2^64.  What the record holds is not run again until the code of the rules changes.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import platform
import sys
import time
import tokenize
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vyre.adapters import lanes
from vyre.adapters.cuda.machine.instructions import floating, halves
from vyre.adapters.lanes import narrowing
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.types import ScalarType, bf16, f16, f32

RECORD: Final = Path(__file__).resolve().parent / "results" / "narrow-rounding.json"
CHUNKS: Final = 256
PATTERNS: Final = 1 << 16
BLOCK: Final = 1 << 13
"""Cases that are worked on at once; so many fit into the caches.  There are 8 blocks for each left operand."""
BLOCKS: Final = 2**32 // BLOCK

Integers = NDArray[np.int64]


class Format(NamedTuple):
    """A narrow binary format: its bits of precision, the exponent of its least place, and two of its patterns."""

    dtype: ScalarType
    precision: int
    least: int
    infinity: int
    nan: int


HALF: Final = Format(f16, 11, -24, 0x7C00, 0x7E00)
BFLOAT: Final = Format(bf16, 8, -133, 0x7F80, 0x7FC0)


def bit_length(n: Integers) -> Integers:
    """The number of bits of each integer, which is not negative; 0 for 0."""
    n, shifted = n.copy(), np.empty_like(n)
    for distance in (1, 2, 4, 8, 16, 32):
        np.right_shift(n, distance, out=shifted)
        np.bitwise_or(n, shifted, out=n)
    return np.bitwise_count(n).astype(np.int64)


def nearest(form: Format, n: Integers, exponent: Integers | int) -> Integers:
    """The patterns nearest to the exact numbers ``n * 2**exponent``, ties to even; 0 <= n < 2^60, no sign.

    A zero must have an exponent of at most ``form.least + form.precision``.
    """
    place = bit_length(n)
    place += exponent
    place -= form.precision
    np.maximum(place, form.least, out=place)
    shift = place - exponent
    np.minimum(shift, 61, out=shift)
    right = np.maximum(shift, 0)
    whole = n >> right
    rest = n - (whole << right)
    np.negative(shift, out=shift)
    whole <<= np.maximum(shift, 0, out=shift)
    # A rest of more than half a unit rounds up, and one of just half a unit if the integer before it is odd.
    rest <<= 1
    rest += whole & 1
    whole += rest > np.left_shift(1, right, out=right)
    # The hidden bit of a normal number adds one to the exponent field, and so does a carry.
    place -= form.least
    place <<= form.precision - 1
    place += whole
    return np.minimum(place, form.infinity, out=place)


class _Operands(NamedTuple):
    """Patterns of a format: the patterns, their sign bits, what is NaN, infinite or zero, values of f16 in units of
    2^-24, and values as m * 2^e with m of as many bits as the precision, or 0.
    """

    patterns: Integers
    sign: Integers
    nan: NDArray[Any]
    infinite: NDArray[Any]
    zero: NDArray[Any]
    units: Integers
    significand: Integers
    exponent: Integers


@cache
def _every(form: Format) -> _Operands:
    patterns = np.arange(PATTERNS, dtype=np.int64)
    magnitude = patterns & 0x7FFF
    fraction = form.precision - 1
    field = magnitude >> fraction
    raw = magnitude & (1 << fraction) - 1 | np.where(field > 0, 1 << fraction, 0)
    exponent = np.maximum(field, 1) - 1 + form.least
    missing = form.precision - bit_length(raw)  # the leading places that a subnormal number lacks
    sign = patterns & 0x8000
    units = np.where(magnitude < form.infinity, raw << np.minimum(exponent - form.least, 30), 0)
    return _Operands(
        patterns=patterns,
        sign=sign,
        nan=magnitude > form.infinity,
        infinite=magnitude == form.infinity,
        zero=magnitude == 0,
        units=np.where(sign != 0, -units, units),
        significand=raw << missing,
        exponent=exponent - missing,
    )


class _Pairs(NamedTuple):
    """The pairs of a block: the operands of a format, the number of the left one, and the right ones."""

    left: _Operands
    a: int
    of: _Operands


@cache
def _rights(form: Format, first: int) -> _Operands:
    every, part = _every(form), slice(first, first + BLOCK)
    return _Operands(*(column[part] for column in every))


def _pairs_of(form: Format, block: int) -> _Pairs:
    return _Pairs(_every(form), block * BLOCK // PATTERNS, _rights(form, block * BLOCK % PATTERNS))


def exact_sums(form: Format, block: int) -> Integers:
    """The patterns of a + b correctly rounded, for the pairs of a block."""
    left, a, of = _pairs_of(form, block)
    exponent: Integers | int = form.least
    if form is HALF:
        total = left.units[a] + of.units
    else:
        total, exponent = _aligned_sums(left, a, of)
    # An exact zero is negative if both terms are.
    sign = np.where(total == 0, left.sign[a] & of.sign, np.where(total < 0, 0x8000, 0))
    result = nearest(form, np.abs(total), exponent) | sign
    if left.infinite[a]:
        result = np.where(of.infinite & (of.sign != left.sign[a]), form.nan, a)
    else:
        result = np.where(of.infinite, of.patterns, result)
    return np.where(of.nan | left.nan[a], form.nan, result)


def _aligned_sums(left: _Operands, a: int, of: _Operands) -> tuple[Integers, Integers]:
    """Sums as integers times powers of two; what is too small to be aligned counts as one unit."""
    # A zero takes part at the exponent of the other term.
    ours = np.where(left.zero[a], of.exponent, left.exponent[a])
    theirs = np.where(of.zero, ours, of.exponent)
    distance = np.abs(ours - theirs)
    shift = np.minimum(distance, 40)
    ahead = ours >= theirs
    great = np.where(ahead, left.significand[a], of.significand) << shift
    small = np.where(ahead, of.significand, left.significand[a])
    small = np.where(distance > 40, np.minimum(small, 1), small)
    x, y = np.where(ahead, great, small), np.where(ahead, small, great)
    total = np.where(left.sign[a] != 0, -x, x) + np.where(of.sign != 0, -y, y)
    return total, np.where(total == 0, BFLOAT.least, np.maximum(ours, theirs) - shift)


def exact_differences(form: Format, block: int) -> Integers:
    """The patterns of a - b correctly rounded, for the pairs of a block."""
    # The right operands with the other sign are those of the block that lies half of all patterns away.
    return exact_sums(form, block ^ PATTERNS // 2 // BLOCK)


def exact_products(form: Format, block: int) -> Integers:
    """The patterns of a * b correctly rounded, for the pairs of a block."""
    left, a, of = _pairs_of(form, block)
    exponent = np.where(of.zero | left.zero[a], form.least, left.exponent[a] + of.exponent)
    result = nearest(form, left.significand[a] * of.significand, exponent)
    result = np.where(of.infinite | left.infinite[a], form.infinity, result) | of.sign ^ left.sign[a]
    undefined = of.infinite & left.zero[a] | of.zero & left.infinite[a]
    return np.where(undefined | of.nan | left.nan[a], form.nan, result)


def exact_quotients(form: Format, block: int) -> Integers:
    """The patterns of a / b correctly rounded, for the pairs of a block."""
    left, a, of = _pairs_of(form, block)
    quotient, rest = np.divmod(left.significand[a] << 14, np.maximum(of.significand, 1))
    exponent = np.where(left.zero[a], form.least, left.exponent[a] - of.exponent - 15)
    result = nearest(form, quotient << 1 | (rest != 0), exponent)
    result = np.where(of.zero | left.infinite[a], form.infinity, np.where(of.infinite, 0, result))
    undefined = of.infinite & left.infinite[a] | of.zero & left.zero[a]
    return np.where(undefined | of.nan | left.nan[a], form.nan, result | of.sign ^ left.sign[a])


@cache
def _wide(form: Format) -> NDArray[np.float32]:
    return np.asarray(lanes.unpack(form.dtype)(np.arange(PATTERNS, dtype=np.uint32)))


class Block(NamedTuple):
    """Cases of a proof: lanes of f32 to be narrowed, and the patterns that this must give.

    They are exact results, or what an instruction gives, of which any NaN will do.
    """

    form: Format
    lanes: NDArray[np.float32]
    patterns: Integers
    instructed: bool = False


def _pairs(op: BinaryOp, form: Format, exact: Callable[[Format, int], Integers]) -> Callable[[int], Block]:
    rule = lanes.binary(op, f32)

    def block(k: int) -> Block:
        first = k * BLOCK % PATTERNS
        with np.errstate(all="ignore"):
            values = np.asarray(rule(_wide(form)[k * BLOCK // PATTERNS], _wide(form)[first : first + BLOCK]))
        return Block(form, values, exact(form, k))

    return block


def _instruction(op: BinaryOp, form: Format) -> Callable[[int], Block]:
    """The pairs of an operator of f32 with what an instruction of the format gives."""
    rule, instruction = lanes.binary(op, f32), floating.TABLE[opcode(op, form)].rule
    patterns = np.arange(PATTERNS, dtype=np.uint16)
    operands = patterns.view(np.float16) if form is HALF else patterns

    def block(k: int) -> Block:
        left, first = k * BLOCK // PATTERNS, k * BLOCK % PATTERNS
        right = slice(first, first + BLOCK)
        with np.errstate(all="ignore"):
            values = np.asarray(rule(_wide(form)[left], _wide(form)[right]))
            found = np.asarray(instruction(operands[left], operands[right])).view(np.uint16)
        return Block(form, values, np.where(found & 0x7FFF > form.infinity, form.nan, found), True)

    return block


def opcode(op: BinaryOp, form: Format) -> str:
    return f"{op.name.lower()}.rn.{form.dtype.text}"


def _values(form: Format) -> Callable[[int], Block]:
    def block(k: int) -> Block:
        word = np.arange(k * BLOCK, (k + 1) * BLOCK, dtype=np.int64)
        magnitude = word & 0x7FFF_FFFF
        field = magnitude >> 23
        significand = magnitude & 0x7F_FFFF | np.where(field > 0, 1 << 23, 0)
        rounded = nearest(form, significand, np.maximum(field, 1) - 150)
        signed = np.where(field < 255, rounded, form.infinity) | word >> 16 & 0x8000
        patterns = np.where(magnitude > 0x7F80_0000, form.nan, signed)
        return Block(form, word.astype(np.uint32).view(np.float32), patterns)

    return block


_EXACT: Final = {BinaryOp.ADD: exact_sums, BinaryOp.SUB: exact_differences, BinaryOp.MUL: exact_products}
PROOFS: Final[dict[str, Callable[[int], Block]]] = {
    **{op.name.lower(): _pairs(op, HALF, exact) for op, exact in _EXACT.items()},
    "div": _pairs(BinaryOp.DIV, HALF, exact_quotients),
    "f16": _values(HALF),
    "bf16": _values(BFLOAT),
    **{opcode(op, form): _instruction(op, form) for form in (HALF, BFLOAT) for op in _EXACT},
}
"""The cases of each block of each proof."""
MORE: Final[dict[str, Callable[[int], Block]]] = {
    **{f"{op.name.lower()}.bf16": _pairs(op, BFLOAT, exact) for op, exact in _EXACT.items()},
    "div.bf16": _pairs(BinaryOp.DIV, BFLOAT, exact_quotients),
}
"""The cases of proofs that run only if they are named."""


def wrong_cases(block: Block) -> tuple[Integers, NDArray[np.uint32]]:
    """The cases of a block in which ``narrow`` or ``pack`` is not the exact result, and all patterns that were packed.

    A NaN must be packed as the canonical one and narrowed to any.  What an instruction gives is compared with ``pack``.
    """
    form = block.form
    with np.errstate(all="ignore"):
        packed = np.asarray(lanes.pack(form.dtype)(block.lanes))
        if block.instructed:
            return np.flatnonzero(packed != block.patterns), packed
        narrowed = np.asarray(lanes.narrow(form.dtype)(block.lanes))
        wanted = lanes.unpack(form.dtype)(block.patterns.astype(np.uint32))
    differs = np.flatnonzero((packed != block.patterns) | (narrowed.view(np.uint32) != wanted.view(np.uint32)))
    nan = (packed[differs] == form.nan) & (block.patterns[differs] == form.nan) & np.isnan(narrowed[differs])
    return differs[~nan], packed


class ChunkResult(NamedTuple):
    """The numbers of the first wrong cases of a chunk (of all 2^32), how many there are, and the checksum."""

    examples: list[int]
    wrong: int
    checksum: int


def run_chunk(proof: str, chunk: int) -> ChunkResult:
    """Runs the blocks of one chunk of a proof."""
    examples: list[int] = []
    wrong = checksum = 0
    blocks = BLOCKS // CHUNKS
    weights = np.arange(1, 2 * BLOCK, 2, dtype=np.uint64)
    for k in range(blocks):
        number = chunk * blocks + k
        cases, packed = wrong_cases((PROOFS | MORE)[proof](number))
        wrong += cases.size
        examples += (number * BLOCK + cases[:4]).tolist()
        checksum += int((packed * (weights + np.uint64(2 * k * BLOCK))).sum(dtype=np.uint64))
    return ChunkResult(examples[:16], wrong, checksum % 2**64)


def rules_digest(proof: str) -> str:
    """Returns a digest of the rules that a proof is about: of the tokens of their files without comments.

    They are the rules of narrow values, and those of the instruction that the proof may be named after.
    """
    rules = (narrowing, halves) if ".rn." in proof else (narrowing,)
    sources = [Path(str(module.__file__)).read_text("utf-8") for module in rules]
    tokens = "\0".join(token for source in sources for token in code_tokens(source))
    return hashlib.blake2b(tokens.encode(), digest_size=16).hexdigest()


def code_tokens(source: str) -> Iterator[str]:
    """Yields the tokens of Python source, without those of comments, blank lines and strings that are statements."""
    before = tokenize.NEWLINE
    held = ""
    for kind, text, *_ in tokenize.generate_tokens(io.StringIO(source).readline):
        if kind in (tokenize.COMMENT, tokenize.NL):
            continue
        if kind == tokenize.STRING and before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            held = text
        elif held and kind == tokenize.NEWLINE:
            held = ""
        else:
            if held:
                yield held
            yield text or tokenize.tok_name[kind]
            held = ""
        before = kind


def fresh_entry(proof: str) -> dict[str, Any]:
    return {"rules": rules_digest(proof), "cases": 0, "wrong": 0, "wrong_cases": [], "checksums": [], "seconds": 0.0}


def run_proof(proof: str, entry: dict[str, Any], save: Callable[[], None]) -> None:
    """Runs the chunks that the entry of a proof does not hold yet, saving after each."""
    while (chunk := len(entry["checksums"])) < CHUNKS:
        started = time.perf_counter()
        result = run_chunk(proof, chunk)
        entry["checksums"].append(f"{result.checksum:#018x}")
        entry["cases"] += 2**32 // CHUNKS
        entry["wrong"] += result.wrong
        entry["wrong_cases"] = (entry["wrong_cases"] + [f"{case:#010x}" for case in result.examples])[:64]
        entry["seconds"] = round(entry["seconds"] + time.perf_counter() - started, 1)
        save()
        if chunk % 16 == 15:
            print(f"{proof:11} {chunk + 1:3}/{CHUNKS}  {entry['seconds']:7.1f} s  wrong {entry['wrong']}", flush=True)


def environment() -> dict[str, str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return {
        "machine": f"{platform.machine()}, {next(names, 'unknown processor')}",
        "numpy": np.__version__,
        "python": platform.python_version(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default, more = " ".join(PROOFS), " ".join(MORE)
    parser.add_argument("proofs", nargs="*", metavar="PROOF", help=f"of {default}, which are the default, and {more}")
    parser.add_argument("--again", action="store_true", help="run even what the record already holds")
    arguments = parser.parse_args()
    if unknown := set(arguments.proofs) - set(PROOFS | MORE):
        parser.error(f"unknown proof {sorted(unknown)}")
    record: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {}

    def save() -> None:
        temporary = RECORD.with_suffix(".tmp")
        temporary.write_text(json.dumps(record, indent=1) + "\n")
        temporary.replace(RECORD)

    for proof in arguments.proofs or PROOFS:
        if arguments.again or proof not in record or record[proof]["rules"] != rules_digest(proof):
            record[proof] = fresh_entry(proof)
        entry = record[proof]
        if len(entry["checksums"]) < CHUNKS:
            entry["environment"] = environment()
            run_proof(proof, entry, save)
        print(f"{proof}: {entry['cases']} cases, {entry['wrong']} wrong")
    failed = [proof for proof, entry in record.items() if entry["wrong"]]
    print(f"wrong: {failed}" if failed else "every narrow value that was tried is correctly rounded")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
