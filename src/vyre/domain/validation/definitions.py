"""Rules on the header of a definition and on the kinds of nodes in it; names and types are checked with the body."""

from __future__ import annotations

from itertools import chain

from vyre.domain.ir.definition_nodes import DEFINITION_EXPRESSIONS, DEFINITION_STATEMENTS
from vyre.domain.ir.definitions import MAX_VERSION_NUMBER, Definition, is_operation_id
from vyre.domain.ir.limits import MAX_PARAMETERS
from vyre.domain.ir.stmt import operands, walk_statements
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_nodes
from vyre.domain.validation.findings import Findings


def check_signature(definition: Definition, findings: Findings) -> bool:
    """Reports defects of a definition that its types do not tell; returns whether its body can be checked further."""
    name = f"`{definition.id}`"
    defects: list[str] = []
    if not is_operation_id(definition.id):
        defects.append(f"the id {name} is no dialect and name joined by a dot")
    version = definition.version
    if not all(0 <= number <= MAX_VERSION_NUMBER for number in (version.major, version.minor, version.patch)):
        defects.append(f"the version {version} of {name} has a number outside 0..{MAX_VERSION_NUMBER}")
    if len(definition.parameters) > MAX_PARAMETERS:
        defects.append(f"{name} has {len(definition.parameters)} parameters; the limit is {MAX_PARAMETERS}")
    seen: set[str] = set()
    for parameter in definition.parameters:
        if parameter.name in seen:
            defects.append(f"two parameters of {name} are named `{parameter.name}`")
        seen.add(parameter.name)
        if not _is_executable(parameter.dtype):
            defects.append(f"parameter `{parameter.name}` of {name} has no executable type")
    if not _is_executable(definition.result_type):
        defects.append(f"the result of {name} has no executable type")
    for defect in defects:
        findings.add("V225", defect, definition)
    return _check_kinds(definition, findings) and not defects


def _is_executable(dtype: object) -> bool:
    return isinstance(dtype, ScalarType) and dtype.is_executable


def _check_kinds(definition: Definition, findings: Findings) -> bool:
    """Reports the statements and expressions that no definition may have; returns whether there are none."""
    statements = list(walk_statements(definition.body))
    expressions = unique_nodes(chain(chain.from_iterable(map(operands, statements)), [definition.result]))
    bad_statements = [stmt for stmt in statements if type(stmt) not in DEFINITION_STATEMENTS]
    bad_expressions = [expr for expr in expressions if type(expr) not in DEFINITION_EXPRESSIONS]
    for node in (*bad_statements, *bad_expressions):
        what = f"`{definition.id}` contains {type(node).__name__}, which depends on more than its locals"
        findings.add("V225", what, node, definition)
    return not bad_statements and not bad_expressions
