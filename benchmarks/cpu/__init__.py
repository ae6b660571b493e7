"""The ``cpu`` backend against C, numba, NumPy, PoCL, Warp and Taichi on one thread.

A *job* is a task with fixed inputs and one right answer; every *contender* (vyre among them) solves it with memory of
its own that stays where it is between runs.  Each contender runs in a process of its own, so that its processor time
is counted alone and no library disturbs another; the runs of all contenders of a job alternate.
"""
