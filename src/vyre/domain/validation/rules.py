"""The rule catalogue: every code that validation can report, once.

Codes are stable and never reused.  V0xx are shared with vyre-driver, the Rust system; V1xx are rules of vyre-driver
that have no number there; V2xx are rules of vyre.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from vyre.domain.diagnostics import Severity


class Rule(NamedTuple):
    """A rule: ``title`` names the defect, ``checks`` defines exactly when it is reported, ``fix`` is the usual
    remedy.
    """

    code: str
    title: str
    checks: str
    fix: str
    severity: Severity = Severity.ERROR


def read_rules(text: str) -> dict[str, Rule]:
    """The rules of a catalogue by their codes, in its order.

    An entry is a line with the code, the severity unless it is an error, and the title, and below it, indented, what
    the rule checks and ``Fix:`` with the remedy.
    """
    rules: dict[str, Rule] = {}
    for entry in re.split(r"\n(?! )", text.strip()):
        head, _, body = entry.partition("\n")
        marks, _, title = head.partition(": ")
        code, _, severity = marks.partition(", ")
        checks, _, fix = " ".join(body.split()).partition(" Fix: ")
        rules[code] = Rule(code, title, checks, fix, Severity(severity) if severity else Severity.ERROR)
    return rules


RULES: Final = read_rules("""
V008: name already visible
    A `let` or a loop variable takes a name that an enclosing scope has declared.
    Fix: rename one of the two; a name is free again after the scope that declared it.
V009: atomic on memory that is not read-write
    An atomic names a read-only, uniform or write-only buffer.
    Fix: declare the buffer read-write or as workgroup memory.
V010: barrier in divergent flow
    Lanes of one workgroup may disagree about reaching a workgroup barrier: it is under a condition or loop bound that
    is not workgroup-uniform, or in a loop that some lanes leave or restart early.
    Fix: move the barrier out of the divergent statement, or make its condition uniform.
V011: assignment to a loop variable
    The target of an assignment is the variable of an enclosing loop.
    Fix: copy it into a local of its own and assign that.
V012: illegal conversion
    A cast does not go to an executable type, or a bitcast does not join two numeric types of equal width.
    Fix: cast to u32, i32, u64, i64, f32, f64 or bool; bitcast between types of equal width, bool excluded.
V018: statements nested too deep
    More than 64 bodies enclose a statement (the entry body not counted).
    Fix: flatten the nesting or split the program.
V019: program too large
    The program has more than 262144 nodes (statements and expressions, shared ones counted at every use) or 16384
    buffers.
    Fix: split the program, or compute shared sub-expressions once, as locals.
V027: atomic index is no integer
    The index of an atomic is a float or a bool.
    Fix: cast it to an integer type.
V028: fma operand of the wrong type
    An operand of `fma` is no float, or differs in type from the first one.
    Fix: cast the operands to one float type.
V029: select between different types
    The two values of a `select` have different types.
    Fix: cast one of them to the type of the other.
V032: name declared twice
    Two `let` statements of one body declare the same name.
    Fix: rename one, assign to the first, or open a block.
V033: expression too deep
    An expression nests more than 128 operators.
    Fix: compute parts of it first, as locals.
V035, warning: narrowing integer cast
    An integer is cast to an integer type of fewer bits, which drops the high ones.
    Fix: cast to a wider type, or leave it if the value is known to fit.
V036: store out of range
    A store's index is a literal at or beyond the declared element count, so the store never happens.
    Fix: use an index below the count, or enlarge the buffer.
V042: atomic ordering that only barriers have
    An atomic has the ordering `grid_sync`.
    Fix: use relaxed, acquire, release, acq_rel or seq_cst.
V043: relaxed barrier
    A barrier has the ordering `relaxed`, which orders nothing.
    Fix: use acquire, release, acq_rel or seq_cst, or remove the barrier.
V045: assignment changes the type
    The type of an assigned value differs from that of the local.
    Fix: cast the value, or declare another local.
V102: bad workgroup size
    The workgroup size does not have three axes of at least 1 with a product of at most 4294967295 lanes.
    Fix: give three axes (x, y, z) of at least 1.
V103: buffer name used twice
    Two buffers have the same name.
    Fix: give every buffer its own name.
V104: binding used twice
    Two buffers that are neither workgroup nor private memory have the same binding number.
    Fix: give every buffer its own binding; their order is the order of inputs and outputs.
V105: workgroup or private memory without a size
    A workgroup or private buffer has the element count 0.
    Fix: give a literal count.
V107: undeclared name
    An expression reads a local that is not visible there.
    Fix: add a `let` before it in the same or an enclosing scope.
