"""The front end: Python functions become programs.

``source`` finds the syntax tree of a function, ``parameters`` reads its annotations, ``names`` decides which names are
constants, locals and variables, and ``lowering`` walks the tree and makes the program; ``expressions``, ``statements``
and ``calls`` are its rules, one function for each kind of syntax.  ``operands`` has what expressions evaluate to while
a kernel is being built, ``operators`` Python's operators over them, ``cells`` the types of variables that start as a
bare number, and ``intrinsics`` the functions that exist in kernels only.

Nothing here runs the body of a kernel.
"""
