"""The emitter: from a program to LLVM IR as text.  It needs no LLVM.

``emit`` is the entry.  A module is imported by those below it:

    values, instructions, writer       values of a vector of lanes, and the text of instructions
    word_masks                         masks that loops keep as words
    context                            ``Kernel``: the state of the function being written
    program_facts, shapes, phases      analyses of a program before it is written
    integer, floating, narrowing, conversion, functions, operators
                                       operators, on one element or on W
    ids, subgroups, expressions        expressions; ``addressing`` and ``blocks`` serve accesses
    loads, stores, atomics, async_copies, memory
                                       accesses to memory
    control, flow, loops               statements of the lanes of one vector
    regions, lockstep, groups          workgroups of several vectors, and the loop over workgroups
"""
