"""Runs on a real GPU: ``python -m tests.gpu_runs check|bench --out DIR --budget SECONDS [--require-gpu]``.

``check`` proves the CUDA backend on the device at hand, ``bench`` measures it.  Every group of either runs in a
process of its own with its own deadline, so that a fault or a hang costs one group; the record (JSON) is rewritten
after each.  The same groups run in small on ``--backend cuda-machine``, where the record says ``"emulated": true``.
"""
