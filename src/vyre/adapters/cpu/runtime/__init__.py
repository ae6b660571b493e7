"""The facets of the native CPU backend, which sessions call.

``backend`` puts them together.  From a program to a run:

    pipeline      one program under one config: from input bytes to output bytes; ``pending`` is its asynchronous way
    shapes        the launch, the variant of the code and the threads for certain input lengths
    kernels       programs as loaded kernels; ``code`` reads them from the store, or has them emitted and compiled
    launch, slot  frames and commands in memory; a slot is used again by later dispatches of a shape
    device        the worker threads, and the ways to run jobs on them
    resident      buffers that stay, bound launches and sequences

``tools`` gathers the emitter, the compiler and the loader, which tests can replace.
"""
