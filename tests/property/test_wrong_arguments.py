"""Arguments of wrong kinds: every public function refuses them with an error of ours, and takes nothing for another.

A row is a function, and arguments that are right.  Each argument in turn is replaced by a value of every kind.  What
its annotation takes may pass; for all else one of our errors is raised.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import fields
from enum import Enum
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pytest

import vyre
from support.kinds import AXES, CALLABLE, DICTS, EMPTY, FLAGS, INTS, KINDS, NUMBERS, NUMPY_NUMBERS, PATHS, TEXTS, made
from support.small_programs import saxpy_program
from support.speculations import Case
from support.work_queues import handle_task
from vyre.adapters.cpu.native.compilation import llvm_version
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.app.aot import aot_emitters
from vyre.app.resident_dispatch import BoundResidentLaunch
from vyre.domain.errors import VyreError
from vyre.domain.ir import functions
from vyre.policies.journal import Decision
from vyre.policies.tuning.paired_race import RaceThresholds
from vyre.testing import cuda_machine

SAXPY: Final = saxpy_program()
X: Final = np.arange(4, dtype=np.float32)
INPUTS: Final[dict[str, Any]] = {"a": 2.0, "x": X, "y": X}


def constant_program() -> vyre.Program:
    with vyre.ProgramBuilder("constant", workgroup=1) as p:
        y = p.output("y", vyre.f32)
        y[p.global_id()] = p.spec("k", 1.0)
    return p.build()


CONSTANT: Final = constant_program()
T = TypeVar("T")


@vyre.kernel
def python_saxpy(a: vyre.f32, x: vyre.In[vyre.f32], y: vyre.InOut[vyre.f32]) -> None:
    i = vyre.global_id()
    y[i] = a * x[i] + y[i]


@vyre.kernel
def generic(n: vyre.Static[int], x: vyre.InOut[T]) -> None:
    x[vyre.global_id()] = T(n)  # type: ignore[misc]


# What an annotation takes; any other takes nothing but None.
TAKES: Final[dict[str, set[str]]] = {
    "Any": set(KINDS),
    "DispatchConfig": {"config"},
    "Grid": AXES,
    "Inputs": {"no list", "no tuple", "no dict"},
    "Mapping[str, SpecInput]": {"no dict"},
    "Mapping[str, Size]": {"no dict"},
    "OutArrays": {"no dict"},
    "OutputArena": set(),
    "Path": {"path"},
    "Path | str": PATHS,
    "Program": {"program"},
    "ProgramLike": {"program"},
    "None": {"none"},
    "bool": FLAGS,
    "float": {*NUMBERS},
    "int": INTS,
    "str": TEXTS,
}


HANDLE_TASK: Final = handle_task.program


class Row(NamedTuple):
    """``function``, and arguments with which it ends without an error, unless they are ``refused`` too.  ``takes``:
    kinds that an argument takes, where its annotation does not tell.
    """

    function: Callable[..., Any]
    right: Mapping[str, Any]
    takes: Mapping[str, set[str]] = {}
    refused: bool = False


class Exporter:
    """What another library's device array looks like."""

    def __init__(self, memory: vyre.ResidentArray) -> None:
        self.memory = memory
        self.__cuda_array_interface__ = dict(memory.__cuda_array_interface__)


SHORTHAND: Final = {"spec": None, "grid": None, "extent": None, "output_counts": None, "race_check": False}
COMPILED: Final = {"program": SAXPY, "config": None} | SHORTHAND
BOUND: Final = {"program": SAXPY, "inputs": INPUTS, "config": None} | SHORTHAND
COUNTED: Final = {
    "grid": AXES,
    "extent": AXES,
    "spec": {"no dict"},
    "output_counts": {"no dict", "dict"},
    "race_check": FLAGS,
}
"""The program has no constant.  Counts of buffers that it has not are told when it runs."""


