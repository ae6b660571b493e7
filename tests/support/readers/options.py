"""Readers of what users pass: command lines and their files, variables, and arrays of other libraries."""

from __future__ import annotations

import contextlib
import io
import json
import lzma
import os
import random
import struct
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from support.fuzzing import mutations
from support.fuzzing.mutations import mixed, of_bytes, of_json, of_tokens
from support.readers.registry import TESTS, Reader, reader, scratch
from support.small_programs import saxpy_program
from vyre.adapters.cpu.pool.options import options_from as pool_options_from
from vyre.adapters.cuda.drivers import jit_cache_settings
from vyre.adapters.cuda.runtime.interop import read_foreign
from vyre.adapters.cuda.runtime.options import options_from as cuda_options_from
from vyre.adapters.disk.configuration import cache_settings
from vyre.app.cli import arguments, main
from vyre.app.demo.material import parse_pgm
from vyre.app.host_arrays import HostInputs
from vyre.domain.errors import VyreError
from vyre.testing.conformance import read_cases


# ---- the command line
@reader
def npy_files() -> Reader:
    """``.npy`` files of ``vyre run``, whose arrays are bound as a run would bind them."""
    program = saxpy_program()
    path = scratch() / "x.npy"

    def saved(array: Any, **options: Any) -> bytes:
        stream = io.BytesIO()
        np.lib.format.write_array(stream, array, **options)
        return stream.getvalue()

    floats = np.arange(8, dtype=np.float32)
    corpus = [saved(floats), saved(floats.reshape(2, 4)), saved(np.asfortranarray(floats.reshape(2, 4)))]
    corpus += [saved(floats, version=(2, 0)), saved(floats, version=(3, 0)), saved(np.float32(3).reshape(()))]
    corpus += [saved(np.zeros(3, [("a", "<f4")])), saved(np.array(["a"])), saved(np.zeros(2, ">f4"))]
    words: tuple[str, ...] = (
        "'descr'",
        "'fortran_order'",
        "'shape'",
        "(8,)",
        "(99999999999,)",
        "(-1,)",
        "(1,)*9",
        "True",
        "None",
        "'<f4'",
    )
    words += (
        "'|O'",
        "'<M8'",
        "'|V99999999999'",
        "'|S4'",
        "1L",
        "(2**62,)",
        "[('a','<f4')]",
        "lambda",
        "0o7",
        "1_0",
        "1j",
    )

    def headed(source: random.Random) -> bytes:
        """A header that was changed, with the length that it has."""
        header = of_tokens([b"{'descr': '<f4', 'fortran_order': False, 'shape': (8,), }"], words)(source)
        return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header) & 0xFFFF) + header + floats.tobytes()

    def read(data: bytes) -> object:
        path.write_bytes(data)
        given = arguments.inputs([f"x=@{path}"], program)
        return HostInputs(program).views({"a": 1.0, "y": floats, **given})

    return Reader("npy files", mixed(headed, headed, of_bytes(corpus), of_tokens(corpus, words)), read)


