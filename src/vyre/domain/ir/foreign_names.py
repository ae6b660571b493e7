"""Names from CUDA, Numba, NumPy, OpenCL, Taichi, Triton and plain Python, with their counterparts in vyre.

Each table maps a foreign name, in lower case and without underscores, to the fix of the error.  Only errors read
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from vyre.domain.ir.function_names import FUNCTION_NAMES

Hints = Mapping[str, str]

_CAST: Final = "write x.cast(f32), with a type of vyre, to convert"
_BITCAST: Final = "write x.bitcast(u32), with a type of vyre, to keep the bits"
_SCALAR: Final = "a value is one scalar of the lane that runs; buffers hold many"
_UNKNOWN: Final = "a value is not known while the kernel is being built; store it to an output buffer to see it"
_ASSIGN: Final = "write v = p.var(...), and v.assign(...) or v += ... to change it"
_LENGTH: Final = "write buffer.length for the number of elements, a u32 value"
_ONE_AXIS: Final = "a buffer has one axis: write m = p.view2d(buffer, width), and m[row, column]"
_LOAD: Final = "write buffer[i] to load an element"
_STORE: Final = "write buffer[i] = x to store an element"
_ELEMENTS: Final = "write the loop: with p.for_(0, buffer.length) as k: ... buffer[k]"
_ELIF: Final = "write `with p.elif_(c):` directly after the block of p.if_"
_SWITCH: Final = "write `with p.switch(x) as s:`, and inside it `with s.case(1, 2):` and `with s.default():`"
_LOOP: Final = "write `with p.for_(start, stop) as k:`"
_MEMORY: Final = (
    "declare p.input, p.inout or p.output for the caller's memory, p.workgroup for memory of a workgroup, p.array for "
    "memory of a lane"
)
_WORKGROUP: Final = "write p.workgroup(name, type, count)"
_ARRAY: Final = (
    "write p.array(name, type, count) for memory of a lane, p.workgroup(name, type, count) for a workgroup's"
)
_PARAM: Final = "write p.param(name, type)"
_VAR: Final = "write p.var(value) for a local that changes, p.let(value) for one that does not"
_LOCAL_ID: Final = "write p.local_id(axis)"
_GROUP_ID: Final = "write p.group_id(axis)"
_GLOBAL_ID: Final = "write p.global_id(axis)"
_NUM_GROUPS: Final = "write p.num_groups(axis)"
_SIZE: Final = "the workgroup size is the Python number that the builder was given as workgroup="
_BARRIER: Final = "write p.barrier()"
_GRID_SYNC: Final = "write p.grid_sync()"
_SPEC: Final = "write p.spec(name, default), or use a Python number"
_BUILD: Final = "call p.build() after the `with` block, and hand the program to session.dispatch"
_OUTPUT: Final = "a kernel prints nothing: store to a p.output buffer, or end the lane with p.trap(address, tag)"
_SUB: Final = "add the negated number: buffer.atomic_add(i, 0 - x), which wraps"


def _table(rows: Mapping[str, str]) -> Hints:
    return MappingProxyType({name: fix for names, fix in rows.items() for name in names.split()})


BUILDER: Final = _table(
    {
        "elif elseif elsif": _ELIF,
        "case match default": _SWITCH,
        "view view1d reshape matrix image": "write m = p.view2d(buffer, width), and m[row, column]",
        "range prange arange loop forrange foreach staticrange unroll": _LOOP,
        "ndarray tensor zeros empty ones full field alloc pointer arg argument": _MEMORY,
        "shared sharedarray sharedmemory sharedmem smem groupshared": _WORKGROUP,
        "local localarray scratch private privatearray stack": _ARRAY,
        "scalar parameter": _PARAM,
        "variable mutable mut set assign register": _VAR,
        "const constant constexpr": _SPEC,
        "threadid threadidx tid localidx getlocalid localinvocationid threadinblock": _LOCAL_ID,
        "blockid blockidx ctaid programid workgroupid getgroupid groupidx": _GROUP_ID,
        "grid gid globalidx globalthreadid getglobalid globalinvocationid index": _GLOBAL_ID,
        "griddim gridsize numprograms numworkgroups getnumgroups numblocks": _NUM_GROUPS,
        "blockdim blocksize workgroupsize localsize getlocalsize numthreads": _SIZE,
        "laneid lane": "write p.subgroup_lane()",
        "warpsize wavesize simdwidth": "write p.subgroup_size()",
        "syncthreads sync syncwarp workgroupbarrier threadfence fence memfence debugbarrier": _BARRIER,
        "syncgrid gridbarrier gridsynchronize": _GRID_SYNC,
        "load": _LOAD,
        "store": _STORE,
        "cast astype": _CAST,
        "print printf debugprint deviceprint": _OUTPUT,
        "assert deviceassert staticassert": "write `with p.if_(~c):` and inside it p.trap(address, tag)",
        "program compile finish end finalize launch run dispatch": _BUILD,
        "exit quit": "write p.return_() to end the lane",
    }
)
_IN_PYTHON: Final = "write `for k in range(n):`, or `for k in vyre.static(range(4)):` to repeat the body in the program"
KERNEL: Final = _table(
    {
        "threadid threadidx tid localidx getlocalid localinvocationid threadinblock": "write vyre.local_id(axis)",
        "blockid blockidx ctaid programid workgroupid getgroupid groupidx": "write vyre.group_id(axis)",
        "grid gid globalidx globalthreadid getglobalid globalinvocationid index": "write vyre.global_id(axis)",
        "griddim gridsize numprograms numworkgroups getnumgroups numblocks": "write vyre.num_groups(axis)",
        "blockdim blocksize workgroupsize localsize getlocalsize numthreads": (
            "the workgroup size is the number of @vyre.kernel(workgroup=...): give it a name in the module, and use it"
        ),
        "laneid lane": "write vyre.subgroup_lane()",
        "warpsize wavesize simdwidth": "write vyre.subgroup_size()",
        "syncthreads sync syncwarp workgroupbarrier threadfence fence memfence debugbarrier": "write vyre.barrier()",
        "syncgrid gridbarrier gridsynchronize": "write vyre.grid_sync()",
        "shared sharedarray sharedmemory sharedmem smem groupshared workgroup": "write vyre.workgroup_array(f32, n)",
        "local localarray scratch private stack": "write vyre.private_array(f32, n)",
        "zeros empty ones full array": (
            "write vyre.private_array(f32, n) for memory of a lane, vyre.workgroup_array(f32, n) for a workgroup's"
        ),
        "range prange arange loop forrange staticrange unroll": _IN_PYTHON,
        "load": "write x[i] to load an element",
        "store": "write x[i] = v to store an element",
        "atomicadd atomicsub atomicmin atomicmax atomicand atomicor atomicxor": "write x.atomic_add(i, v) or the like",
        "atomiccas atomicxchg atomicexch": "write x.atomic_compare_exchange(i, expected, v) or x.atomic_exchange(i, v)",
        "const constant constexpr": "annotate a parameter as Static[int], or use a constant of the module",
        "where ifelse": "write `a if c else b`",
        "cdiv": "write (a + b - 1) // b",
        "cast": "write f32(x), with a type of vyre",
        "print printf debugprint deviceprint": "store what is to be seen to an array",
        "assert deviceassert staticassert": 'write `if not c: vyre.trap(number, "what happened")`',
        "dot matmul sum": "write a loop that adds up",
        "exit quit": "write return, which ends the lane",
    }
)
"""For kernels in plain Python, whose functions are those of the module."""
SWITCH: Final = _table(
    {
        "else otherwise elsecase defaultcase": "write `with s.default():`",
        "when of label arm match is": "write `with s.case(1, 2):`",
        "break": "leave it out: no lane falls through to the next arm",
    }
)
BUFFER: Final = _table(
    {
        "shape size len count numel nelements nbytes": _LENGTH,
        "ndim strides reshape t transpose flatten ravel flat": _ONE_AXIS,
        "astype to cast view": "convert elements: buffer[i].cast(f32)",
        "load get read item at": _LOAD,
        "store set write put fill copy copyfrom copyto": _STORE,
        "type elementtype elemtype element": "write buffer.dtype for the type that an element loads as",
        "data ptr address pointer": "there are no pointers: buffer[i] is an element",
        "sum prod mean max min any all argmax argmin sort dot cumsum tolist": _ELEMENTS,
        "atomicsub atomicinc atomicdec": _SUB,
        "atomiccas atomiccmpxchg atomiccompareandswap compareexchange cas": (
            "write buffer.atomic_compare_exchange(i, expected, value)"
        ),
        "atomicxchg atomicexch atomicswap exchange swap": "write buffer.atomic_exchange(i, value)",
        "atomicnand": "write buffer.atomic_fetch_nand(i, value)",
        "atomicload": _LOAD,
        "atomicstore": _STORE,
    }
)
VALUE: Final = _table(
    {
        "astype to type convert asfloat asint": _CAST,
        "view reinterpret bits asuint": _BITCAST,
        "shape size len length ndim t reshape flatten sum any all mean": _SCALAR,
        "item tolist numpy value": _UNKNOWN,
        "set store assign increment add": _ASSIGN,
        "bitcount": "write popcount(x)",
        "bitlength": "write 32 - clz(x) for a u32",
        "isinteger": "compare: floor(x) == x",
        "real imag conjugate": "there are no complex values",
        "clip clamp": "write min_(max_(x, low), high)",
    }
)
SESSION: Final = _table(
    {
        "run execute launch call invoke enqueue apply evaluate": "write session.dispatch(program, inputs)",
        "todevice device devicearray array asarray put copy buffer alloc allocate malloc tensor zeros empty": (
            "write session.resident(data) for memory that stays on the device; session.dispatch takes NumPy arrays"
        ),
        "tohost fromdevice copytohost get fetch readback": (
            "session.dispatch returns NumPy arrays: result[name]; session.download([...]) reads resident arrays"
        ),
        "synchronize sync wait finish barrier": (
            "session.dispatch waits by itself; session.submit(...) returns a future, whose .result() waits"
        ),
        "jit kernel load build createpipeline": "write session.compile(program)",
        "queue stream commandqueue createcommandencoder": "write session.sequence(steps) to run several launches",
        "exit shutdown destroy release free delete": "write session.close()",
    }
)
RESULT: Final = _table(
    {
        "outputs output get values value data array arrays buffers numpy result read": "write result[name]",
        "shape dtype size tolist sum copy astype": "index the result first: result[name] is a NumPy array",
        "time elapsed duration ms seconds": "write result.timing",
        "grid workgroup blocks": "write result.launch",
    }
)
FUNCTION: Final = _table(
    {
        "where ifelse choose piecewise": "write select(c, a, b)",
        "maximum fmax": "write max_(a, b)",
        "minimum fmin": "write min_(a, b)",
        "absolute fabs": "write abs_(x)",
        "rint around": "write round_even(x)",
        "rsqrt": "write inverse_sqrt(x)",
        "popc bitcount bitwisecount": "write popcount(x)",
        "brev": "write reverse_bits(x)",
        "ffs": "write ctz(x), which counts the zeros below the lowest one",
        "isnan": "write is_nan(x)",
        "isinf": "write is_inf(x)",
        "isfinite": "write is_finite(x)",
        "arcsin": "write asin(x)",
        "arccos": "write acos(x)",
        "arctan": "write atan(x)",
        "pow power floatpower": "multiply, x * x, or write exp2(y * log2(x)) for x > 0",
        "square": "write x * x",
        "cbrt": "write exp2(log2(x) / 3.0) for x > 0",
        "expm1": "write exp(x) - 1.0",
        "log1p": "write log(1.0 + x)",
        "log10": "write log2(x) * 0.30102999566398120",
        "mod fmod remainder": "write a % b for integers, a - b * floor(a / b) for floats",
        "divmod floordivide": "write a / b for the quotient, which integers truncate, and a % b",
        "add": "write a + b",
        "subtract": "write a - b",
        "multiply": "write a * b",
        "divide truedivide": "write a / b",
        "negative": "write -x",
        "greater less greaterequal lessequal equal notequal": "write the comparison with its operator, such as a < b",
        "logicaland logicalor logicalnot bitwiseand bitwiseor invert": "write & | ~",
        "clip clamp": "write min_(max_(x, low), high)",
        "ballot": "write subgroup_ballot(c)",
        "shfl shuffle shflsync": "write subgroup_shuffle(x, lane)",
        "warpreduceadd simdsum": "write subgroup_add(x)",
        "reduceaddsync waveactivesum": "write subgroup_add(x)",
        "reduceminsync waveactivemin simdmin": "write subgroup_min(x)",
        "reducemaxsync waveactivemax simdmax": "write subgroup_max(x)",
        "anysync waveactiveanytrue": "write subgroup_any(c)",
        "allsync waveactivealltrue": "write subgroup_all(c)",
        "waveprefixsum simdprefixexclusivesum": "write subgroup_exclusive_add(x)",
        "sum prod mean amax amin max min any all dot matmul cumsum sort argmax": _ELEMENTS,
        "array asarray zeros empty stack concatenate copy": _MEMORY,
    }
)
FLOAT: Final[Hints] = MappingProxyType({"%": "write a - b * floor(a / b)"})
"""Operators that are for integers only, and what to write for floats."""
TYPE: Final = _table(
    {
        "float float32 single": "f32",
        "float64 double": "f64",
        "float16 half": "f16",
        "bfloat16": "bf16",
        "int int32": "i32",
        "int64 long": "i64",
        "int16 short": "i16",
        "int8": "i8",
        "uint uint32": "u32",
        "uint64": "u64",
        "uint16": "u16",
        "uint8 byte ubyte": "u8",
        "bool boolean": "bool_",
    }
)


def plain(name: str) -> str:
    """Returns the name in the spelling of the tables: ``threadIdx`` and ``thread_idx`` become ``threadidx``."""
    return name.replace("_", "").lower()


def function_hint(name: str) -> str | None:
    """Returns the replacement for the function ``name`` of NumPy, of ``math`` or of another language, or None."""
    own = {plain(function): function for function in FUNCTION_NAMES}
    return f"write {own[plain(name)]}(...), a function of vyre" if plain(name) in own else FUNCTION.get(plain(name))


def attribute_hint(owner: str, name: str, hints: Hints, attributes: Iterable[str]) -> str | None:
    """Returns the replacement for ``owner.name`` where ``owner`` has ``attributes``, or None if no name is similar."""
    if hint := hints.get(plain(name)):
        return hint
    if (near := closest(name, attributes)) is not None:
        return f"write {owner}.{near}"
    return function_hint(name)


def closest(name: str, known: Iterable[str]) -> str | None:
    """Returns the name among ``known`` that is most similar to ``name``, or None.

    A short name with another letter in it is another word: ``sort`` is no slip for ``sqrt``, but ``sqtr`` is.
    """
    spelled = {plain(candidate): candidate for candidate in known}
    from difflib import get_close_matches  # only for errors

    word = plain(name)
    for near in get_close_matches(word, spelled, cutoff=0.7):
        if len(word) > len("sort") or len(near) != len(word) or sorted(near) == sorted(word):
            return spelled[near]
    return None


def nearest_of(name: str, known: Iterable[str]) -> str:
    """Returns the name among ``known`` that is most similar to ``name``, or all of them as a choice, for a message."""
    names = sorted(known)
    near = closest(name, names)
    return f"`{near}`" if near else f"one of {', '.join(names)}"


def type_hint(type_: object) -> str | None:
    """Returns the name of the vyre type that corresponds to a type, or name of a type, of Python or NumPy, or None."""
    name = type_ if isinstance(type_, str) else getattr(type_, "__name__", getattr(type_, "name", ""))
    known = plain(str(name))
    return TYPE.get(known, known if known in {*TYPE.values()} else None)


def module_hint(name: str, public: Iterable[str]) -> str | None:
    """Returns the replacement for ``vyre.name``, or None if no name is similar."""
    near = type_hint(name) or closest(name, public)
    return f"write vyre.{near}" if near else function_hint(name)
