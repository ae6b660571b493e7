"""Exhaustive proof that the machine code of the CPU backend computes functions of an f32 as recorded.

The functions are the thirteen transcendental ones, and ``f16`` and ``bf16``, which pack a value into a narrow element.

``python -m benchmarks.cpu_functions [FUNCTION...] [--lanes W...] [--pipeline NAME...] [--vector-bits N...]`` compiles
the LLVM IR that the emitter writes for a function, W lanes at a time (1: for a uniform value), runs it over every f32
and compares the checksum of each chunk of inputs with those that ``benchmarks.correct_rounding`` and
``benchmarks.narrow_rounding`` have recorded: the sum over the inputs x of the chunk of bits(f(x)) * (2x + 1) modulo
2^64, where the inputs of a chunk count from 0 for ``f16`` and ``bf16``.  ``--vector-bits`` leaves out what works on
wider vectors; 0 stands for the oldest processors of the architecture.

What has been run is kept in ``benchmarks/results/cpu-functions.json`` with the digest of the emitted text and the
processor's features, and is run again only if either changes.  Exit 1 if a checksum differs.

Needs llvmlite.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, Final

from vyre.adapters.cpu.llvm import conversion, narrowing, operators
from vyre.adapters.cpu.llvm.context import Kernel
from vyre.adapters.cpu.llvm.options import LANES, EmitOptions
from vyre.adapters.cpu.llvm.values import Value
from vyre.adapters.cpu.native.compilation import Effort, compile_object, llvm_version
from vyre.adapters.cpu.native.features import CpuFeatures, host
from vyre.adapters.cpu.native.loading import load
from vyre.domain.ir.operators import TRANSCENDENTALS, UnaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType, f32, u32

ROOT: Final = Path(__file__).resolve().parent.parent
RECORD: Final = ROOT / "benchmarks" / "results" / "cpu-functions.json"
CHECKSUMS: Final = ROOT / "tests" / "data" / "function_checksums.json"
NARROW_RECORD: Final = ROOT / "benchmarks" / "results" / "narrow-rounding.json"
NARROW: Final = {"f16": ScalarType.F16, "bf16": ScalarType.BF16}
NAMES: Final = (*sorted(op.name.lower() for op in TRANSCENDENTALS), *NARROW)


class Subject:
    """A function of an f32 and its recorded checksums, one for each chunk of all inputs."""

    def __init__(self, name: str) -> None:
        self.name = name
        is_narrow = name in NARROW
        record = json.loads((NARROW_RECORD if is_narrow else CHECKSUMS).read_text(encoding="utf-8"))
        recorded = record[name]["checksums"] if is_narrow else record[name]
        self.checksums: list[int] = [int(word, 16) for word in recorded]
        self.chunk = 2**32 // len(self.checksums)
        self.counts_from_0 = is_narrow

    def apply(self, k: Kernel, x: Value) -> Value:
        """Returns the bits of the result, a u32."""
        if self.name in NARROW:
            return narrowing.pack(k, NARROW[self.name], x)
        return conversion.bitcast(k, u32, operators.unary(k, UnaryOp[self.name.upper()], x))


def module_text(subject: Subject, lanes: int) -> str:
    """Returns a module with ``i64 checksum(i64 first)``, the checksum of the chunk of inputs from ``first`` on."""
    k = Kernel(Program((), (64, 1, 1), ()), EmitOptions(lanes=max(lanes, 4)), {}, max(lanes, 4))
    w, word, wide = k.w, "i32", "i64"
    steps = ", ".join(f"i32 {lane}" for lane in range(lanes))
    if lanes > 1:
        word, wide = k.vector_type("i32"), k.vector_type("i64")
    index, sum_, later, total = (w.name() for _ in range(4))
    w.line("br label %loop")
    w.place("loop")
    w.line(f"{index} = phi i64 [ %first, %entry ], [ {later}, %loop ]")
    w.line(f"{sum_} = phi {wide} [ zeroinitializer, %entry ], [ {total}, %loop ]")
    bits = w.here(f"trunc i64 {index} to i32")
    if lanes > 1:
        bits = w.here(f"add {word} {k.splat('i32', bits)}, <{steps}>")
    x = w.here(f"bitcast {word} {bits} to {k.vector_type('float') if lanes > 1 else 'float'}")
    result = subject.apply(k, k.varying(f32, x) if lanes > 1 else k.uniform(f32, x)).operand
    wide_result = w.here(f"zext {word} {result} to {wide}")
    if subject.counts_from_0:
        bits = w.here(f"and {word} {bits}, {f'splat (i32 {subject.chunk - 1})' if lanes > 1 else subject.chunk - 1}")
    number = w.here(f"zext {word} {bits} to {wide}")
    odd = w.here(f"add {wide} {w.here(f'add {wide} {number}, {number}')}, {'splat (i64 1)' if lanes > 1 else '1'}")
    w.line(f"{total} = add {wide} {sum_}, {w.here(f'mul {wide} {wide_result}, {odd}')}")
    w.line(f"{later} = add i64 {index}, {lanes}")
    done = w.here(f"icmp eq i64 {later}, {w.at_entry(f'add i64 %first, {subject.chunk}')}")
    w.branch(done, "after", "loop")
    w.place("after")
    answer = total
    if lanes > 1:
        w.declare(f"declare i64 @llvm.vector.reduce.add.v{lanes}i64({wide})")
        answer = w.here(f"call i64 @llvm.vector.reduce.add.v{lanes}i64({wide} {total})")
    head = "define i64 @checksum(i64 %first) nounwind {\nentry:"
    return "\n".join((*w.module, head, w.text(), f"  ret i64 {answer}", "}"))


def differing_chunks(
    subject: Subject, text: str, features: CpuFeatures, pipeline: Effort, chunks: Iterable[int] | None = None
) -> list[int]:
    """Returns the numbers of those chunks (by default: of all) whose checksum is not the recorded one."""
    code = load(compile_object(text, features, pipeline))
    try:
        checksum = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_int64)(code.addresses["checksum"])
        numbers = range(len(subject.checksums)) if chunks is None else chunks
        return [number for number in numbers if checksum(number * subject.chunk) != subject.checksums[number]]
    finally:
        code.close()


def _features(vector_bits: int) -> CpuFeatures:
    return host().at_most(vector_bits) if vector_bits else CpuFeatures(host().arch, (), 128)


def _jobs(arguments: argparse.Namespace) -> Iterator[tuple[str, Callable[[], dict[str, Any]], str]]:
    """Yields for each job its name, what runs it, and the digest of what it depends on."""
    for bits, lanes, pipeline in product(arguments.vector_bits, arguments.lanes, arguments.pipeline):
        features = _features(bits)
        for name in arguments.functions or NAMES:
            subject = Subject(name)
            text = module_text(subject, lanes)
            digest = sha256("\n".join((text, features.text, str(llvm_version()))).encode()).hexdigest()

            def run(
                subject: Subject = subject, text: str = text, features: CpuFeatures = features, pipeline: str = pipeline
            ) -> dict[str, Any]:
                started = time.process_time()
                differing = differing_chunks(subject, text, features, Effort(pipeline))
                return {"differing_chunks": differing, "cpu_seconds": round(time.process_time() - started, 1)}

            yield f"{name} W{lanes} {pipeline} {bits}", run, digest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("functions", nargs="*", metavar="FUNCTION", help=f"of {' '.join(NAMES)}; default: all")
    parser.add_argument("--lanes", type=int, nargs="+", choices=(1, *LANES), default=(16,), metavar="W")
    pipelines = [pipeline.value for pipeline in Effort]
    parser.add_argument("--pipeline", nargs="+", choices=pipelines, default=["full"], metavar="NAME")
    parser.add_argument("--vector-bits", type=int, nargs="+", choices=(0, 128, 256, 512), default=(512,), metavar="N")
    parser.add_argument("--again", action="store_true", help="run even what the record already holds")
    arguments = parser.parse_args()
    if unknown := set(arguments.functions) - set(NAMES):
        parser.error(f"unknown function {sorted(unknown)}")
    record: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    failed = []
    for job, run, digest in _jobs(arguments):
        if arguments.again or record.get(job, {}).get("digest") != digest:
            record[job] = {"digest": digest, **run()}
            RECORD.write_text(json.dumps(dict(sorted(record.items())), indent=1) + "\n", encoding="utf-8")
        entry = record[job]
        print(f"{job:22} {len(entry['differing_chunks'])} chunks differ, {entry['cpu_seconds']} s", flush=True)
        if entry["differing_chunks"]:
            failed.append(job)
    print(f"wrong: {failed}" if failed else "all results that were computed have the recorded checksums")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