V108: read of an unknown buffer
    A load or an asynchronous copy reads an undeclared buffer.
    Fix: declare it.
V109: length of an unknown buffer
    `length` names an undeclared buffer.
    Fix: declare it.
V110: bad axis
    The axis of a launch id is not 0, 1 or 2.
    Fix: use axis 0, 1 or 2.
V111: write to an unknown buffer
    A store or an asynchronous copy writes an undeclared buffer.
    Fix: declare it.
V112: write to read-only memory
    A store or an asynchronous copy writes a read-only or uniform buffer.
    Fix: declare the buffer read-write, or write to another one.
V113: stored value of the wrong type
    The value of a store does not have the type that a load of the buffer yields.
    Fix: cast the value.
V114: index is no integer; lane, offset, size or address is not u32
    The index of a load or store is a float or a bool; or the lane of a shuffle, the offset or size of an asynchronous
    copy, or the address of a trap is not u32.
    Fix: cast it to u32.
V115: condition is not bool
    The condition of an `if`, a `select` or a ballot is not bool.
    Fix: compare it with something, or cast it to bool.
V116: loop bounds without a common integer type
    Start, stop or step of a loop is no integer, or has another type than its start.
    Fix: cast them to one integer type.
V117: assignment to an undeclared name
    The target of an assignment is not visible there.
    Fix: declare it with `let` before.
V118: assignment to a buffer
    The target of an assignment is a buffer and no local.
    Fix: store to an element of the buffer.
V119: unreachable statements
    Statements follow a `return`, `break` or `continue` in the same body.
    Fix: remove them or move them before it.
V120: misaligned dispatch counts
    The byte offset of an indirect dispatch is negative or no multiple of 4.
    Fix: align it to 4 bytes.
V121: dispatch counts in an unknown buffer
    An indirect dispatch names an undeclared buffer.
    Fix: declare it.
V122: unpaired asynchronous copy
    On some path a copy is started twice before its wait, waited for without being pending, or still pending at a grid
    barrier or at the end; or its tag is empty.
    Fix: start each tag once and wait for it once on every path.
V123: atomic and plain access without a barrier
    On some path, loops included, an atomic and a plain access to one buffer have no barrier between them.
    Fix: put a barrier between them, or use two buffers.
V124: self-exclusive region twice
    Two regions have the same generator, which ends in `#self-exclusive`.
    Fix: dispatch them separately, or give each its own scratch memory and name.
V127: atomic on an unknown buffer
    An atomic names an undeclared buffer.
    Fix: declare it.
V128: atomic operand of the wrong type
    The value or the expected value of an atomic does not have the element type of the buffer.
    Fix: cast it to the element type.
V129: expected value misplaced
    A compare-exchange has no expected value, or another atomic has one.
    Fix: give the expected value to compare_exchange and to no other operator.
V130: operands of the wrong type
    A binary operator is applied to types outside its row of the operator table.
    Fix: cast the operands.
V131: operand of the wrong type
    A unary operator is applied to a type outside its row of the operator table.
    Fix: cast the operand.
V201: element type without meaning
    The element of a buffer is a reserved type, which cannot be loaded or stored.
    Fix: use u8, u16, u32, u64, i8, i16, i32, i64, f16, bf16, f32, f64 or bool.
V202: element without atomics
    An atomic names a buffer whose element is not u32, i32 or u64.
    Fix: use a u32, i32 or u64 buffer.
V203: subgroup operation in divergent flow
    Lanes of one subgroup may disagree about reaching a subgroup operation.
    Fix: move it out of the divergent statement, or make its condition subgroup-uniform, such as `local_id // 32 == 0`
    or `local_id < 32`. Where rows have a multiple of 32 lanes, so are ids along y.
V204: impure subgroup operand
    An operand of a subgroup operation contains an atomic.
    Fix: bind the atomic with `let` before.
V205: break or continue outside a loop
    A `break` or `continue` has no enclosing loop.
    Fix: put it into a loop, or use `return`.
V206: loop with step 0
    The step of a loop is the literal 0, so that the body never runs.
    Fix: use a positive step.
V207: grid barrier below the top level
    A `grid_sync` barrier or a grid loop is inside an `if`, a `switch` or a loop. In a grid loop, a barrier may be
    inside an `if`, a `switch` or a loop whose condition or bounds all lanes of the grid share, but not in a loop that
    a `break` or `continue` leaves, nor in a loop in a branch; another grid loop may not. Or the limit of a grid loop
    differs between lanes of the grid.
    Fix: move it to the top level; blocks and regions around it are allowed.