_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "run": ("--in", "--in", "--in", "--grid", "--extent", "--size", "--spec", "--timeout", "--expect", "--check", "-b"),
    "show": ("--as",),
    "emit": ("--target", "--assume", "--grid-sync", "--spec", "--as"),
    "explain": ("--batch", "--repeats", "--kernel-time-ns", "--costs", "--spec", "--replay", "-b", "--optimizer"),
    "validate": (),
    "optimize": ("--passes",),
    "conform": ("--budget", "--seed", "--schedule", "--programs", "--verify"),
    "aot": ("--target", "--spec", "--workgroup", "--ptx-only"),
    "cache": ("--bytes", "--entries", "--program", "--driver", "--key", "--emitter", "--target", "--tool"),
    "replay": ("-b",),
    "dialects": (),
    "calibrate": ("--rounds", "-b"),
    "tune": ("--budget", "--grid", "--extent", "--in", "--size"),
    "new": ("--name",),
}
_OPERANDS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "cache": (("prune",), ("invalidate", "--dry-run"), ("key",), ("stats",)),
    "dialects": (("list",),),
    "conform": (("-b", "nobody"),),
    "calibrate": (("-b", "nobody"),),
    "tune": (("-b", "nobody"), ("-b", "nobody", "PROGRAM")),
    "new": ((),),
    "replay": (("FILE",),),
}
_ARGUMENTS: Final = (
    *("a=2", "x=1,2,3", "y=1,2,3", "x=", "=", "a", "a=1e400", "a=nan", "x=nan,inf", "x=1e39", "a=1e999999999", 'x="a"'),
    *(
        "x=@FILE",
        "x=@/dev/null",
        "x=@.",
        "x=@\0",
        "x=[1]",
        "a=0x",
        "a=0x1p9999",
        "a=0x1p-9999",
        "y=true",
        "a=-1",
        "x=1_0",
    ),
    *(
        "0",
        "1",
        "-1",
        "8",
        "1,1,1",
        "1,2,3,4",
        "0,0",
        "4294967296",
        "18446744073709551616",
        "1e3",
        "",
        ",",
        "nan",
        "inf",
    ),
    *(
        "1e-400",
        "1e308",
        "9" * 400,
        "9" * 5000,
        "a=" + "9" * 400,
        "a=" + "9" * 5000,
        "x=" + "9" * 5000,
        "\u0663",
        "\ud800",
    ),
    *(
        "y=3",
        "y=-1",
        "y=1.5",
        "y=1e400",
        "y=" + "9" * 400,
        "y=nan",
        "y=inf",
        "y=true",
        "reference",
        "cpu",
        "cuda-machine",
    ),
    *(
        "text",
        "json",
        "wire",
        "summary",
        "races",
        "sm_90",
        "sm_999999",
        "sm_",
        "cpu",
        "auto",
        "aligned16,noalias",
        "split",
    ),
    *("lockstep", "host", "device", "copies,folding", "a\0b", "~", "/", ".", "x" * 5000, "\n", "\x1b[31m", "--json"),
)


@reader
def command_lines() -> Reader:
    """Whole commands, run in this process, in a directory that holds a program and files of no meaning."""
    folder = scratch()
    (folder / "program.vyre").write_bytes(saxpy_program().to_text().encode())
    (folder / "file").write_bytes(b"\x93NUMPY\x01\0\1\0{")

    def draw(source: random.Random) -> bytes:
        command = source.choice((*_OPTIONS, "run", "run", "run"))
        words = [command, *source.choice(_OPERANDS.get(command, (("PROGRAM",),)))]
        if command == "run":
            words += ["-b", "reference", "--in", "a=2", "--in", "x=1,2,3"][: source.choice((2, 4, 6))]
        for _ in range(source.choice((1, 1, 2, 3))):
            if _OPTIONS[command] and source.random() < 0.9:
                words.append(source.choice(_OPTIONS[command]))
            value = source.choice(_ARGUMENTS)
            if source.random() < 0.2:
                value = of_tokens([value.encode("utf-8", "surrogatepass") or b"0"])(source).decode("utf-8", "replace")
            words.append(value)
        if command == "run":
            words += ["--timeout", "1"]
        return json.dumps(words).encode()

    def read(data: bytes) -> None:
        places = {"PROGRAM": str(folder / "program.vyre"), "FILE": str(folder / "file")}
        words = [places.get(word, word.replace("FILE", places["FILE"])) for word in json.loads(data)]
        words = [word for word in words if word not in ("~", "/")]
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            contextlib.chdir(folder),
            patch.dict(os.environ, VYRE_CACHE_DIR=str(folder / "cache")),
        ):
            code = main(words)
        told = err.getvalue() + out.getvalue()
        if code not in (0, 1, 2, 3, 4) or "Traceback" in told or "internal error" in told or (code and not told):
            raise AssertionError(f"exit code {code}: {told[-1500:]}")

    return Reader("command lines", draw, read, (), every=10)


