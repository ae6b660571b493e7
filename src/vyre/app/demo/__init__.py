"""``vyre demo``: real kernels on data found on this machine, every answer checked independently."""

from vyre.app.demo.runner import DemoRow, run_demo

__all__ = ["DemoRow", "run_demo"]
