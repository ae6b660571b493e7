"""Which code of a bundle runs on a device, and why other code cannot.

PTX text runs on its own capability and every higher one.  A target with the suffix ``a`` (architecture-specific) runs
on that capability only, one with ``f`` (family) on its major with a minor not below its own.  Machine code runs on the
major it was made for, with a minor not below its own.  A driver reads PTX up to a version of its own, and machine code
made by toolkits of its major or an older one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from vyre.adapters.cuda.aot.build import Build, Member, MemberKind, parse_target
from vyre.adapters.cuda.decisions.ptx_target import highest_version
from vyre.adapters.cuda.runtime.facts import CudaDeviceFacts
from vyre.domain.errors import UnusableBundle
from vyre.ports.bundles import Bundle


class Chosen(NamedTuple):
    """The member that runs, and the build that contains it."""

    build: Build
    member: Member


def choose(bundle: Bundle, facts: CudaDeviceFacts, *, machine_code: bool) -> Chosen:
    """Returns the member that runs on a device: machine code before text, then the highest target.

    ``machine_code`` tells whether the driver accepts machine code.  Raises ``UnusableBundle`` with every member and the
    reasons against it.
    """
    usable: list[tuple[tuple[bool, int, str], Chosen]] = []
    refused: list[tuple[str, str]] = []
    for build in bundle.builds:
        if not isinstance(build, Build):
            refused += [(name, "it is code of another kind of device") for name in build.member_names]
            continue
        for member in build.members:
            reasons = list(_reasons(build, member, facts, machine_code))
            if reasons:
                refused.append((build.name_of(member), ", ".join(reasons)))
            else:
                number, suffix = parse_target(build.target)
                usable.append(((member.kind is MemberKind.CUBIN, number, suffix), Chosen(build, member)))
    if not usable:
        device = f"{facts.name} (sm_{facts.target}, driver of CUDA {_cuda(facts)[0]}.{_cuda(facts)[1]})"
        raise UnusableBundle(device=device, refused=tuple(refused))
    return max(usable, key=lambda ranked: ranked[0])[1]


def _reasons(build: Build, member: Member, facts: CudaDeviceFacts, machine_code: bool) -> Iterator[str]:
    number, suffix = parse_target(build.target)
    same_major, higher = number // 10 == facts.target // 10, facts.target >= number
    if suffix == "a":
        if facts.target != number:
            yield f"it is specific to sm_{number}"
    elif member.kind is MemberKind.CUBIN or suffix == "f":
        if not (same_major and higher):
            yield f"it runs on capability {number // 10}.{number % 10} and higher minors of {number // 10} only"
    elif not higher:
        yield f"it needs sm_{number} or higher"
    yield from _driver_reasons(member, facts, machine_code)
    yield from _lacks(build, facts)


def _driver_reasons(member: Member, facts: CudaDeviceFacts, machine_code: bool) -> Iterator[str]:
    version = f"{member.version[0]}.{member.version[1]}"
    if member.kind is MemberKind.PTX:
        if member.version > highest_version(facts.driver_version):
            yield f"the driver does not read PTX {version}"
    elif not machine_code:
        yield "this driver runs no machine code"
    elif member.version[0] > _cuda(facts)[0]:
        yield f"the driver is older than the toolkit of CUDA {version} that made it"


def _lacks(build: Build, facts: CudaDeviceFacts) -> Iterator[str]:
    """Yields the needs of the kernels that the device does not meet."""
    (x, y, z), shared, parameters, cooperative = build.needs
    for lacking, what in (
        (x * y * z > facts.max_threads_per_block, f"{x * y * z} lanes in a workgroup"),
        (x > facts.max_block[0] or y > facts.max_block[1] or z > facts.max_block[2], f"a workgroup of {x, y, z}"),
        (shared > facts.envelope.shared_memory_per_block_bytes, f"{shared} bytes of workgroup memory"),
        (parameters > facts.parameter_limit, f"{parameters} bytes of parameters"),
        (cooperative and not facts.cooperative_launch, "cooperative launches"),
    ):
        if lacking:
            yield f"it needs {what}"


def _cuda(facts: CudaDeviceFacts) -> tuple[int, int]:
    return facts.driver_version // 1000, facts.driver_version % 1000 // 10
