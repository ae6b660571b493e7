"""Readers of compiled code: bundles, layouts, PTX, objects, and entries of the cache."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import struct
import tarfile
from functools import cache
from typing import Any, Final

from blake3 import blake3

from support import bundles
from support.fuzzing.mutations import mixed, of_bytes, of_json, of_tokens
from support.readers.registry import Reader, programs, reader, scratch
from vyre.adapters.bundles.container import DIGEST_BYTES, seal, unseal
from vyre.adapters.bundles.manifest import decode as decode_bundle
from vyre.adapters.bundles.manifest import encode as encode_bundle
from vyre.adapters.cpu.native import messages
from vyre.adapters.cpu.native.elf import exported_names, link_image, load_image
from vyre.adapters.cpu.native.linked_form import UnusableObject, encode_linked, load_linked
from vyre.adapters.cpu.runtime import stored_form
from vyre.adapters.cuda.machine import libraries
from vyre.adapters.cuda.machine.memory import DeviceMemory
from vyre.adapters.cuda.machine.module import load_module
from vyre.adapters.cuda.machine.options import MachineOptions
from vyre.adapters.cuda.machine.presets import PRESETS
from vyre.adapters.cuda.machine.status import Status
from vyre.adapters.cuda.ptx import module_form
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.adapters.cuda.seam import DEFAULT_JIT
from vyre.adapters.disk import entry_format
from vyre.domain.artifact_key import ArtifactKey, ArtifactKind
from vyre.domain.errors import VyreError


# ---- compiled code
@reader
def compiled_bundles() -> Reader:
    corpus = [encode_bundle(bundle) for bundle in (bundles.small_bundle(), bundles.saxpy_bundle())]
    parts = [unseal(data) for data in corpus]
    bodies = [data[:-DIGEST_BYTES] for data in corpus]

    def crafted(source: random.Random) -> bytes:
        _, manifest, blobs = source.choice(parts)
        changed = of_json([json.loads(manifest)], ensure_ascii=source.random() < 0.5)(source)
        try:
            return seal(changed, [bytes(blobs)])
        except VyreError:
            return manifest

    sealed = of_bytes(bodies, lambda body: body + blake3(body).digest())
    return Reader("bundles", mixed(crafted, crafted, sealed, of_bytes(corpus)), decode_bundle)


@cache
def _modules() -> list[Any]:
    options = (EmitOptions(), EmitOptions(target=75), EmitOptions(target=120, native_grid_sync=False))
    emitted = []
    for program in programs():
        for option in options:
            with contextlib.suppress(VyreError):
                emitted.append(emit(program, option))
    return emitted


@reader
def ptx_layouts() -> Reader:
    corpus = [module_form.encode_layout(module_form.layout_of(module)) for module in _modules()]
    documents = [json.loads(layout) for layout in corpus]
    return Reader(
        "layouts of modules", mixed(of_json(documents), of_bytes(corpus), of_tokens(corpus)), module_form.decode_layout
    )


@reader
def ptx() -> Reader:
    """PTX text as the emulated device reads it, whose variables are placed in memory."""
    corpus = [module.ptx.encode() for module in _modules()] + [_HAND_WRITTEN]
    words = _PTX_WORDS + tuple(
        set(re.findall(r"[a-z][a-z0-9]*\.[\w.]+|%\w+|\.\w+", "".join(m.ptx for m in _modules())))
    )

    def read(data: bytes) -> object:
        load_module.cache_clear()
        library = libraries.load(
            1, data + b"\0", DEFAULT_JIT, PRESETS["sm_120"], MachineOptions().driver_version, DeviceMemory()
        )
        for name, entry in library.loaded.entries.items():
            libraries.facts(libraries.kernel_of(2, library, name, PRESETS["sm_120"]), PRESETS["sm_120"])
            entry.code.paths()
        return library

    return Reader("ptx", mixed(of_tokens(corpus, words), of_tokens(corpus, words), of_bytes(corpus)), read, (Status,))


_PTX_WORDS: Final = (
    *(
        "mov",
        "mov.",
        "cvta",
        "ld",
        "st",
        "ld.",
        "ld.global",
        "atom.",
        "atom",
        "red",
        "cvt",
        "cvt.",
        "mov.b32",
        "bra",
        "ret",
    ),
    *(
        "bar.sync",
        "brx.idx",
        "shfl.sync.",
        "vote.sync.ballot.b32",
        "match.sync",
        "redux.sync.add.s32",
        "cp.async.",
        "call",
    ),
    *(".reg", ".reg .b32", ".param", ".shared", ".local", ".global .u32 x[4294967295];", ".reg .b32 %z<4294967295>;"),
    *(
        ".align 0",
        ".align 3",
        ".reqntid",
        "%tid.x",
        "%laneid",
        "_",
        "{%r1}",
        "{%r1,%r2}",
        "[%rd1+8]",
        "|",
        "!%p1",
        "@%p1",
    ),
    *("[-1]", "[99999999999]", "0f3f800000", "0d7ff0000000000000", "09", "0x", "1.5e999", "-0", ".version 8.0", "$L"),
)
_HAND_WRITTEN: Final = b""".version 8.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.global .align 4 .u32 table[4] = {1, 2, 3, 4};
.extern .func cudaGraphSetConditional (.param .b64 a, .param .b32 b);
.visible .entry e(.param .u64 p, .param .u32 n)
.reqntid 32, 1, 1
{
  .reg .b64 %rd<4>;
  .reg .b32 %r<9>;
  .reg .pred %p<3>;
  .shared .align 4 .b32 s[32];
  .local .align 4 .b32 l[4];
  .param .b64 a0;
  .param .b32 a1;
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  mov.b64 {%r3, %r4}, %rd1;
  mov.b64 %rd2, {%r3, %r4};
  setp.lt.u32 %p1|%p2, %r2, %r1;
  shfl.sync.up.b32 %r5|%p2, %r2, 1, 0, 0xffffffff;
  @%p1 bra $L1;
  cp.async.ca.shared.global [s], [%rd1], 4;
  cp.async.commit_group;
  cp.async.wait_group 0;
  bar.sync 0;
  ld.global.v2.u32 {%r6, _}, [%rd1+8];
  atom.global.add.u32 %r7, [%rd1], 1;
  st.shared.u32 [s+4], %r7;
  st.local.b32 [l], %r7;
  $T: .branchtargets $L1, $L2;
  brx.idx %r2, $T;
$L1:
  st.param.b64 [a0], %rd1;
  st.param.b32 [a1], %r1;
  call.uni cudaGraphSetConditional, (a0, a1);
$L2:
  ret;
}
"""


@reader
def cpu_layouts() -> Reader:
    from vyre.adapters.cpu.native.compilation import Effort
    from vyre.adapters.cpu.runtime.stored_form import CodeLayout, KernelLayout, encode_layout

    kernels = (KernelLayout("k0", 64, ("a", "b"), 7), KernelLayout("k1", 0, (), None))
    corpus = [encode_layout(CodeLayout(8, Effort.LIGHT, kernels))]
    return Reader("layouts of objects", of_bytes(corpus), stored_form.decode_layout)


@cache
def _objects() -> tuple[bytes, bytes]:
    """An object for x86-64 as LLVM makes it, and relocated."""
    from unit.cpu.native.test_elf import TEXT, X86
    from vyre.adapters.cpu.native.compilation import Effort, compile_object

    compiled = compile_object(TEXT, X86, Effort.LIGHT)
    image = link_image(compiled, "x86_64")
    assert image is not None
    return compiled, encode_linked(image)


@reader
def elf() -> Reader:
    def read(data: bytes) -> object:
        exported_names(data, "x86_64")
        image = load_image(data, "x86_64", {"outside": 0x7123_4567_89A0, "variable": 16, "memcpy": 32}.get)
        image.pages.close()
        return link_image(data, "x86_64")

    return Reader("elf", of_bytes([_objects()[0]]), read, (VyreError, UnusableObject))


@reader
def linked_objects() -> Reader:
    def read(data: bytes) -> None:
        load_linked(data, {"outside": 0x7123_4567_89A0, "variable": 16, "memcpy": 32}.get).pages.close()

    return Reader("linked objects", of_bytes([_objects()[1]]), read, (VyreError, UnusableObject))


# ---- the cache
@cache
def _key() -> ArtifactKey:
    kind = next(iter(ArtifactKind))
    return ArtifactKey(kind=kind, target="sm_90", program=b"1" * 32, device=(("a", "b"),), interface=("x", "y"))


@reader
def artifact_keys() -> Reader:
    return Reader("artifact keys", of_bytes([_key().encode()]), ArtifactKey.decode)


@reader
def cache_entries() -> Reader:
    from vyre.ports.artifact_store import Artifact

    data = entry_format.encode(_key().encode(), Artifact(b"metadata", b"code" * 9, 5))
    body = data[: -entry_format.DIGEST_BYTES]
    draw = mixed(of_bytes([data]), of_bytes([body], lambda changed: changed + blake3(changed).digest()))
    return Reader("cache entries", draw, entry_format.decode, (entry_format.Damaged,))


@reader
def cache_archives() -> Reader:
    from vyre.adapters.disk.transfer import import_entries
    from vyre.ports.artifact_store import Artifact

    class Nowhere:
        def put(self, key: ArtifactKey, artifact: Artifact) -> bool:
            return True

    entry = entry_format.encode(_key().encode(), Artifact(b"metadata", b"code" * 9, 5))
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in (("a", entry), ("b", entry), ("end-of-vyre-cache", b"vyre cache\n")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    nowhere: Any = Nowhere()
    path = scratch() / "archive.tar"

    def read(data: bytes) -> object:
        path.write_bytes(data)
        return import_entries(nowhere, path)

    return Reader("cache archives", of_bytes([stream.getvalue()]), read)


@reader
def compile_messages() -> Reader:
    from vyre.adapters.cpu.native.compilation import Effort
    from vyre.adapters.cpu.native.features import parse_features

    request = messages.encode_request(messages.Request("text", parse_features("x86_64+avx2"), Effort.LIGHT))
    answer = messages.encode_answer(messages.Answer(messages.Status.OBJECT, b"object"))

    def head(text: str) -> str:
        return text

    def framed(source: random.Random) -> bytes:
        changed = of_json([{"features": "x86_64+avx2", "effort": Effort.LIGHT.value}], head)(source)
        return struct.pack("<IQ", len(changed), 4) + changed + b"text"

    def read(data: bytes) -> object:
        with contextlib.suppress(messages.Broken):
            messages.read_answer(io.BytesIO(data))
        return messages.read_request(io.BytesIO(data))

    return Reader("compile messages", mixed(of_bytes([request, answer]), framed), read, (messages.Broken,))