class _Variables:
    def __init__(self, values: dict[str, str]) -> None:
        self.get = values.get


@reader
def environments() -> Reader:
    """The variables that choose how vyre runs."""
    names: tuple[str, ...] = (
        "VYRE_CACHE_DIR",
        "VYRE_CACHE_BYTES",
        "VYRE_CACHE_ENTRIES",
        "VYRE_CACHE_LAYERS",
        "VYRE_CACHE_DISABLE",
    )
    names += ("VYRE_CPU_THREADS", "VYRE_CPU_AFFINITY", "VYRE_CUDA_DEVICE_ORDINAL", "VYRE_CUDA_GRAPH_AFTER")
    names += ("VYRE_CUDA_SIDE_BY_SIDE", "VYRE_CUDA_COPY_OVERLAP", "VYRE_CUDA_GRID_SYNC", "CUDA_CACHE_MAXSIZE")
    names += ("CUDA_CACHE_DISABLE",)
    words: tuple[str, ...] = (
        "0-3",
        "0,2",
        "0-99999999999",
        "3-0",
        "costs",
        "off",
        "on",
        "native",
        "a:b",
        ":",
        "1073741824",
        "~nobody/a",
    )

    def draw(source: random.Random) -> bytes:
        value = source.choice((*words, *mutations.WORDS))
        if source.random() < 0.5:
            value = of_tokens([value.encode("utf-8", "surrogatepass") or b"1"], words)(source).decode(
                "utf-8", "replace"
            )
        return json.dumps({source.choice(names): value}).encode()

    def read(data: bytes) -> None:
        values: dict[str, str] = json.loads(data)
        environment: Any = _Variables(values)
        jit_cache_settings(values)
        for reads in (lambda given: cache_settings(None, given), pool_options_from, cuda_options_from):
            with contextlib.suppress(VyreError):
                reads(environment)

    return Reader("environments", draw, read)


@reader
def foreign_arrays() -> Reader:
    """What other libraries say of their arrays, by ``__cuda_array_interface__``."""
    usual = {"shape": [4, 2], "typestr": "<f4", "data": [4096, False], "version": 3, "strides": None, "stream": None}

    class Foreign:
        pass

    def read(data: bytes) -> object:
        foreign: Any = Foreign()
        foreign.__cuda_array_interface__ = json.loads(data)
        return read_foreign(foreign)

    def draw(source: random.Random) -> bytes:
        while True:
            data = of_json([usual, usual | {"strides": [8, 4], "mask": 1}])(source)
            with contextlib.suppress(ValueError, RecursionError):
                json.loads(data)
                return data

    return Reader("foreign arrays", draw, read)


@reader
def recorded_cases() -> Reader:
    """Files of recorded cases, plain or compressed."""
    import gzip

    vectors = TESTS / "data" / "vectors"
    lines = lzma.decompress((vectors / "oracle-programs.jsonl.xz").read_bytes()).splitlines()[::200]
    tables = lzma.decompress((vectors / "oracle-scalar-ops.jsonl.xz").read_bytes()).splitlines()[::40]
    documents = [json.loads(line) for line in (*lines, *(each for each in tables if len(each) < 1 << 14))]
    path = scratch() / "cases"
    packed = [gzip.compress(lines[0]), lzma.compress(lines[0]), gzip.compress(b"{" * (1 << 26))]

    def read(data: bytes) -> object:
        path.write_bytes(data)
        return read_cases(path)

    return Reader("recorded cases", mixed(of_json(documents), of_json(documents), of_bytes([*lines, *packed])), read)


@reader
def pictures() -> Reader:
    corpus = [b"P5\n4 2\n255\n" + bytes(8)]
    return Reader("pictures", mixed(of_bytes(corpus), of_tokens(corpus)), parse_pgm)