def awaited(function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    return wraps(function)(lambda **given: asyncio.run(function(**given)))


def speculation_steps(session: vyre.Session, passed: vyre.ResidentArray, confirmed: vyre.ResidentArray) -> list[Any]:
    x, y = (session.resident(np.zeros(1, np.uint32)) for _ in range(2))
    found = session.temporary(vyre.u32, 1)
    inputs = (
        {"x": x, "passed": passed},
        {"x": x, "found": found, "confirmed": confirmed},
        {"x": x, "found": found, "y": y},
    )
    return [vyre.Step(program, given, grid=1) for program, given in zip(Case(1, 1).programs(), inputs, strict=True)]


def _filled(x: vyre.Out[vyre.f32, 4]) -> None:  # type: ignore[valid-type]
    x[vyre.global_id()] = 1.0


class World:
    """Everything that has public functions, made once."""

    def __init__(
        self, session: vyre.Session, exporting: vyre.Session, folder: Path, native: vyre.Session | None
    ) -> None:
        self.session, self.exporting, self.folder, self.native = session, exporting, folder, native
        self.jobs: vyre.PersistentJobs | None = None
        self.exporter = Exporter(exporting.resident(X))
        self.pipeline = session.compile(SAXPY)
        self.bound = session.bind(SAXPY, INPUTS)
        self.special = session.specialize(SAXPY)
        self.memory = session.resident(X)
        self.temporary = session.temporary(vyre.f32, 4)
        self.sequence = session.sequence([vyre.Step(SAXPY, INPUTS | {"y": self.memory})])
        self.cache = session.resident_cache(4096)
        self.cache.add("x", X)
        self.queries = session.queries(SAXPY, {"a": 2.0, "x": self.memory})
        self.flag = session.resident(np.zeros(1, np.uint32))
        self.counts = session.resident(np.ones(3, np.uint32))
        self.tasks: dict[str, Any] = {"first": np.zeros(3, np.uint32), "children": np.zeros(1, np.uint32)}
        self.tasks |= {"hits": session.resident(np.zeros(2, np.uint32))}
        self.drain = vyre.drain_program(handle_task, items="items", pushed="pushed", count="count")
        self.drained = session.dispatch(
            self.drain.program,
            self.drain.inputs(np.zeros(1, np.uint32), 4)
            | {"first": np.zeros(2, np.uint32), "children": np.zeros(1, np.uint32), "hits": np.zeros(1, np.uint32)},
            grid=1,
        )
        self.queue = session.work_queue(
            HANDLE_TASK, self.tasks, items="items", pushed="pushed", count="count", capacity=4
        )
        self.flags = [session.resident(np.zeros(1, np.uint32)) for _ in range(2)]
        self.steps = speculation_steps(session, *self.flags)
        self.bundle_file = folder / "saxpy.vyrz"
        vyre.build_bundle(SAXPY, self.bundle_file, targets=["cuda"], emitters=aot_emitters(machine_code=False))
        self.program = folder / "saxpy.vyre"
        self.program.write_text(SAXPY.to_text())
        self.journal = folder / "decisions.jsonl"
        session.write_journal(self.journal)
        self.evidence = folder / "evidence.zip"
        session.write_evidence(self.evidence, SAXPY, INPUTS)
        native_file = folder / "native.vyrz"
        vyre.build_bundle(SAXPY, native_file, targets=["cpu"])
        self.native_bundle = vyre.load_bundle(native_file)

    def session_rows(self) -> dict[str, Row]:
        session, out = self.session, {"out": {"no dict"}}
        race = {"program": SAXPY, "inputs": INPUTS, "config": None, "thresholds": None}
        race |= {"variants": {"one": {}, "two": vyre.DispatchConfig(workgroup=32)}}
        launched, empty = {"inputs": set[str]()}, {"inputs": {"no list", "no tuple", "no dict"}}
        return {
            "dispatch": Row(
                session.dispatch, BOUND | {"out": None, "outputs": None, "tune": False}, COUNTED | out | launched
            ),
            "compile": Row(session.compile, COMPILED, COUNTED),
            "missing": Row(session.missing, BOUND, COUNTED | empty),
            "prepare": Row(session.prepare, COMPILED, COUNTED),
            "bind": Row(session.bind, BOUND, COUNTED | launched),
            "bind_resident": Row(
                session.bind_resident, BOUND | {"inputs": INPUTS | {"y": self.memory}}, COUNTED | launched
            ),
            "submit": Row(session.submit, BOUND, COUNTED | launched),
            "dispatch_async": Row(
                awaited(session.dispatch_async),
                BOUND | {"timeout": 60.0, "deadline": None},
                COUNTED | launched | {"timeout": NUMBERS | NUMPY_NUMBERS | {"none"}, "deadline": {"none"}},
            ),
            "dispatch_many": Row(
                session.dispatch_many,
                {"program": SAXPY, "batch": [INPUTS], "config": None} | SHORTHAND,
                COUNTED | {"batch": EMPTY},
            ),
            "sequence": Row(
                session.sequence,
                {"steps": [vyre.Step(SAXPY, INPUTS | {"y": self.memory})], "first": (), "modes": None},
                {"first": EMPTY, "modes": {"no dict"}},
            ),
            "queries": Row(
                session.queries,
                COMPILED | {"shared": {"x": self.memory}, "budget": None},
                COUNTED | {"shared": set(), "budget": {"zero", "one", "none"}},
            ),
            "resident_cache": Row(session.resident_cache, {"budget": 4096}, {"budget": {"one"}}),
            "temporary": Row(
                session.temporary,
                {"dtype": vyre.f32, "count": 4, "label": None},
                {"dtype": {"type", "numpy type", "narrow numpy type", "dtype"}, "count": {"zero", "one"}},
            ),
            "fixpoint": Row(
                session.fixpoint,
                {"steps": [vyre.Step(SAXPY, INPUTS | {"y": self.memory})], "first": (), "changed": self.flag}
                | {"limit": 1, "executor": None, "early_exit": True},
                {"first": EMPTY, "limit": {"one"}, "early_exit": FLAGS},
            ),
            "work_queue": Row(
                session.work_queue,
                {"program": HANDLE_TASK, "inputs": self.tasks, "items": "items", "pushed": "pushed", "count": "count"}
                | {"capacity": 4, "items_per_launch": None, "total_items": None},
                {"program": set(), "inputs": set(), "items": set(), "pushed": set(), "count": set()}
                | {"capacity": {"one"}, "items_per_launch": {"one"}, "total_items": {"one"}},
            ),
            "speculate": Row(
                session.speculate,
                dict(zip(("prefilter", "confirm", "commit"), self.steps, strict=True))
                | dict(zip(("passed", "confirmed"), self.flags, strict=True)),
            ),
            "tune": Row(session.tune, BOUND | {"settings": QUICK}, COUNTED | launched),
            "tuned": Row(session.tuned, BOUND, COUNTED | launched),
            "export_pins": Row(session.export_pins, {"path": self.folder / "pins.json"}),
            "race": Row(session.race, race, launched),
            "shadow": Row(session.shadow, {"wait_s": 0.0}, {"wait_s": NUMBERS | NUMPY_NUMBERS}),
            "write_evidence": Row(
                session.write_evidence,
                {"path": self.folder / "run.zip"} | BOUND | {"runs": 1},
                COUNTED | launched | {"runs": {"one"}},
            ),
            "write_claim": Row(
                session.write_claim,
                {"path": self.folder / "claim.zip", "name": "row", "samples": {"a": [1.0] * 9, "b": [2.0] * 9}}
                | {"faster": "a", "slower": "b", "factor": 1.5},
                {"name": TEXTS, "factor": NUMBERS | NUMPY_NUMBERS}
                | {"samples": {"no dict", "dict of lists", "dict of arrays"}},
            ),
            "calibrate": Row(session.calibrate, {"rounds": 5}, {"rounds": set()}),
            "launch_costs": Row(session.launch_costs, {"path": None, "max_age_s": 10, "assume": True}),
            "specialize": Row(session.specialize, COMPILED | {"parameters": None}, COUNTED | {"parameters": {"none"}}),
            "resident": Row(
                session.resident,
                {"data": X, "count": None, "label": None},
                {"data": {"one", "zero", "bytes", "bytearray", "array", "array without axes", "texts"}},
            ),
            "download": Row(
                session.download,
                {"arrays": [self.memory], "most_packed": None},
                {"arrays": EMPTY, "most_packed": {"zero", "one", "none"}},
            ),
            "bind_download": Row(
                session.bind_download,
                {"arrays": [self.memory], "most_packed": None},
                {"arrays": EMPTY, "most_packed": {"zero", "one", "none"}},
            ),
            "download_slots": Row(
                session.download_slots,
                {"slots": self.memory, "lengths": self.flag, "capacity": 4, "most_packed": None},
                {"capacity": set(), "most_packed": {"zero", "one", "none"}},
            ),
            "download_marked": Row(
                session.download_marked, {"items": self.flag, "marks": self.flag, "limit": 3}, {"limit": {"one"}}
            ),
            "upload": Row(session.upload, {"writes": [(self.memory, X)]}, {"writes": EMPTY}),
            "adopt": Row(self.exporting.adopt, {"array": self.exporter, "label": None}, {"array": set()}),
            "invalidate": Row(
                session.invalidate,
                {"program": SAXPY, "key": None, "driver": None, "tool": None, "emitter": None, "target": None}
                | {"dry_run": True},
                {"program": {"program"}, "key": {"none"}},
            ),
            "explain": Row(
                session.explain,
                COMPILED | {"inputs": None, "batch": 1, "repeats": 1, "costs": None, "kernel_time_ns": None},
                COUNTED | {"program": {"program", "none"}, "costs": {"none"}, "inputs": {"none"}},
            ),
            "write_journal": Row(session.write_journal, {"path": self.folder / "journal"}),
            "Session.validate": Row(session.validate, {"program": SAXPY}),
            "persistent": Row(
                session.persistent if self.native is None else self.native.persistent,
                COMPILED | {"inputs": None, "capacity": 4, "backpressure": False},
                COUNTED | {"capacity": set(), "inputs": {"none"}},
                refused=self.native is None,
            ),
        }

    def session_kernel_rows(self) -> dict[str, Row]:
        session, kernel = self.session, {"program": python_saxpy}
        inputs = {"inputs": set[str]()}
        return {
            f"Session.{method.__name__} of a kernel": Row(method, arguments | kernel, taken)
            for method, arguments, taken in (
                (session.dispatch, BOUND, COUNTED | inputs),
                (session.submit, BOUND, COUNTED | inputs),
                (session.bind, BOUND, COUNTED | inputs),
                (session.compile, COMPILED, COUNTED),
                (session.prepare, COMPILED, COUNTED),
                (session.persistent, COMPILED, COUNTED),
                (session.missing, COMPILED, COUNTED),
            )
        }

    def persistent_rows(self) -> dict[str, Row]:
        if self.native is None:
            return {}
        jobs = self.jobs = self.jobs or self.native.persistent(SAXPY, backpressure=True)
        columns: dict[str, Any] = {"a": 2.0, "x": X, "y": X[None].repeat(3, 0)}
        ticket, batch = jobs.submit(INPUTS), jobs.submit_many(columns)
        seconds = {"timeout": NUMBERS | NUMPY_NUMBERS | {"none"}}
        limit = {"timeout": 10.0}
        return {
            "PersistentJobs.submit": Row(jobs.submit, {"inputs": INPUTS}, {"inputs": set()}),
            "PersistentJobs.write_evidence": Row(
                jobs.write_evidence, {"path": self.folder / "job.zip", "inputs": INPUTS}, {"inputs": set()}
            ),
            "PersistentJobs.try_submit": Row(jobs.try_submit, {"inputs": INPUTS}, {"inputs": set()}),
            "PersistentJobs.submit_many": Row(
                jobs.submit_many, {"columns": columns, "jobs": 3}, {"columns": set(), "jobs": {"none"}}
            ),
            "PersistentJobs.as_completed": Row(
                lambda tickets, timeout: list(jobs.as_completed(tickets, timeout)),
                limit | {"tickets": [ticket]},
                seconds | {"tickets": EMPTY},
            ),
            "PersistentJobs.flush": Row(jobs.flush, limit, seconds),
            "Ticket.result": Row(ticket.result, limit, seconds),
            "Ticket.exception": Row(ticket.exception, limit, seconds),
            "JobBatch.result": Row(batch.result, limit, seconds),
            "JobBatch.wait": Row(batch.wait, limit, seconds),
            "JobBatch.errors": Row(batch.errors, limit, seconds),
            "JobBatch.as_completed": Row(lambda timeout: list(batch.as_completed(timeout)), limit, seconds),
        }

    def object_rows(self) -> dict[str, Row]:
        run = {"inputs": INPUTS, "out": None, "outputs": None}
        takes = {"inputs": set[str](), "out": {"none", "no dict"}}
        return {
            "Pipeline": Row(self.pipeline, run, takes),
            "Pipeline.views": Row(self.pipeline.views, {"inputs": INPUTS}, takes),
            "Pipeline.bind_resident": Row(self.pipeline.bind_resident, {"inputs": INPUTS | {"y": self.memory}}, takes),
            "BoundLaunch": Row(self.bound, {"out": None, "outputs": None}, takes),
            "SpecializedPipeline": Row(self.special, run, takes),
            "SpecializedPipeline.race": Row(
                self.special.race,
                {"inputs": INPUTS, "thresholds": RaceThresholds()},
                takes | {"thresholds": set()},
                refused=True,
            ),
            "Indirect": Row(vyre.Indirect, {"counts": self.counts, "most": 4}, {"most": {*AXES, "numpy int"}}),
            "StepSequence": Row(self.sequence, {"rounds": 1}, {"rounds": {"one", "zero"}}),
            "StepSequence.explain": Row(
                self.sequence.explain,
                {"rounds": 1, "repeats": 1, "costs": "assumed", "kernel_time_ns": 10},
                {
                    "rounds": {"one", "zero"},
                    "repeats": {"one"},
                    "costs": {"none"},
                    "kernel_time_ns": {"one", "zero", "none"},
                },
            ),
            "StepSequence.plan": Row(self.sequence.plan, {"rounds": 1}, {"rounds": {"one", "zero"}}),
            "StepSequence.write_evidence": Row(
                self.sequence.write_evidence,
                {"path": self.folder / "sequence.zip", "rounds": 1},
                {"rounds": {"one", "zero"}},
            ),
            "WorkQueue.write_evidence": Row(
                self.queue.write_evidence,
                {"path": self.folder / "queue.zip", "items": np.zeros(1, np.uint32)},
                {"items": {"array"}},
            ),
            "WorkQueue": Row(self.queue, {"items": np.zeros(1, np.uint32)}, {"items": {"array"}}),
            "DrainProgram.inputs": Row(
                self.drain.inputs,
                {"items": np.zeros(1, np.uint32), "capacity": 4},
                {"items": {"array"}, "capacity": {"one"}},
            ),
            "DrainProgram.totals": Row(self.drain.totals, {"result": self.drained}),
            "WorkQueue.plan": Row(self.queue.plan, {"initial_items": 1}, {"initial_items": {"zero", "one"}}),
            "Queries": Row(self.queries, {"columns": {"y": X[None]}}, {"columns": set()}),
            "Queries.plan": Row(self.queries.plan, {"columns": {"y": X[None]}}, {"columns": set()}),
            "ResidentCache.add": Row(
                self.cache.add,
                {"name": "other", "data": X, "constant": False},
                {"data": {"array", "numpy float"}},
                refused=True,
            ),
            "ResidentCache.use": Row(lambda name: self.cache.use(name).__enter__(), {"name": "x"}, {"name": TEXTS}),
            "ResidentCache.remove": Row(self.cache.remove, {"name": "other"}, {"name": TEXTS}, refused=True),
            "Temporary.upload": Row(self.temporary.upload, {"data": X, "offset": 0}, refused=True),
            "ResidentArray.upload": Row(
                self.memory.upload,
                {"data": X, "offset": 0},
                {"data": {"bytes", "bytearray", "array", "numpy float"}, "offset": {"zero", "one"}},
            ),
            "ResidentArray.download": Row(
                self.memory.download, {"offset": 0, "nbytes": None}, {"offset": {"zero"}, "nbytes": {"zero"}}
            ),
            "ResidentArray.upload_async": Row(
                awaited(self.memory.upload_async),
                {"data": X, "offset": 0},
                {"data": {"bytes", "bytearray", "array", "numpy float"}, "offset": {"zero", "one"}},
            ),
            "ResidentArray.download_async": Row(
                awaited(self.memory.download_async),
                {"offset": 0, "nbytes": None},
                {"offset": {"zero"}, "nbytes": {"zero"}},
            ),
            "ResidentArray.view": Row(
                self.memory.view,
                {"offset": 0, "count": None, "dtype": None},
                {
                    "offset": {"zero", "one"},
                    "count": {"zero", "one"},
                    "dtype": {"type", "numpy type", "narrow numpy type", "dtype"},
                },
            ),
        }

    def function_rows(self) -> dict[str, Row]:
        open_right = {"backend": "reference", "cache": False, "pins": None, "predict": False, "journal": None}
        open_right |= {"catalog": None, "telemetry": None, "environment": None, "threads": None, "affinity": None}
        open_right |= {"max_in_flight": 4, "resident_budget": None, "optimize": False, "shadow": None}
        emit = {"program": SAXPY, "target": "sm_80", "assume": (), "grid_sync": "native", "spec": None, "form": None}
        emit["optimize"] = False
        build = {"program": SAXPY, "path": self.folder / "other.vyrz", "targets": ["sm_75"], "spec": None}
        build |= {"workgroup": None, "emitters": aot_emitters(machine_code=False)}
        return {
            "kernel": Row(
                lambda workgroup: vyre.kernel(workgroup=workgroup)(_filled),
                {"workgroup": 4},
                {"workgroup": {*AXES, "numpy int"}},
            ),
            "function": Row(lambda decorated: vyre.function(decorated), {"decorated": constant_program}),
            "like": Row(vyre.like, {"name": "x"}),
            "Kernel.compile": Row(python_saxpy.compile, {"session": self.session, "config": None}),
            "Kernel.over": Row(python_saxpy.over, {"extent": 4}),
            "Kernel.specialize": Row(
                generic.specialize,
                {"T": vyre.f32, "n": 2},
                {"T": {"type", "numpy type", "dtype"}, "n": {*INTS, "numpy int"}},
            ),
            "open": Row(
                vyre.open,
                open_right,
                {
                    "backend": set(),
                    "catalog": {"none"},
                    "telemetry": {"none"},
                    "environment": DICTS,
                    "shadow": {"none"},
                    "threads": {"none"},
                    "affinity": {"none"},
                    "max_in_flight": {"one"},
                    "resident_budget": {"none", "one"},
                }
                | {"cache": {"none", "false"} | PATHS, "pins": {"none"}, "predict": FLAGS},
            ),
            "validate": Row(vyre.validate, {"program": SAXPY}),
            "missing": Row(
                vyre.missing,
                BOUND | {"backend": "reference", "catalog": None},
                COUNTED | {"inputs": {"no list", "no tuple", "no dict"}, "backend": set(), "catalog": {"none"}},
            ),
            "read_program": Row(vyre.read_program, {"path": self.program, "migrate": True}, {"path": PATHS}),
            "device_signatures": Row(vyre.device_signatures, {"environment": None}, {"environment": {*DICTS, "none"}}),
            "emit": Row(
                vyre.emit, emit, {"target": {"none"}, "assume": EMPTY | {"set"}, "grid_sync": set(), "form": {"none"}}
            ),
            "optimize": Row(
                vyre.optimize, {"program": SAXPY, "passes": ["folding"], "spec": {}}, {"passes": {"none"} | EMPTY}
            ),
            "drain_program": Row(
                vyre.drain_program, {"program": handle_task, "items": "items", "pushed": "pushed", "count": "count"}
            ),
            "build_bundle": Row(
                vyre.build_bundle,
                build | {"optimize": True},
                {"targets": {"none"}, "emitters": {"none"}, "workgroup": AXES},
            ),
            "write_c": Row(
                vyre.write_c,
                {"bundle": self.native_bundle, "folder": self.folder, "name": "kernels"},
                {"folder": PATHS},
            ),
            "read_evidence": Row(vyre.read_evidence, {"path": self.evidence}),
            "replay_evidence": Row(vyre.replay_evidence, {"path": self.evidence, "backend": None}),
            "aot_emitters": Row(vyre.aot_emitters, {"machine_code": False}),
            "cuda_catalog": Row(vyre.cuda_catalog, {"options": vyre.CudaOptions()}),
            "import_upstream": Row(vyre.import_upstream, {"value": {}}, refused=True),
            "replay_file": Row(lambda path: list(vyre.replay_file(path)), {"path": self.journal}),
            "load_bundle": Row(
                vyre.load_bundle,
                {"path": self.bundle_file, "expect": None},
                {"path": PATHS, "expect": {"none"}},
            ),
        }

    def value_rows(self) -> dict[str, Row]:
        config = {f.name: f.default for f in fields(vyre.DispatchConfig)}
        seconds = {"one", "float", "whole float", "numpy float", "array without axes"}
        return {
            "DispatchConfig": Row(
                vyre.DispatchConfig,
                config,
                {"grid": AXES, "extent": AXES, "workgroup": AXES, "spec": {"no dict"} | {"dict", "dict of bools"}}
                | {"output_counts": {"no dict", "dict"}, "timeout_s": seconds},
            ),
            "Shadow": Row(
                vyre.Shadow,
                {name: getattr(vyre.Shadow(), name) for name in inspect.signature(vyre.Shadow).parameters},
                {
                    "rate": {"one", "whole float"},
                    "budget": {"none", "one", "whole float"},
                    "timeout_s": {"one", "float", "whole float"},
                }
                | {"seed": {"one", "zero"}, "most_waiting": {"one"}, "most_bytes": {"one", "zero"}},
            ),
            "CacheConfig": Row(
                vyre.CacheConfig,
                {f.name: f.default for f in fields(vyre.CacheConfig)},
                {"max_bytes": {"one"}, "max_entries": {"one"}, "layers": {"no tuple"}},
            ),
            "PredictionConfig": Row(
                vyre.PredictionConfig,
                {f.name: f.default for f in fields(vyre.PredictionConfig)},
                {"shapes": {"one"}, "log": {"one"}, "patience": {"one", "zero"}, "decisions": {"one", "zero"}},
            ),
            "TuningSettings": Row(
                vyre.TuningSettings,
                {f.name: f.default for f in fields(vyre.TuningSettings)},
                {"budget_s": NUMBERS} | dict.fromkeys(("now_ns", "now_s", "new_run"), CALLABLE),
            ),
            "CudaOptions": Row(
                CudaOptions,
                {f.name: f.default for f in fields(CudaOptions)},
                dict.fromkeys(("ordinal", "pool_bytes", "cached_device_bytes", "cached_host_bytes"), INTS)
                | dict.fromkeys(("slots", "graphs"), INTS)
                | {"close_timeout_s": NUMBERS, "grid_sync": {"none"}, "graph_after": INTS | {"none"}},
            ),
            "RunOptions": Row(
                vyre.RunOptions,
                {f.name: f.default for f in fields(vyre.RunOptions)},
                {"schedule": set(), "seed": {"one", "zero"}, "step_limit": {"one"}}
                | {"workgroups_at_once": {"one"}, "resident_blocks": {"one"}},
            ),
            "RaceThresholds": Row(
                RaceThresholds,
                {f.name: f.default for f in fields(RaceThresholds)},
                {"error": {"one", "whole float"}, "max_pairs": {"one"}}
                | {"min_gain_bps": {"one", "zero"}, "worth_bps": {"one", "zero"}},
            ),
            "PrometheusTelemetry": Row(
                vyre.PrometheusTelemetry,
                {"registry": None, "buckets": [0.5, 1]},
                {"registry": {"none"}, "buckets": {"list", "tuple"}},
            ),
            "RecentEvents": Row(
                lambda capacity: vyre.RecentEvents(capacity), {"capacity": 4}, {"capacity": {"one", "numpy int"}}
            ),
            "DecisionJournal": Row(vyre.DecisionJournal, {"limit": 4}),
            "DecisionJournal.note": Row(
                lambda decision: vyre.DecisionJournal().note(decision),
                {"decision": Decision(len, ((),), 0)},
                {"decision": set()},
            ),
            "SpecMap": Row(
                lambda entries: vyre.SpecMap(entries),
                {"entries": {}},
                {"entries": EMPTY | {"no text", "dict", "dict of bools"}},
            ),
            "SpecMap.with_value": Row(
                vyre.SpecMap().with_value,
                {"name": "k", "value": 1},
                {"value": FLAGS | NUMBERS | NUMPY_NUMBERS | {"numpy bool", "type"}},
            ),
            "SpecValue.scalar": Row(
                vyre.SpecValue.scalar,
                {"dtype": vyre.f32, "value": 1.0},
                {"dtype": {"type"}, "value": NUMBERS | NUMPY_NUMBERS},
            ),
            "SpecValue.u32": Row(vyre.SpecValue.u32, {"value": 1}, {"value": INTS | {"numpy int"}}),
            "SpecValue.i32": Row(vyre.SpecValue.i32, {"value": 1}, {"value": INTS | {"numpy int"}}),
            "SpecValue.f32": Row(vyre.SpecValue.f32, {"value": 1.0}, {"value": NUMBERS | NUMPY_NUMBERS}),
            "SpecValue.bool_": Row(vyre.SpecValue.bool_, {"value": True}, {"value": FLAGS | {"numpy bool"}}),
            "SpecValue.dtype": Row(vyre.SpecValue.dtype, {"value": vyre.f32}, {"value": {"type"}}),
            "SpecValue.of": Row(
                vyre.SpecValue.of, {"value": 1.0}, {"value": FLAGS | NUMBERS | NUMPY_NUMBERS | {"numpy bool", "type"}}
            ),
            "Program.buffer": Row(SAXPY.buffer, {"name": "x"}, {"name": TEXTS}),
            "Program.from_text": Row(vyre.Program.from_text, {"text": SAXPY.to_text(), "filename": "a"}),
            "Program.from_wire": Row(vyre.Program.from_wire, {"data": SAXPY.to_wire()}),
            "Program.from_json": Row(vyre.Program.from_json, {"value": SAXPY.to_json()}),
        }


QUICK: Final = vyre.TuningSettings(profiles=False)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    with (
        vyre.open("cuda-machine", cache=folder / "cache", journal=vyre.DecisionJournal()) as session,
        cuda_machine(export_fake=True).open() as exporting,
        nullcontext() if llvm_version() is None else vyre.open("cpu", threads=1) as native,
    ):
        made = World(session, exporting, folder, native)
        yield made
        if made.jobs is not None:
            made.jobs.close()


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with the names of some kinds are written here."""
    monkeypatch.chdir(tmp_path)


def taken(row: Row, name: str) -> set[str]:
    """The kinds that an argument takes; NumPy's integers wherever Python's are taken."""
    if name in row.takes:
        kinds = row.takes[name] | ({"none"} if row.right[name] is None else set())
        return kinds | ({"numpy int"} if "one" in kinds else set())
    parameter = inspect.signature(row.function).parameters.get(name)
    found = set[str]()
    for part in str(parameter.annotation if parameter else "None").split(" | "):
        found |= TAKES.get(part.strip(), set())
    return found


def ended(result: Any) -> None:
    closed = vyre.Session | vyre.ResidentArray | BoundResidentLaunch
    closed |= vyre.PersistentJobs | vyre.Queries | vyre.ResidentCache
    if isinstance(result, closed):
        result.close()


def problems(label: str, row: Row) -> Iterator[str]:
    """What is wrong about the answers to arguments of every kind."""
    if not row.refused:
        ended(row.function(**row.right))
    for name in row.right:
        takes = taken(row, name)
        for kind in KINDS:
            given = made(kind)
            try:
                result = row.function(**{**row.right, name: given})
            except VyreError as error:
                if "Fix: " not in str(error):
                    yield f"{label}({name}={kind}): no fix in {error}"
            except Exception as error:
                yield f"{label}({name}={kind}): {type(error).__name__}"
            else:
                ended(result)
                if kind not in takes:
                    yield f"{label}({name}={kind}): was taken"


GROUPS: Final = ("session", "session_kernel", "persistent", "object", "function", "value")
NOT_CALLED: Final = {
    # what vyre hands out
    "DataRaceError", "Diagnostic", "DispatchTiming", "LaunchGeometry", "PredictionReport", "RaceReport", "Report",
    "Result",
    "SpecializationReport", "Tuned", "TuningReport",
    "BoundResidentLaunch", "DataRace", "Explanation", "Explanation.at", "InvalidationReport", "KnownCosts",
    "LanePlace", "LanePlace.of", "LaunchCosts", "LaunchCosts.kernel", "RacingAccess", "SelectionReport",
    "OptimizedProgram", "LoadedBundle", "WrittenBundle", "EvidenceBundle", "EvidenceBundle.bytes_of", "EvidenceReplay",
    "Missing", "ShadowReport", "ShadowState", "ShadowState.settle", "ShadowState.wait",
    # records of dialects, which the registry checks, and tests of their own beside it
    "StoredProgram",
    "Deprecation", "Dialect", "Lowering", "Lowering.of", "Migration", "Operation", "Operation.lowering", "Operation.of",
    "OperationVersion", "dialect_registry",
    # records of the port, which the application makes and checks
    "Pipeline.dispatch", "Pipeline.fill", "Pipeline.run", "Pipeline.shapes",
    "SpecValue",
    # called by sessions, for each other
    *(f"{kind}.{name}" for kind in ("PrometheusTelemetry", "RecentEvents", "StructlogTelemetry", "Telemetry")
      for name in ("event", "observe")),
    "StructlogTelemetry", "Telemetry",
    # the language, whose builder and forms have tests of their own
    "Buffer", "BufferHandle", "Program", "ProgramBuilder", "SwitchArms", "Value", "Variable", "View2d", "View3d",
    # the language in Python: read by kernels, and refused by all other callers whatever the arguments are
    "In", "InOut", "Out", "Static", "barrier", "call", "global_id", "grid_loop", "grid_sync", "group_id", "local_id",
    "num_groups",
    "private_array", "spec", "static", "subgroup_lane", "subgroup_size", "trap", "workgroup_array",
    # made by `kernel`
    "Kernel",
    # without arguments, or checked where they are used
    "AotEmitter", "AotTargetId", "Batch", "HostStep", "OutputArena", "Repeat", "Step",
    # made by the session
    "BoundDownload", "Downloaded", "Marked", "TransferReport",
    "FixedPoint", "FixedPointResult", "Explanation.offer", "SequenceRun", "StepSequence.close",
    "Queries", "QueriesPlan", "QueryResults", "ResidentCache", "Temporary", "WorkGroup", "WorkPlan", "WorkQueueResult",
    "DrainProgram", "ResidencyReport", "Speculation", "SpeculationResult",
    "PersistentJobs", "PersistentJobs.call_when_done", "PersistentJobs.in_order_of_end", "PersistentJobs.open_for",
    "PersistentJobs.result", "PersistentJobs.when_done", "Ticket", "JobBatch", "JobBatch.rows_of",
    # calls what can be called, and tells what that raises; refused are all others, in a test of its own
    "Ticket.add_done_callback",
}  # fmt: skip

GIVEN: Final = """
    BatchTicket CandidateReport CostSource DecisionRecord DecisionSummary DeviceSignature Event Imported InvalidEntry
    KeptMemory KernelTime Launcher Law LoweringChoice Measured Migrated MigratedProgram Migrations MovedCalls Offer
    OperandUse PassResult Pin Pins PredictionDecision Quarantined QueryGroup Raced Reason RegisteredOperation
    RegistrySnapshot Rejected Replayed ResidentEviction ShadowLimits Signature SignatureTable SpecializationDecision
    StatedLaw TypedName UploadReuse VerdictDifference

    DialectRegistry Manifest JitOptions Like SupportsArray SupportsArrayInterface SupportsDLPack
"""
"""Classes that public signatures name: parts of what vyre gives, and below them what is checked where it is used."""


def public() -> Iterator[str]:
    """Public functions and methods with arguments, classes that are made by their name."""
    for name in vyre.__all__:
        found = getattr(vyre, name)
        if not callable(found) or isinstance(found, vyre.ScalarType) or inspect.getmodule(found) is functions:
            continue
        if not inspect.isclass(found):
            yield name
        elif not issubclass(found, Exception | Enum | dict) and name not in NOT_CALLED:
            if name not in ("ResidentArray", "Session"):  # neither made nor called by users
                yield name
            for method, function in inspect.getmembers(found, inspect.isroutine):
                is_ours = not method.startswith("_") and not hasattr(Mapping, method) and not hasattr(tuple, method)
                is_ours = is_ours and not isinstance(function, cached_property)
                if is_ours and len(inspect.signature(function).parameters) > inspect.isfunction(function):
                    yield f"{name}.{method}"


def test_no_public_function_is_left_out(world: World) -> None:
    rows = {label for group in GROUPS for label in getattr(world, f"{group}_rows")()}
    rows |= {f"Session.{label}" for label in world.session_rows()}
    left_out = sorted(name for name in {*public()} - rows - NOT_CALLED if name.split(".")[0] not in GIVEN.split())
    if world.native is None:
        left_out = [name for name in left_out if name.split(".")[0] not in ("PersistentJobs", "Ticket", "JobBatch")]
    assert not left_out, ", ".join(left_out)


@pytest.mark.parametrize("group", GROUPS)
def test_wrong_arguments_are_refused_with_errors_of_ours(world: World, group: str) -> None:
    rows: dict[str, Row] = getattr(world, f"{group}_rows")()
    found = [problem for label, row in rows.items() for problem in problems(label, row)]
    assert not found, "\n".join(["", *found])
