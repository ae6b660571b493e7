"""A backend of vyre: programs become OpenCL C, which PyOpenCL compiles and runs on any device of OpenCL 1.2.

The bytes are those of the reference: floats are never contracted, division and square root are rounded correctly,
functions such as ``exp`` are the steps that every backend of vyre runs.

- ``types``, ``expressions``, ``operators``, ``memory``, ``functions`` and ``statements`` write the C of one kernel,
  ``kernel`` puts it together; ``prelude.cl`` has the helpers of all kernels;
- ``device`` opens a device, ``pipeline`` compiles and launches, ``resident`` keeps memory on the device;
- ``registration`` tells vyre about all of it.
"""

from __future__ import annotations

__version__ = "0.1.0"
