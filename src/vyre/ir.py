"""The language of programs as data, for compilers: nodes, operators, types, buffers, and a builder that takes events.

A ``Program`` is a value: buffers, a workgroup size and a tuple of statements, which hold expressions.  A compiler makes
the nodes itself, or lets ``EventBuilder`` collect them; ``validate`` reports every broken rule, and ``Program`` reads
and writes three forms: text, wire bytes and JSON.  docs/compilers.md shows how, docs/semantics.md what each operator
means.

What may change
---------------

Within a minor series (0.1.0, 0.1.1, ...) every name that this module exports stays, with its meaning, its fields and
their order.  The following may be added in any version:

- fields with defaults, after the present ones, and parameters with defaults: construct nodes with their present fields;
- nodes and members of enumerations: a ``match`` over programs of others needs a default arm, such as
  ``case _: raise NotImplementedError``;
- rules of the validator for programs that could not run before either.

The values of ``BinaryOp``, ``UnaryOp``, ``AtomicOp``, ``IdKind``, ``Access``, ``MemoryKind`` and ``ScalarType`` are
wire tags and never change.  The wire and the JSON form carry version numbers of their own: a program is written in the
oldest version that holds it, so that older readers understand it, and a reader refuses a number that it does not know.
The digest of a program does not depend on the version and stays the same.
``repr`` and messages of errors are for people, and may change at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# fmt: off
# isort: off
if TYPE_CHECKING:
    from vyre.domain.diagnostics import Diagnostic as Diagnostic, Severity as Severity, OpLocation as OpLocation
    from vyre.domain.ir.buffers import (
        DEFAULT_KIND as DEFAULT_KIND, NO_HINTS as NO_HINTS, Access as Access, Buffer as Buffer,
        BufferHints as BufferHints, CacheLocality as CacheLocality, MemoryKind as MemoryKind,
    )
    from vyre.domain.ir.definitions import Definition as Definition, Parameter as Parameter, Version as Version
    from vyre.domain.ir.event_builder import EventBuilder as EventBuilder
    from vyre.domain.ir.expr import (
        Atomic as Atomic, Binary as Binary, Bitcast as Bitcast, BufferLength as BufferLength, Call as Call,
        Cast as Cast,
        Expr as Expr, Fma as Fma, IdKind as IdKind, LaunchId as LaunchId, Literal as Literal, Load as Load,
        Narrow as Narrow, Native as Native, Pack as Pack, Select as Select, SpecConst as SpecConst,
        SubgroupBallot as SubgroupBallot,
        SubgroupLane as SubgroupLane, SubgroupReduce as SubgroupReduce, SubgroupShuffle as SubgroupShuffle,
        SubgroupSize as SubgroupSize,
        Unary as Unary, Unpack as Unpack, Var as Var, WrapCast as WrapCast, children as children,
        walk as walk,
    )
    from vyre.domain.ir.limits import (
        MAX_BUFFERS as MAX_BUFFERS, MAX_EXPRESSION_DEPTH as MAX_EXPRESSION_DEPTH, MAX_NODES as MAX_NODES,
        MAX_PROGRAM_NODES as MAX_PROGRAM_NODES, MAX_STATEMENT_DEPTH as MAX_STATEMENT_DEPTH,
    )
    from vyre.domain.ir.node import Node as Node
    from vyre.domain.ir.operators import (
        ATOMIC_ELEMENTS as ATOMIC_ELEMENTS, ATOMIC_MEANING as ATOMIC_MEANING, BINARY as BINARY, SUBGROUP as SUBGROUP,
        UNARY as UNARY, AtomicOp as AtomicOp, BinaryOp as BinaryOp, BinaryRow as BinaryRow, Ordering as Ordering,
        Result as Result, RightOperand as RightOperand, Span as Span, SubgroupOp as SubgroupOp,
        SubgroupRow as SubgroupRow, UnaryOp as UnaryOp, UnaryRow as UnaryRow, binary_result as binary_result,
        bitcast_is_legal as bitcast_is_legal, cast_is_legal as cast_is_legal, narrow_is_legal as narrow_is_legal,
        unary_result as unary_result, wrap_cast_is_legal as wrap_cast_is_legal, Element as Element,
        OperatorAt as OperatorAt, operators_at as operators_at,
    )
    from vyre.domain.ir.program import Program as Program, ProgramSource as ProgramSource
    from vyre.domain.ir.scopes import Scope as Scope
    from vyre.domain.ir.stmt import (
        Arm as Arm, Assign as Assign, AsyncLoad as AsyncLoad, AsyncStore as AsyncStore, AsyncWait as AsyncWait,
        Barrier as Barrier, Block as Block, Body as Body, Break as Break, Continue as Continue,
        GridLoop as GridLoop, If as If,
        IndirectDispatch as IndirectDispatch, Let as Let, Loop as Loop, Region as Region, Return as Return,
        Stmt as Stmt, Store as Store, Switch as Switch, Trap as Trap, bodies as bodies, if_chain as if_chain,
        operands as operands,
        walk_statements as walk_statements,
    )
    from vyre.domain.ir.types import (
        EXECUTABLE_TYPES as EXECUTABLE_TYPES, NARROW_TYPES as NARROW_TYPES, SCALAR_BY_TEXT as SCALAR_BY_TEXT,
        DataType as DataType,
        ReservedType as ReservedType, ScalarType as ScalarType, TypeArg as TypeArg, TypeKind as TypeKind,
        bf16 as bf16, bool8 as bool8, bool_ as bool_, f16 as f16, f32 as f32, f64 as f64, i8 as i8, i16 as i16,
        i32 as i32, i64 as i64, u8 as u8, u16 as u16, u32 as u32, u64 as u64,
    )
    from vyre.domain.ir.value import OpenProgram as OpenProgram, Origin as Origin
    from vyre.domain.ir.views import view_index as view_index
    from vyre.domain.ir.walk import unique_expressions as unique_expressions
    from vyre.domain.names import Dim3 as Dim3
    from vyre.domain.program_report import Report as Report
    from vyre.domain.source_location import SourceLocation as SourceLocation
    from vyre.domain.validation.validator import validate as validate
else:  # so that type checkers refuse names that do not exist
    from vyre.exporting import exports

    __all__, __getattr__, __dir__ = exports(__name__)
# isort: on
# fmt: on
