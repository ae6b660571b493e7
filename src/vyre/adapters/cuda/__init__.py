"""The CUDA backend: a PTX emitter, a small driver seam, the runtime on top of it, and an emulated driver.

``ptx/`` turns programs into text and needs no CUDA package.  ``seam.py`` is the only interface between the runtime and
a driver; ``driver.py`` implements it with the real one, ``machine/`` with an emulated one that runs the emitted text on
NumPy lanes.  Importing this package touches no driver.
"""
