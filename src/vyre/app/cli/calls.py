"""``call_of`` reads a program, of a file or of a kernel in plain Python, and its inputs from a command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vyre.app.cli import arguments
from vyre.app.cli.loading import InvalidSource, load_valid
from vyre.app.cli.targets import Target, python_target
from vyre.app.shorthand import Keywords
from vyre.domain.errors import InvalidConfig, InvalidInput
from vyre.domain.ir.program import Program
from vyre.domain.ir.text_format import name_text
from vyre.domain.printable import shown
from vyre.domain.program_report import InvalidProgram
from vyre.domain.validation.validator import check_rules

if TYPE_CHECKING:
    from vyre.app.kernels.kernel import Kernel


class Call(NamedTuple):
    """A program and what it is run on.

    ``lanes`` returns the lanes that follow from the inputs, if they do, for calls without others.  ``shapes``: those of
    outputs of several axes.
    """

    program: Program
    inputs: dict[str, Any]
    output_counts: dict[str, int] | None = None
    lanes: Callable[[], tuple[int, ...] | None] = lambda: None
    shapes: Mapping[str, tuple[int, ...]] = {}

    def launch(self, grid: tuple[int, ...] | None, extent: tuple[int, ...] | None, spec: Sequence[str]) -> Keywords:
        """Returns how it is launched: on these workgroups or lanes; where both are None, on the lanes that follow."""
        lanes = self.lanes() if grid is None and extent is None else extent
        return Keywords(grid=grid, extent=lanes, spec=arguments.constants(spec), output_counts=self.output_counts)


def call_of(named: Path, texts: list[str], sizes: list[str]) -> Call:
    """Returns the call that the options ``--in`` and ``--size`` describe.

    Raises ``InvalidSource``, ``UnreadableFile``, ``InvalidConfig`` and ``InvalidInput``.
    """
    counts = arguments.counts(sizes)
    target = python_target(named)
    if target is not None:
        from vyre.app.cli.python_files import held
        from vyre.app.kernels.kernel import Kernel

        source = held(target)
        if isinstance(source, Kernel):
            return _of_kernel(source, target, texts, counts)
    program = load_valid(named).program
    return Call(program, arguments.inputs(texts, program), counts)


def call_of_bundle(path: Path, entry: str | None, expect: str | None, texts: list[str], sizes: list[str]) -> Call:
    """Returns the call of an entry point of a bundle; the only one of a bundle needs no name.

    Raises ``UnreadableFile``, ``MalformedBundle``, ``UnexpectedDigest``, ``InvalidConfig`` and ``InvalidInput``.
    """
    from vyre.app.bundle import load_bundle

    bundle = load_bundle(path, expect=expect)
    if entry is None and len(bundle) == 1:
        (entry,) = bundle
    if entry is None or entry not in bundle:
        problem = "the bundle has several entry points" if entry is None else f"the bundle has no {shown(entry)}"
        raise InvalidConfig(problem, fix=f"name one by --entry: {', '.join(map(name_text, bundle))}.")
    program = bundle[entry]
    return Call(program, arguments.inputs(texts, program), arguments.counts(sizes))


def _of_kernel(kernel: Kernel[...], target: Target, options: list[str], counts: dict[str, int] | None) -> Call:
    from vyre.app.cli.python_files import specialized
    from vyre.app.kernels.arguments import is_output
    from vyre.domain.frontend.annotations import ArrayType, StaticType
    from vyre.domain.ir.types import ScalarType

    meaning = kernel._parameters
    texts = arguments.pairs(options, "--in")
    takes = {one.name: one for one in meaning.parameters if not is_output(one)}
    for name in texts:
        if name not in takes:
            raise InvalidInput(f"--in: `{name}` is no input", fix=f"the inputs are {', '.join(takes) or 'none'}.")
    wanted = {name: not isinstance(one.type, ArrayType) for name, one in takes.items() if name not in target.values}
    arguments.expect_all(texts, wanted)
    values: dict[str, Any] = {name: target.values[name] for name in meaning.statics if name in target.values}
    for name, text in texts.items():
        kind = takes[name].type
        if isinstance(kind, StaticType):
            values[name] = arguments.constant(text, f"--in {name}")
            continue
        element: Any = kind.element if isinstance(kind, ArrayType) else kind
        if not isinstance(element, ScalarType):
            element = target.values.get(element.__name__)
        values[name] = arguments.argument(name, text, element, is_number=not isinstance(kind, ArrayType))
    passed = meaning.of_inputs(values)
    resolved = meaning.resolved(passed, counts)
    chosen = {
        **dict(zip(meaning.generic, resolved.types, strict=True)),
        **dict(zip(meaning.statics, resolved.statics, strict=True)),
    }
    program = specialized(kernel, target, {**chosen, **target.values})
    try:
        check_rules(program).raise_if_invalid()
    except InvalidProgram as error:
        raise InvalidSource(error, None) from None
    inputs = {name: value for name, value in values.items() if name not in meaning.statics} | resolved.sizes(program)
    outputs = {name: resolved.shapes[name] for _, name, array in meaning.arrays if array.axes > 1}
    opened = {**(counts or {}), **resolved.output_counts} or None
    return Call(program, inputs, opened, partial(meaning.extent, program, resolved.shapes), outputs)
