"""The callers of each decision, found in the source, and the inputs that they pass as one constant.

A decision is called if code of ``ports``, ``adapters``, ``app`` or ``graphs`` that is itself imported names one of its
public functions, or if a function of another called decision names one.  Imports alone, types and tests do not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Final, NamedTuple

SOURCE: Final = Path(__file__).resolve().parents[1] / "src" / "vyre"
RUNNING: Final = ("ports", "adapters", "app", "graphs")
DECISIONS: Final = ("policies", "adapters/*/decisions")
NO_DECISIONS: Final = frozenset({"__init__", "decision_records", "journal", "record", "ptxas_hazard_table"})
_SHOWN: Final = 3


class Definition(NamedTuple):
    """A function, class or constant at the top of a module, by the dotted name of the module below the package."""

    module: str
    name: str


class Asked(NamedTuple):
    """The callers of a decision.

    ``by`` lists the files below the package that name a function of it, ``through`` the decisions that do.  Both are
    sorted; ``through`` counts only where ``by`` is empty.
    """

    decision: str
    by: tuple[str, ...]
    through: tuple[str, ...]

    @property
    def anybody(self) -> bool:
        """Whether the decision has a caller."""
        return bool(self.by or self.through)

    @property
    def text(self) -> str:
        """The callers as a cell of the index, in Markdown."""
        if self.by:
            more = f" and {len(self.by) - _SHOWN} more" if len(self.by) > _SHOWN else ""
            return ", ".join(f"`{file}`" for file in self.by[:_SHOWN]) + more
        if self.through:
            return "through " + ", ".join(f"[{name}]({name}.md)" for name in self.through[:_SHOWN])
        return "nothing"


@cache
def askers(source: Path = SOURCE) -> Mapping[str, Asked]:
    """Returns the callers of every decision by the decision's name."""
    read = _read(source)
    direct = read.direct
    reached = _reached(read, direct)
    return {
        module.rpartition(".")[2]: Asked(
            module.rpartition(".")[2],
            tuple(sorted({file for d, files in direct.items() if _asks(d, module, read.trees) for file in files})),
            tuple(sorted({name for d, names in reached.items() if _asks(d, module, read.trees) for name in names})),
        )
        for module in sorted(read.decisions)
    }


def idle_functions(source: Path = SOURCE) -> tuple[str, ...]:
    """Returns the public functions that running code does not call, as dotted names."""
    read = _read(source)
    functions = {
        Definition(module, node.name)
        for module in read.decisions
        for node in read.trees[module].body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }
    reached = _reached(read, read.direct)
    return tuple(sorted(f"{definition.module}.{definition.name}" for definition in functions - reached.keys()))


@dataclass(frozen=True)
class _Read:
    """The package: the tree of each module, the modules of decisions, the modules whose text has a word of the path of
    any decision, and what each definition of a decision names.
    """

    trees: Mapping[str, ast.Module]
    decisions: frozenset[str]
    near: frozenset[str]
    named: Mapping[str, Mapping[str, set[Definition]]]

    @cached_property
    def direct(self) -> dict[Definition, set[str]]:
        """The definitions of decisions that running code names, and the files that do."""
        imported = _imported(self.trees)
        direct: dict[Definition, set[str]] = {}
        for module in sorted((self.near - self.decisions) & imported):
            if module.split(".")[0] in RUNNING:
                tree = self.trees[module]
                for definition in _mentions(tree, _imports(tree, self.trees)):
                    if definition.module in self.decisions:
                        direct.setdefault(definition, set()).add(f"{module.replace('.', '/')}.py")
        return direct


@cache
def _read(source: Path) -> _Read:
    texts = {_dotted(path, source): path.read_text("utf-8") for path in sorted(source.rglob("*.py"))}
    trees = {module: ast.parse(text) for module, text in texts.items()}
    decisions = frozenset(_dotted(path, source) for path in _decision_files(source))
    near = decisions | {module for module, text in texts.items() if "policies" in text or "decisions" in text}
    return _Read(trees, decisions, near, {module: _named(trees[module], module, trees) for module in decisions})


def _reached(read: _Read, first: Iterable[Definition]) -> dict[Definition, set[str]]:
    """Returns what the definitions ``first`` name, directly or not, and the names of the other decisions that do."""
    reached: dict[Definition, set[str]] = {definition: set() for definition in first}
    ahead = list(reached)
    while ahead:
        asking = ahead.pop()
        for found in read.named.get(asking.module, {}).get(asking.name, ()):
            if found.module not in read.decisions:
                continue
            if found not in reached:
                ahead.append(found)
                reached[found] = set()
            if found.module != asking.module:
                reached[found].add(asking.module.rpartition(".")[2])
    return reached


def _imported(trees: Mapping[str, ast.Module]) -> frozenset[str]:
    """Returns the modules that code other than tests imports, by statement or by name; other modules do not run."""
    found: set[str] = set()
    for module, tree in trees.items():
        for node in ast.walk(tree) if module.split(".")[0] != "testing" else ():
            match node:
                case ast.ImportFrom(module=str(source), names=names):
                    found |= {source, *(f"{source}.{alias.name}" for alias in names)}
                case ast.Constant(value=str(text)) if text.startswith("vyre."):
                    found.add(text)
    return frozenset(name.removeprefix("vyre.") for name in found)


def _asks(definition: Definition, module: str, trees: Mapping[str, ast.Module]) -> bool:
    """Returns whether this is a public function of the module; naming a record or a verdict is no call."""
    if definition.module != module or definition.name.startswith("_"):
        return False
    return any(isinstance(node, ast.FunctionDef) and node.name == definition.name for node in trees[module].body)


