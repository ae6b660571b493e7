"""The native backend for the CPU of this machine: LLVM IR with explicit vectors, compiled once and run on threads.

    llvm/        the emitter: from a program to LLVM IR as text, a pure function
    decisions/   what is chosen for a program or a launch: vector width, threads, copies for atomics, pipeline
    native/      from LLVM IR to code in memory: features of the processor, compiler, loader of objects
    pool/        the worker threads and the runtime, written as LLVM text, that they run command lists with
    runtime/     the facets of the port ``Backend``, which use all of the above

``registration`` tells the catalog of this backend, and ``emission`` returns the code of a program as text.  The page
docs/maintainers/cpu-backend.md describes how the parts work.
"""
