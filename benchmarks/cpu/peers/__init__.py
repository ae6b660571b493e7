"""The contenders beside vyre.  Each module has ``SIDES``, the jobs that it solves, and ``version``, which raises
``ImportError`` or ``OSError`` where the contender is not installed.
"""
