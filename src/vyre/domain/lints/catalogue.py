"""The catalogue of lints: every code that ``find_lints`` can report, once.

Codes are stable and never reused.  A lint is a note: it makes no program invalid and is part of no digest.
"""

from __future__ import annotations

from typing import Final

from vyre.domain.validation.rules import read_rules

LINTS: Final = read_rules("""
L001, note: comparison with one outcome
    A comparison with a literal is always true or always false: no value of the other operand's type lies on the other
    side, or the literal is NaN. An operand that is loaded from a narrow buffer has the range of its elements. So has
    the selector of a `switch`, where a label beyond the range matches no value.
    Fix: compare with a value that the operand can pass, compare before a wrap-around can happen, or remove the
    comparison.
L002, note: minimum, maximum or absolute value without effect
    `min` or `max` has a literal at or beyond an end of the other operand's range, so that the result is always the
    operand or always the literal; or `abs` is applied to an unsigned integer.
    Fix: remove it; to clamp a difference of unsigned numbers at 0 use `sat_sub`, or cast to a signed type first.
L003, note: possible data race
    Lanes of one workgroup store different values to one element, or one lane stores to an element that another one
    loads or stores, and no barrier stands between the two accesses. It is reported where index analysis shows it: the
    index of the store does not depend on the lanes, or the two indices differ by a constant number of lanes, and the
    conditions around them let such lanes pass.
    Fix: give each lane elements of its own, use an atomic, let one lane store, or put a barrier between the accesses.
L005, note: access out of range
    An index is certainly at or beyond the element count, in every launch: the load gives 0, and a store or an atomic
    does nothing. (A store at a literal index beyond a declared count is V036.)
    Fix: correct the index, or enlarge the buffer; an unsigned index that seems negative has wrapped around.
L006, note: branch or loop without statements
    An `if` has no statement in either branch, a `switch` has none in any of its bodies, or a loop has none.
    Fix: leave it out, or write the statement that is missing; changing a Python number is none.
L007, note: shift by the width or more
    The count of a shift is a literal that is not below the number of bits; only its low bits count, so that a shift
    of 32 bits by 32 changes nothing.
    Fix: use a count below the width; for a result of 0 write 0.
L008, note: condition that is a literal
    The condition of an `if` or a `select` is written as true or false, or the selector of a `switch` is a literal.
    Fix: choose in the program that builds the kernel, or use a parameter or a specialization constant.
L009, note: assignment of a local to itself
    The value of an assignment is the local that is assigned.
    Fix: remove it, or assign the value that was meant.
L010, note: division of floats by a written zero
    The divisor of a float `/` is the literal 0.0 or -0.0, so that every quotient is infinite or NaN.
    Fix: correct the divisor, or write the infinity as a literal.
L011, note: loop that never runs
    The bounds of a loop are literals, and the last is not beyond the first: not above it for a positive step, not
    below it for a negative one.
    Fix: correct the bounds or the sign of the step, or remove the loop.
L012, note: output that is never written
    A program has statements, and none of them stores to an output, which comes back as zeros.
    Fix: store to it, or remove it.
L013, note: division of integers by a written zero
    The divisor of an integer `/` or `%` is the literal 0, possibly inside casts: the result is what the operator
    gives for 0, whatever the dividend is.
    Fix: guard the division, or correct the divisor.
""")
