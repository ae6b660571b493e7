"""Libraries, kernels and what is known of them."""

from __future__ import annotations

from typing import Final

from support.driver_cases.case import HEADER, SHARED, STORE, SUM, Subject, Suite, image
from vyre.adapters.cuda.codes import Attribute, Result
from vyre.adapters.cuda.seam import JitOptions

SUITE: Final = Suite()
case = SUITE.case


@case()
def a_library_has_its_kernels(s: Subject) -> None:
    library = s.driver.library_load(image(STORE, SUM)).library
    kernels = {s.driver.library_kernel(library, name) for name in ("store", "sum")}
    assert len(kernels) == 2
    assert 0 not in kernels
    assert s.driver.library_kernel(library, "store") in kernels, "a kernel has one handle"
    s.driver.library_unload(library)


@case()
def a_kernel_that_is_not_there_is_not_found(s: Subject) -> None:
    library = s.driver.library_load(image(STORE)).library
    for name in ("stor", "store_", "", "sum"):
        error = s.fails(Result.NOT_FOUND, lambda name=name: s.driver.library_kernel(library, name))  # type: ignore[misc]
        assert error.call == "cuLibraryGetKernel"
    s.driver.library_unload(library)


@case()
def the_same_text_loads_twice(s: Subject) -> None:
    first, second = (s.driver.library_load(image(STORE)).library for _ in range(2))
    assert first != second
    assert s.driver.library_kernel(first, "store") != s.driver.library_kernel(second, "store")
    s.driver.library_unload(first)
    s.driver.library_kernel(second, "store")
    s.driver.library_unload(second)


@case()
def every_level_of_the_compiler_is_taken(s: Subject) -> None:
    for level in range(5):
        s.driver.library_unload(s.driver.library_load(image(STORE), JitOptions(level=level)).library)


@case()
def registers_can_be_limited(s: Subject) -> None:
    library = s.driver.library_load(image(STORE), JitOptions(max_registers=32, verbose=True)).library
    assert s.driver.kernel_facts(s.driver.library_kernel(library, "store")).registers <= 32
    s.driver.library_unload(library)


@case()
def what_is_no_code_is_no_image(s: Subject) -> None:
    error = s.fails(Result.INVALID_IMAGE, lambda: s.driver.library_load(b"no code at all\0"))
    assert error.call == "cuLibraryLoadData"


@case()
def text_that_does_not_end_is_refused(s: Subject) -> None:
    s.fails(Result.INVALID_PTX, lambda: s.driver.library_load(image(STORE)[:-1]))


@case()
def text_of_a_later_version_is_refused(s: Subject) -> None:
    future = image(STORE, header=HEADER.replace("7.8", "99.0"))
    s.fails(Result.UNSUPPORTED_PTX_VERSION, lambda: s.driver.library_load(future))


@case(executes=True)
def bad_text_comes_back_with_the_compilers_log(s: Subject) -> None:
    bad = image(STORE.replace("st.global.u32 [%rd3], %r1;", "st.global.u32 [%rd3], %nowhere;"))
    error = s.fails(Result.INVALID_PTX, lambda: s.driver.library_load(bad))
    assert "line" in error.log
    assert error.call == "cuLibraryLoadData"


@case()
def a_kernel_tells_its_parameters(s: Subject) -> None:
    facts = s.driver.kernel_facts(s.kernel(SUM, "sum"))
    assert facts.parameters in (None, ((0, 8), (8, 8), (16, 4), (20, 4), (32, 32)))


@case()
def a_kernel_tells_what_it_needs(s: Subject) -> None:
    facts = s.driver.kernel_facts(s.kernel(SHARED, "hand_on"))
    assert facts.static_shared == 64
    assert 0 < facts.registers <= 255
    assert 32 <= facts.max_threads <= s.driver.device_attribute(0, Attribute.MAX_THREADS_PER_BLOCK)
    assert facts.ptx_version == 78
    major = s.driver.device_attribute(0, Attribute.COMPUTE_CAPABILITY_MAJOR)
    assert facts.binary_version // 10 == major


@case()
def a_required_block_is_the_largest(s: Subject) -> None:
    assert s.driver.kernel_facts(s.kernel(SUM, "sum")).max_threads == 1


@case()
def occupancy_is_within_the_multiprocessor(s: Subject) -> None:
    kernel = s.kernel(STORE, "store")
    threads = s.driver.device_attribute(0, Attribute.MAX_THREADS_PER_MULTIPROCESSOR)
    for block in (32, 128, 1024):
        assert 1 <= s.driver.occupancy(kernel, block, 0) <= threads // block
    most = s.driver.device_attribute(0, Attribute.MAX_SHARED_MEMORY_PER_BLOCK)
    assert s.driver.occupancy(kernel, 32, most) <= s.driver.occupancy(kernel, 32, 1024)


@case()
def no_threads_have_no_occupancy(s: Subject) -> None:
    kernel = s.kernel(STORE, "store")
    s.fails(Result.INVALID_VALUE, lambda: s.driver.occupancy(kernel, 0, 0))


@case()
def dynamic_shared_memory_has_a_limit(s: Subject) -> None:
    kernel = s.kernel(SHARED, "hand_on")
    most = s.driver.device_attribute(0, Attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
    s.driver.kernel_allow_dynamic_shared(kernel, most - 64)
    s.fails(Result.INVALID_VALUE, lambda: s.driver.kernel_allow_dynamic_shared(kernel, most + 1))
    s.fails(Result.INVALID_VALUE, lambda: s.driver.kernel_allow_dynamic_shared(kernel, -1))


@case(invents_handles=True)
def a_library_is_unloaded_once(s: Subject) -> None:
    library = s.driver.library_load(image(STORE)).library
    kernel = s.driver.library_kernel(library, "store")
    s.driver.library_unload(library)
    s.fails(Result.INVALID_HANDLE, lambda: s.driver.library_unload(library))
    s.fails(Result.INVALID_HANDLE, lambda: s.driver.library_kernel(library, "store"))
    s.fails(Result.INVALID_HANDLE, lambda: s.driver.kernel_facts(kernel))