def _decision_files(source: Path) -> Iterator[Path]:
    for pattern in DECISIONS:
        for folder in source.glob(pattern):
            yield from (path for path in folder.rglob("*.py") if path.stem not in NO_DECISIONS)


def _dotted(path: Path, source: Path) -> str:
    return ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


def _named(tree: ast.Module, module: str, trees: Mapping[str, ast.Module]) -> dict[str, set[Definition]]:
    """Returns the definitions that each definition of a module names, those of its own module included."""
    defined = dict(_defined(tree))
    known = _imports(tree, trees) | {name: Definition(module, name) for name in defined}
    return {name: set(_mentions(node, known)) for name, node in defined.items()}


def _defined(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, node
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name, node


def _imports(tree: ast.Module, trees: Mapping[str, ast.Module]) -> dict[str, Definition]:
    """Returns the definitions behind the imported names; a module counts as a definition without a name."""
    known: dict[str, Definition] = {}
    for node in _running(tree):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("vyre."):
            inside = str(node.module).removeprefix("vyre").removeprefix(".")
            for alias in node.names:
                below = f"{inside}.{alias.name}".removeprefix(".")
                held = Definition(below, "") if below in trees else Definition(inside, alias.name)
                known[alias.asname or alias.name] = held
    return known


def _mentions(tree: ast.AST, known: Mapping[str, Definition]) -> Iterator[Definition]:
    for node in _running(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name in known:
                yield known[name]
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in known and not known[name].name:
                yield Definition(known[name].module, attribute)


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """Yields all nodes except those that only type checkers evaluate."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            todo += node.orelse
            continue
        yield node
        todo += [child for name, child in _children(node) if name not in ("annotation", "returns")]


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield name, child


# ---- inputs that no caller varies
_UNKNOWN: Final = "anything"


def constant_inputs(source: Path = SOURCE) -> tuple[str, ...]:
    """Returns the inputs that all callers in the package give as one constant, as ``decision.Record.field``.

    Inputs are the fields of records, but those of thresholds and verdicts, and the parameters of public functions.  A
    record that is nowhere built is no input, and what ``replace`` changes or ``**`` passes may be anything.
    """
    read = _read(source)
    signatures = {place: fields for module in read.decisions for place, fields in _signatures(read, module)}
    passed: dict[tuple[Definition, str], set[str]] = {}
    for module in sorted(read.near):
        if module.split(".")[0] == "testing":
            continue
        tree = read.trees[module]
        known = _imports(tree, read.trees)
        if module in read.decisions:
            known |= {name: Definition(module, name) for name, _ in _defined(tree)}
        for node in ast.walk(tree):
            for place, values in _passed(node, known, signatures) if isinstance(node, ast.Call) else ():
                for field, value in values.items():
                    passed.setdefault((place, field), set()).add(value)
    return tuple(
        sorted(
            f"{place.module.rpartition('.')[2]}.{place.name}.{field}"
            for (place, field), values in passed.items()
            if len(values) == 1 and _UNKNOWN not in values
        )
    )


def _signatures(read: _Read, module: str) -> Iterator[tuple[Definition, dict[str, ast.expr | None]]]:
    """Yields the records and public functions of a module with their fields or parameters, and the defaults of these.

    Thresholds are what a public function has a default for.
    """
    tree = read.trees[module]
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name[0] != "_"]
    thresholds = {
        ast.unparse(argument.annotation or ast.Constant("")).strip("'")
        for function in functions
        for argument in function.args.args[len(function.args.args) - len(function.args.defaults) :]
    }
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name, args=args) if node in functions and module != "policies.arith":
                required = args.args[: len(args.args) - len(args.defaults)]
                yield Definition(module, name), {argument.arg: None for argument in required}
            case ast.ClassDef(name=name, body=body, decorator_list=[ast.Name(id="record")]) if name not in thresholds:
                if not name.endswith(("Thresholds", "Limits")):
                    named = [line for line in body if isinstance(line, ast.AnnAssign)]
                    fields = {line.target.id: line.value for line in named if isinstance(line.target, ast.Name)}
                    yield Definition(module, name), fields


def _passed(
    call: ast.Call, known: Mapping[str, Definition], signatures: Mapping[Definition, Mapping[str, ast.expr | None]]
) -> Iterator[tuple[Definition, dict[str, str]]]:
    """Yields what a call says of the inputs of decisions."""
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    match call.func:
        case ast.Name(id="replace"):
            for place, fields in signatures.items():
                if keywords.keys() <= fields.keys():
                    yield place, dict.fromkeys((str(name) for name in keywords), _UNKNOWN)
            return
        case ast.Name(id=name) if name in known:
            place = known[name]
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in known and not known[name].name:
            place = Definition(known[name].module, attribute)
        case _:
            return
    if place not in signatures:
        return
    fields = signatures[place]
    given: dict[str | None, ast.expr | None] = {**fields, **dict(zip(fields, call.args, strict=False)), **keywords}
    spread = None in keywords or any(isinstance(argument, ast.Starred) for argument in call.args)
    yield place, {field: _UNKNOWN if spread else _constant(given[field]) for field in fields}


def _constant(value: ast.expr | None) -> str:
    """Returns the text of a literal, a member of an enumeration or a named constant, else that it may be anything."""
    match value:
        case ast.Constant() | ast.Tuple(elts=[]):
            return ast.unparse(value)
        case ast.Attribute(value=ast.Name(id=owner), attr=member) if owner[:1].isupper() and member.isupper():
            return ast.unparse(value)
        case ast.Name(id=name) if name.isupper():
            return name
        case ast.Call(func=ast.Name(id=name), args=[], keywords=[]) if name[:1].isupper():
            return ast.unparse(value)
    return _UNKNOWN
