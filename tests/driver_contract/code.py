"""Libraries, kernels and launches."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Final

from driver_contract.case import Cases
from driver_contract.ptx import GUARDED, LOAD, SHARED, STORE, image, launch_shape, load, parameter_block
from driver_contract.rig import AnyRig, code_of, failure_of
from vyre.adapters.cuda.codes import Attribute, Result
from vyre.adapters.cuda.seam import JitOptions, LaunchShape

CASES: Final = Cases()


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


@CASES()
def kernels_are_found_by_name(rig: AnyRig) -> None:
    library = rig.driver.library_load(image(STORE, LOAD)).library
    assert rig.driver.library_kernel(library, "store") != rig.driver.library_kernel(library, "load")
    rig.driver.library_unload(library)


@CASES()
def kernel_that_is_not_there_is_not_found(rig: AnyRig) -> None:
    library = rig.driver.library_load(image(STORE)).library
    for name in ("load", "stor", "store2", ""):
        assert code_of(partial(rig.driver.library_kernel, library, name)) == Result.NOT_FOUND


@CASES()
def image_that_is_no_code_is_invalid(rig: AnyRig) -> None:
    assert code_of(lambda: rig.driver.library_load(b"no code at all\0")) == Result.INVALID_IMAGE


@CASES()
def ptx_that_does_not_end_is_refused(rig: AnyRig) -> None:
    """The driver would read on behind it."""
    assert code_of(lambda: rig.driver.library_load(image(STORE).rstrip(b"\0"))) == Result.INVALID_PTX


@CASES()
def ptx_newer_than_the_driver_is_unsupported(rig: AnyRig) -> None:
    newer = image(STORE).replace(b".version 7.8", b".version 99.0")
    assert code_of(lambda: rig.driver.library_load(newer)) == Result.UNSUPPORTED_PTX_VERSION


@CASES(needs_execution=True)
def broken_ptx_is_refused_with_the_compilers_log(rig: AnyRig) -> None:
    broken = image(STORE.replace("mul.wide.u32", "mul.broad.u32"))
    failure = failure_of(lambda: rig.driver.library_load(broken))
    assert failure.code == Result.INVALID_PTX
    assert "line" in failure.log


@CASES()
def compiler_options_are_taken(rig: AnyRig) -> None:
    for options in (JitOptions(level=0), JitOptions(level=4, verbose=True), JitOptions(max_registers=64)):
        loaded = rig.driver.library_load(image(STORE), options)
        assert rig.driver.library_kernel(loaded.library, "store")


@CASES(hardware=False)
def unloaded_library_and_its_kernels_are_invalid_handles(rig: AnyRig) -> None:
    library = rig.driver.library_load(image(STORE)).library
    kernel = rig.driver.library_kernel(library, "store")
    rig.driver.library_unload(library)
    calls: tuple[Callable[[], object], ...] = (
        lambda: rig.driver.library_unload(library),
        lambda: rig.driver.library_kernel(library, "store"),
        lambda: rig.driver.kernel_facts(kernel),
        lambda: rig.driver.occupancy(kernel, 32, 0),
    )
    assert {code_of(call) for call in calls} == {Result.INVALID_HANDLE}


@CASES()
def kernel_tells_its_parameters(rig: AnyRig) -> None:
    facts = rig.driver.kernel_facts(load(rig, GUARDED, "guarded"))
    assert facts.parameters in (((0, 8), (8, 4), (16, 16)), None)
    assert (facts.parameters is None) == (rig.driver.driver_version() < 12_040)
    assert rig.driver.kernel_facts(load(rig, SHARED, "shared_user")).parameters in ((), None)


@CASES()
def kernel_tells_what_it_needs(rig: AnyRig) -> None:
    facts = rig.driver.kernel_facts(load(rig, STORE, "store"))
    assert 0 < facts.registers <= 255
    assert 128 <= facts.max_threads <= 1024
    assert facts.local_bytes == facts.static_shared == 0
    major, minor = Attribute.COMPUTE_CAPABILITY_MAJOR, Attribute.COMPUTE_CAPABILITY_MINOR
    capability = 10 * rig.driver.device_attribute(0, major) + rig.driver.device_attribute(0, minor)
    assert facts.binary_version == capability


@CASES()
def required_block_is_the_largest(rig: AnyRig) -> None:
    assert rig.driver.kernel_facts(load(rig, GUARDED, "guarded")).max_threads == 64


@CASES(needs_execution=True)
def kernel_tells_its_static_shared_memory(rig: AnyRig) -> None:
    assert rig.driver.kernel_facts(load(rig, SHARED, "shared_user")).static_shared == 4096


@CASES()
def occupancy_falls_as_blocks_grow(rig: AnyRig) -> None:
    kernel = load(rig, STORE, "store")
    most = rig.driver.device_attribute(0, Attribute.MAX_BLOCKS_PER_MULTIPROCESSOR)
    found = [rig.driver.occupancy(kernel, threads, 0) for threads in (32, 128, 512)]
    assert found == sorted(found, reverse=True)
    assert 0 < found[-1] <= found[0] <= most
    assert rig.driver.occupancy(kernel, 32, 32_768) < found[0]


@CASES()
def occupancy_of_no_threads_is_an_invalid_value(rig: AnyRig) -> None:
    assert code_of(lambda: rig.driver.occupancy(load(rig, STORE, "store"), 0, 0)) == Result.INVALID_VALUE


@CASES()
def dynamic_shared_memory_beyond_the_device_is_an_invalid_value(rig: AnyRig) -> None:
    kernel = load(rig, STORE, "store")
    most = rig.driver.device_attribute(0, Attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
    rig.driver.kernel_allow_dynamic_shared(kernel, most)
    assert code_of(lambda: rig.driver.kernel_allow_dynamic_shared(kernel, most + 1)) == Result.INVALID_VALUE


@CASES()
def large_dynamic_shared_memory_must_be_allowed_first(rig: AnyRig) -> None:
    kernel, target = load(rig, STORE, "store"), rig.device(128)
    large = rig.driver.device_attribute(0, Attribute.MAX_SHARED_MEMORY_PER_BLOCK) + 1024
    parameters = parameter_block("QI", target, 1)
    launch = rig.driver.prepare_launch(kernel, launch_shape(shared=large), rig.stream, parameters)
    assert code_of(launch) == Result.INVALID_VALUE
    rig.driver.kernel_allow_dynamic_shared(kernel, large)
    launch()
    rig.driver.stream_synchronize(rig.stream)


@CASES()
def shapes_beyond_the_device_are_invalid_values(rig: AnyRig) -> None:
    kernel, parameters = load(rig, STORE, "store"), parameter_block("QI", rig.device(128), 1)
    shapes = (
        LaunchShape((0, 1, 1), (32, 1, 1)),
        LaunchShape((1, 1, 0), (32, 1, 1)),
        LaunchShape((1, 65_536, 1), (32, 1, 1)),
        LaunchShape((1, 1, 65_536), (32, 1, 1)),
        LaunchShape((2**31, 1, 1), (32, 1, 1)),
        LaunchShape((2**32, 1, 1), (32, 1, 1)),
        LaunchShape((-1, 1, 1), (32, 1, 1)),
        LaunchShape((1, 1, 1), (32, 1, 1), -1),
        LaunchShape((1, 1, 1), (0, 1, 1)),
        LaunchShape((1, 1, 1), (1025, 1, 1)),
        LaunchShape((1, 1, 1), (64, 32, 1)),
        LaunchShape((1, 1, 1), (1, 1, 65)),
    )

    def launch(shape: LaunchShape) -> None:
        rig.driver.prepare_launch(kernel, shape, rig.stream, parameters)()

    codes = {shape: code_of(partial(launch, shape)) for shape in shapes}
    assert codes == dict.fromkeys(shapes, Result.INVALID_VALUE)


@CASES()
def block_other_than_the_required_one_is_an_invalid_value(rig: AnyRig) -> None:
    kernel = load(rig, GUARDED, "guarded")
    parameters = parameter_block("Q I 16s", rig.device(512), 1, bytes(16))
    for threads in (32, 128):
        launch = rig.driver.prepare_launch(kernel, launch_shape(threads=threads), rig.stream, parameters)
        assert code_of(launch) == Result.INVALID_VALUE


@CASES()
def cooperative_launch_must_be_resident(rig: AnyRig) -> None:
    kernel = load(rig, STORE, "store")
    fits = rig.driver.occupancy(kernel, 256, 0) * rig.driver.device_attribute(0, Attribute.MULTIPROCESSOR_COUNT)
    parameters = parameter_block("QI", rig.device(4 * 256 * (fits + 1)), 1)
    launches = [
        rig.driver.prepare_launch(kernel, launch_shape(blocks, 256, cooperative=True), rig.stream, parameters)
        for blocks in (fits, fits + 1)
    ]
    launches[0]()
    assert code_of(launches[1]) == Result.COOPERATIVE_LAUNCH_TOO_LARGE
    rig.driver.stream_synchronize(rig.stream)


@CASES()
def error_names_the_call_and_the_code(rig: AnyRig) -> None:
    library = rig.driver.library_load(image(STORE)).library
    error = failure_of(lambda: rig.driver.library_kernel(library, "missing"))
    assert (error.name, error.call) == ("CUDA_ERROR_NOT_FOUND", "cuLibraryGetKernel")
    assert "missing" in error.arguments.values()


@CASES(needs_execution=True)
def kernel_stores_what_it_is_told(rig: AnyRig) -> None:
    kernel, target = load(rig, STORE, "store"), rig.upload(bytes(4 * 96))
    parameters = parameter_block("QI", target, 0xDEADBEEF)
    rig.driver.prepare_launch(kernel, launch_shape(2), rig.stream, parameters)()
    assert rig.download(target, 4 * 96) == words(*[0xDEADBEEF] * 64, *[0] * 32)


@CASES(needs_execution=True)
def kernel_reads_parameters_of_every_kind(rig: AnyRig) -> None:
    kernel, target = load(rig, GUARDED, "guarded"), rig.upload(words(*range(128)))
    parameters = parameter_block("Q I 16s", target, 100, words(1, 2, 1000, 4))
    rig.driver.prepare_launch(kernel, launch_shape(2, 64), rig.stream, parameters)()
    assert rig.download(target, 512) == words(*(n + 1000 if n < 100 else n for n in range(128)))


@CASES(needs_execution=True)
def launches_of_one_stream_run_in_order(rig: AnyRig) -> None:
    copy, store = load(rig, LOAD, "load"), load(rig, STORE, "store")
    source, target = rig.upload(bytes(128)), rig.upload(bytes(16))
    store_parameters = parameter_block("QI", source, 0)
    copy_parameters = parameter_block("QQ", source, 0)
    storing = rig.driver.prepare_launch(store, launch_shape(), rig.stream, store_parameters)
    copying = rig.driver.prepare_launch(copy, launch_shape(threads=1), rig.stream, copy_parameters)
    for index in range(4):
        store_parameters.pack(source, 10 + index)
        storing()
        copy_parameters.pack(source, target + 4 * index)
        copying()
    assert rig.download(target, 16) == words(10, 11, 12, 13)


@CASES(needs_execution=True)
def parameters_are_copied_at_the_launch(rig: AnyRig) -> None:
    kernel, targets = load(rig, STORE, "store"), [rig.upload(bytes(128)) for _ in range(2)]
    parameters = parameter_block("QI", targets[0], 1)
    launch = rig.driver.prepare_launch(kernel, launch_shape(), rig.stream, parameters)
    launch()
    parameters.pack(targets[1], 2)
    launch()
    parameters.pack(0, 0)
    assert [rig.download(target, 4) for target in targets] == [words(1), words(2)]


@CASES(needs_execution=True)
def prepared_launch_outlives_every_other_reference_to_its_parameters(rig: AnyRig) -> None:
    kernel, target = load(rig, STORE, "store"), rig.upload(bytes(128))
    launch = rig.driver.prepare_launch(kernel, launch_shape(), rig.stream, parameter_block("QI", target, 77))
    for _ in range(100):
        parameter_block("QI", 0, 0)
    launch()
    assert rig.download(target, 4) == words(77)
