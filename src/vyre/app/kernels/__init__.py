"""Kernels in plain Python as objects: ``@vyre.kernel``, their programs, and calls on a session."""