V208: local does not survive a grid barrier
    A local declared before a grid barrier and used after it cannot be computed again: it is assigned, or depends on
    an atomic, a subgroup operation, workgroup or private memory, or a buffer that the program writes. A grid loop has
    grid barriers before its first round and after each one.
    Fix: compute it after the barrier, or keep it in a buffer.
V209: workgroup or private memory does not survive a grid barrier
    A workgroup or private buffer is accessed both before and after a grid barrier, or in a loop with grid barriers.
    Fix: use a buffer for each part, or keep the data in a storage buffer.
V210: barrier or subgroup operation after lanes may have ended
    A barrier or subgroup operation may follow a `return` or `trap` that only some of its lanes execute; for a grid
    barrier, any `return` or `trap`.
    Fix: replace the return by a condition around what follows, without the barrier in it.
V211: operation undefined for the type
    A transcendental of f64, `%` of floats, a subgroup sum of bools, or a specialization constant of a type other than
    u32, i32, f32 and bool.
    Fix: cast to a type for which the operation is defined.
V212: bad scalar parameter
    A buffer of kind push is not uniform with one element of an executable type, is an output, is read otherwise than
    at the literal index 0, or all of them together exceed 256 bytes.
    Fix: declare parameters uniform with count 1, read them at index 0, and pass bulk data in a buffer.
V213: specialization constant declared twice
    One name is given two different defaults.
    Fix: use one default for every use of the name.
V214: bad `like` reference, or private memory that other lanes would have to see
    `like` names no buffer of the interface, leads back to itself, or is given for a buffer that has a count or takes
    an input; or an atomic or an asynchronous copy names private memory.
    Fix: use plain loads and stores for private memory; let `like` name a declared buffer of the interface.
V215: bad output range
    An output range is not inside the buffer, is reversed, or is given for a buffer that is not returned.
    Fix: give bytes [start, end) inside a returned buffer.
V216: contradictory buffer
    Access, memory kind and output flag of a buffer exclude each other.
    Fix: workgroup memory is shared, private memory private, and neither is an output; read-only and uniform buffers
    are no outputs; write-only ones are.
V217: number out of range
    A binding, count, alignment, axis hint or dispatch offset does not fit its field.
    Fix: use a number in range.
V218, note: result depends on the order of atomics
    The old value of an atomic is used, an operator does not commute (exchange, compare_exchange, fetch_nand), or
    different atomic operators may change one element.
    Fix: ignore this if the order cannot matter; else compare results only under the canonical schedule.
V219: narrow value or wrapping cast of the wrong type
    `narrow`, `pack` or `unpack` is given a type other than u8, u16, i8, i16, f16 and bf16, or an operand of the wrong
    type (u32 for u8 and u16, i32 for i8 and i16, f32 for f16 and bf16; `unpack` takes u32); or `wrap_cast` does not
    lead from f32 or f64 to u32, i32, u64 or i64.
    Fix: cast the operand, or name another type.
V220: too much private memory
    The private buffers take more than 65536 bytes a lane together.
    Fix: make them smaller, or keep the data in a storage buffer with a part for each lane.
V221: bad switch
    The selector of a `switch` is no integer, an arm has no label, a label has another type than the selector, or a
    label occurs twice.
    Fix: give every arm literals of the selector's type, each of them once.
V222: bad grid loop
    The limit of a grid loop is not u32, its flag is no u32 buffer of the interface, or its body reads the flag or
    copies from or to it.
    Fix: make the limit u32, and only store to the flag or update it atomically in the body: the lanes that start the
    next round reset it.
V223: call of what is not defined
    A call names an operation that the program does not define, or, in a definition, that is not defined before it.
    Fix: add the definition to the program, in front of those that call it.
V224: call with the wrong arguments
    A call has another number of arguments than its definition has parameters, an argument has another type than
    its parameter, or that of an attribute is no literal.
    Fix: give an argument of the right type for every parameter, and a literal for an attribute.
V225: bad definition
    The id of a definition is no dialect and name joined by a dot, or occurs twice; two parameters have one name; a
    type is not executable; the result has another type than declared; a parameter is assigned; or the body has a
    statement or an expression that depends on more than its locals.
    Fix: a definition has `let`, assignments, `if`, `switch`, loops, `break` and `continue`, and expressions of its
    parameters and locals.
V226: calls expand to too much
    With every call replaced by the body of its definition, the program has more than 262144 nodes or statements
    nested more than 64 deep. A call in the condition of an `else if` adds a level.
    Fix: call the operation in a loop or outside of the nesting, or keep its result in a local.
""")
