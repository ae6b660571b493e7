"""Exhaustive proof that the machine code of the CPU backend computes every transcendental function as recorded.

``python -m benchmarks.cpu_functions [FUNCTION...] [--lanes W...] [--pipeline NAME...] [--vector-bits N...]`` compiles
the LLVM IR that the emitter writes for a function, W lanes at a time (1: for a uniform value), runs it over every f32
and compares the checksum of each chunk of 2^26 inputs with ``tests/data/function_checksums.json``, which
``benchmarks.correct_rounding`` has recorded: word k of a function is the sum over the inputs x of chunk k of
bits(f(x)) * (2x + 1) modulo 2^64.  ``--vector-bits`` leaves out what works on wider vectors; 0 stands for the oldest
processors of the architecture.

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

from vyre.adapters.cpu.llvm import conversion, operators
from vyre.adapters.cpu.llvm.context import Kernel
from vyre.adapters.cpu.llvm.options import LANES, EmitOptions
from vyre.adapters.cpu.native.compilation import FUNCTION_ATTRIBUTES, Pipeline, compile_object, llvm_version
from vyre.adapters.cpu.native.features import CpuFeatures, host
from vyre.adapters.cpu.native.loading import load
from vyre.domain.ir.operators import TRANSCENDENTALS, UnaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import f32, u32

ROOT: Final = Path(__file__).resolve().parent.parent
RECORD: Final = ROOT / "benchmarks" / "results" / "cpu-functions.json"
CHECKSUMS: Final = ROOT / "tests" / "data" / "function_checksums.json"
CHUNKS: Final = 64
CHUNK: Final = 2**32 // CHUNKS


def module_text(op: UnaryOp, lanes: int) -> str:
    """A module with ``i64 checksum(i64 first)``, the checksum of the chunk of inputs from ``first`` on."""
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
    value = operators.unary(k, op, k.varying(f32, x) if lanes > 1 else k.uniform(f32, x))
    result = conversion.bitcast(k, u32, value).operand
    wide_result = w.here(f"zext {word} {result} to {wide}")
    number = w.here(f"zext {word} {bits} to {wide}")
    odd = w.here(f"add {wide} {w.here(f'add {wide} {number}, {number}')}, {'splat (i64 1)' if lanes > 1 else '1'}")
    w.line(f"{total} = add {wide} {sum_}, {w.here(f'mul {wide} {wide_result}, {odd}')}")
    w.line(f"{later} = add i64 {index}, {lanes}")
    done = w.here(f"icmp eq i64 {later}, {w.at_entry(f'add i64 %first, {CHUNK}')}")
    w.branch(done, "after", "loop")
    w.place("after")
    answer = total
    if lanes > 1:
        w.declare(f"declare i64 @llvm.vector.reduce.add.v{lanes}i64({wide})")
        answer = w.here(f"call i64 @llvm.vector.reduce.add.v{lanes}i64({wide} {total})")
    head = f"define i64 @checksum(i64 %first) {FUNCTION_ATTRIBUTES} {{\nentry:"
    return "\n".join((*w.module, head, w.text(), f"  ret i64 {answer}", "}"))


def differing_chunks(
    text: str, features: CpuFeatures, pipeline: Pipeline, wanted: list[str], chunks: Iterable[int] = range(CHUNKS)
) -> list[int]:
    """The numbers of those chunks whose checksum is not the recorded one."""
    code = load(compile_object(text, features, pipeline))
    try:
        checksum = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_int64)(code.addresses["checksum"])
        return [chunk for chunk in chunks if checksum(chunk * CHUNK) != int(wanted[chunk], 16)]
    finally:
        code.close()


def _features(vector_bits: int) -> CpuFeatures:
    return host().at_most(vector_bits) if vector_bits else CpuFeatures(host().arch, (), 128)


def _jobs(arguments: argparse.Namespace) -> Iterator[tuple[str, Callable[[], dict[str, Any]], str]]:
    """For each job its name, what runs it, and the digest of what it depends on."""
    wanted: dict[str, list[str]] = json.loads(CHECKSUMS.read_text(encoding="utf-8"))
    for bits, lanes, pipeline in product(arguments.vector_bits, arguments.lanes, arguments.pipeline):
        features = _features(bits)
        for name in arguments.functions or sorted(wanted):
            text = module_text(UnaryOp[name.upper()], lanes)
            digest = sha256("\n".join((text, features.text, str(llvm_version()))).encode()).hexdigest()

            def run(
                name: str = name, text: str = text, features: CpuFeatures = features, pipeline: str = pipeline
            ) -> dict[str, Any]:
                started = time.process_time()
                differing = differing_chunks(text, features, Pipeline(pipeline), wanted[name])
                return {"differing_chunks": differing, "cpu_seconds": round(time.process_time() - started, 1)}

            yield f"{name} W{lanes} {pipeline} {bits}", run, digest


def main() -> int:
    names = sorted(op.name.lower() for op in TRANSCENDENTALS)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("functions", nargs="*", metavar="FUNCTION", help=f"of {' '.join(names)}; default: all")
    parser.add_argument("--lanes", type=int, nargs="+", choices=(1, *LANES), default=(16,), metavar="W")
    pipelines = [pipeline.value for pipeline in Pipeline]
    parser.add_argument("--pipeline", nargs="+", choices=pipelines, default=["full"], metavar="NAME")
    parser.add_argument("--vector-bits", type=int, nargs="+", choices=(0, 128, 256, 512), default=(512,), metavar="N")
    parser.add_argument("--again", action="store_true", help="run even what the record already holds")
    arguments = parser.parse_args()
    if unknown := set(arguments.functions) - set(names):
        parser.error(f"unknown function {sorted(unknown)}")
    record: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    failed = []
    for job, run, digest in _jobs(arguments):
        if arguments.again or record.get(job, {}).get("digest") != digest:
            record[job] = {"digest": digest, **run()}
            RECORD.write_text(json.dumps(dict(sorted(record.items())), indent=1) + "\n", encoding="utf-8")
        entry = record[job]
        print(
            f"{job:22} {len(entry['differing_chunks'])} of {CHUNKS} chunks differ, {entry['cpu_seconds']} s", flush=True
        )
        if entry["differing_chunks"]:
            failed.append(job)
    print(f"wrong: {failed}" if failed else "all results that were computed have the recorded checksums")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
