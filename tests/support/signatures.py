"""The classes in the signatures of public names, as type checkers read them: from annotations in the source.

Annotations are not evaluated, because much of what they name is imported for type checkers only.  A stub stands for its
module.  An alias and a class that only a stub has, or whose name begins with an underscore, stand for the classes in
their own signatures.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

SOURCE: Final = Path(__file__).resolve().parents[2] / "src"
CALLED: Final = frozenset(
    f"__{name}__"
    for name in ["init", "call", "getitem", "setitem", "iter", "next", "enter", "aenter", "aiter", "await"]
)
"""The methods with two underscores whose arguments and values users pass and get."""


class Definition(NamedTuple):
    """A definition in a module of vyre."""

    module: str
    name: str
    node: ast.stmt

    @property
    def is_transparent(self) -> bool:
        """Whether it is a class that users cannot import, as it exists for type checkers or inside its module only."""
        return self.name.startswith("_") or file_of(self.module).suffix == ".pyi"


class Use(NamedTuple):
    """A class in a signature, and where it stands."""

    place: str
    used: Definition


def file_of(module: str) -> Path:
    base = SOURCE.joinpath(*module.split("."))
    stub, package = base.with_suffix(".pyi"), base / "__init__.py"
    return stub if stub.exists() else package if package.exists() else base.with_suffix(".py")


def is_module(name: str) -> bool:
    return file_of(name).exists()


@cache
def bindings(module: str) -> dict[str, ast.stmt]:
    """Returns the statement that binds each name of a module, those for type checkers included."""
    found: dict[str, ast.stmt] = {}

    def walk(statements: list[ast.stmt]) -> None:
        for node in statements:
            match node:
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                    found.setdefault(name, node)
                case ast.ImportFrom(names=names) | ast.Import(names=names):
                    found.update({alias.asname or alias.name: node for alias in names})
                case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                    found[name] = node
                case ast.If(body=body, orelse=other):
                    walk(body)
                    walk([] if ast.unparse(node.test) == "TYPE_CHECKING" else other)
                case _:
                    pass

    walk(ast.parse(file_of(module).read_text("utf-8")).body)
    return found


@cache
def defined(module: str, name: str) -> Definition | None:
    """Returns the definition of a name that a module has; None for one from outside of vyre, and for a module."""
    node = bindings(module).get(name)
    match node:
        case ast.ImportFrom(module=str(home), names=names) if home.split(".")[0] == "vyre":
            original = next(alias.name for alias in names if (alias.asname or alias.name) == name)
            return None if is_module(f"{home}.{original}") else defined(home, original)
        case None | ast.ImportFrom() | ast.Import():
            return None
        case _:
            return Definition(module, name, node)


def classes_in(module: str, annotation: ast.expr | None, inside: tuple[Definition, ...] = ()) -> Iterator[Definition]:
    """Yields the classes that an annotation names."""
    match annotation:
        case ast.Constant(value=str(text)):
            yield from classes_in(module, ast.parse(text, mode="eval").body, inside)
        case ast.Name(id=name):
            found = defined(module, name)
            if found is not None and found not in inside:
                yield from classes_of(found, inside)
        case ast.Attribute(value=ast.Name(id=qualifier), attr=name):
            node = bindings(module).get(qualifier)
            if isinstance(node, ast.ImportFrom):
                original = next(a.name for a in node.names if (a.asname or a.name) == qualifier)
                home = f"{node.module}.{original}"
                found = defined(home, name) if home.startswith("vyre.") and is_module(home) else None
                yield from () if found is None else classes_of(found, inside)
        case ast.Subscript(value=ast.Name(id="Literal")):
            pass
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[first, *_])):
            yield from classes_in(module, first, inside)
        case ast.AST():
            for part in ast.iter_child_nodes(annotation):
                if isinstance(part, ast.expr):
                    yield from classes_in(module, part, inside)
        case _:
            pass


def classes_of(found: Definition, inside: tuple[Definition, ...]) -> Iterator[Definition]:
    """Yields a class itself, and the classes for which an alias or a type variable stands."""
    match found.node:
        case ast.ClassDef():
            yield found
        case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar"), args=[_, *bounds], keywords=keywords)):
            for bound in (*bounds, *(each.value for each in keywords if each.arg == "bound")):
                yield from classes_in(found.module, bound, (*inside, found))
        case ast.Assign(value=ast.Call(func=ast.Name(id="NewType"))):
            yield found
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias"), value=value) | ast.Assign(value=value):
            yield from classes_in(found.module, value, (*inside, found))
        case _:
            pass


def of_function(module: str, node: ast.FunctionDef) -> Iterator[tuple[str, Definition]]:
    arguments = node.args
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    named = [(one.arg, one.annotation) for one in given if one is not None]
    for name, annotation in (*named, ("return", node.returns)):
        yield from ((f"({name})", found) for found in classes_in(module, annotation))


@cache
def of_class(found: Definition) -> tuple[tuple[str, Definition], ...]:
    """Returns what fields, attributes, properties and methods take and give, those of bases included."""
    return tuple(_of_class(found))


def _of_class(found: Definition) -> Iterator[tuple[str, Definition]]:
    assert isinstance(found.node, ast.ClassDef)
    for base in found.node.bases:
        origin = base.value if isinstance(base, ast.Subscript) else base
        for definition in classes_in(found.module, origin):
            yield from of_class(definition) if definition != found else ()
    for node in found.node.body:
        match node:
            case ast.FunctionDef(name=name) if not name.startswith("_") or name in CALLED:
                yield from ((f".{name}{place}", used) for place, used in of_function(found.module, node))
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if not name.startswith("_"):
                yield from ((f".{name}", used) for used in classes_in(found.module, annotation))
            case _:
                pass
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            yield from of_attributes(found.module, node)


def of_attributes(module: str, init: ast.FunctionDef) -> Iterator[tuple[str, Definition]]:
    """Yields the classes of the attributes that ``__init__`` sets, by annotation or to an argument."""
    annotated = {one.arg: one.annotation for one in (*init.args.args, *init.args.kwonlyargs)}
    for node in ast.walk(init):
        match node:
            case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name), annotation=typed):
                annotation: ast.expr | None = typed
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=ast.Name(id=given)):
                annotation = annotated.get(given)
            case _:
                continue
        if not name.startswith("_"):
            yield from ((f".{name}", used) for used in classes_in(module, annotation))


def uses_in(found: Definition) -> Iterator[tuple[str, Definition]]:
    """Yields the classes in the signature of a definition, and the place of each in it."""
    match found.node:
        case ast.ClassDef():
            yield from of_class(found)
        case ast.FunctionDef():
            statements = ast.parse(file_of(found.module).read_text("utf-8")).body  # with all overloads
            for node in statements:
                if isinstance(node, ast.FunctionDef) and node.name == found.name:
                    yield from of_function(found.module, node)
        case ast.AnnAssign(annotation=annotation):
            yield from (("", used) for used in (*classes_in(found.module, annotation), *classes_of(found, ())))
        case _:
            yield from (("", used) for used in classes_of(found, ()))


def uses_of(module: str, names: list[str]) -> Iterator[Use]:
    """Yields each class in the signatures of these names of a public module once for each place.

    What is transparent is followed; what is exported anywhere has its own turn.
    """
    todo = [(name, found) for name in names if (found := defined(module, name)) is not None]
    followed: set[Definition] = set()
    while todo:
        place, found = todo.pop()
        for inside, used in uses_in(found):
            if not used.is_transparent:
                yield Use(f"{place}{inside}", used)
            elif used not in followed:
                followed.add(used)
                todo.append((f"{place}{inside}", used))
