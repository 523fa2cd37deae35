"""One model in one form, on dmlcpu: its results beside onnxruntime's, where its nodes run, and what its steps take."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dmlcpu
from bench.model_zoo import Answer
from bench.peers.onnxruntime_session import onnxruntime_session
from bench.timing import Clock
from dmlcpu.onnx.models.model import load_model

__all__ = ["Agreement", "Placement", "StepCost", "agreement", "placement", "slowest_steps", "start_seconds"]

Array = NDArray[Any]

_MASK_THRESHOLD = 0.3
_STARTS = 3
_PROFILES = 15


@dataclass(frozen=True)
class Agreement:
    """How results compare with onnxruntime's on the same model.

    Attributes:
        difference: The largest difference of an element.
        own_difference: The same between onnxruntime with and without its optimizations.
        range: The largest element, all without sign.
        same_answers: The fraction of answers that are the same.
    """

    difference: float
    own_difference: float
    range: float
    same_answers: float


@dataclass(frozen=True)
class Placement:
    """Where nodes run.

    Attributes:
        native_nodes, nodes: How many nodes the model has, and how many of them run natively.
        foreign: Of the others, by operator and reason, how many.
        parts: How many native graphs, and parts for onnxruntime, a run goes through.
        persistent_bytes: What native graphs keep: constants, packed.
        temporary_bytes: What they use during a run.
        constant_bytes: The constants as they are in the model.
    """

    native_nodes: int
    nodes: int
    foreign: dict[str, int]
    parts: int
    persistent_bytes: int
    temporary_bytes: int
    constant_bytes: int


@dataclass(frozen=True)
class StepCost:
    """One step of a run: its operator and node, and its median seconds."""

    operator: str
    node: str
    seconds: float
    fraction: float


def agreement(session: dmlcpu.InferenceSession, model: bytes, inputs: Sequence[Array], answer: Answer) -> Agreement:
    """Run inputs on dmlcpu, and on onnxruntime with and without its optimizations."""
    reference = onnxruntime_session(model, 1)
    plain = onnxruntime_session(model, 1, is_optimized=False)
    name = session.get_inputs()[0].name
    differences, own_differences, ranges = [0.0], [0.0], [0.0]
    same: list[NDArray[np.bool_]] = []
    for x in inputs:
        results = (runner.run(None, {name: x}) for runner in (session, reference, plain))
        for ours, theirs, plainly in zip(*results, strict=True):
            differences.append(_largest_difference(ours, theirs))
            own_differences.append(_largest_difference(plainly, theirs))
            ranges.append(float(np.abs(theirs.astype(np.float64)).max()))
            same.append((_answers(ours, answer) == _answers(theirs, answer)).reshape(-1))
    fraction = float(np.concatenate(same).mean())
    return Agreement(max(differences), max(own_differences), max(ranges), fraction)


def _largest_difference(a: Array, b: Array) -> float:
    if a.shape != b.shape or a.dtype != b.dtype:
        raise ValueError(f"got {a.dtype} of shape {a.shape}, expected {b.dtype} of shape {b.shape}")
    return float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max())


def _answers(output: Array, answer: Answer) -> Array:
    return output > _MASK_THRESHOLD if answer == "mask" else output.argmax(-1)


def placement(session: dmlcpu.InferenceSession, model: bytes) -> Placement:
    """Tell where the nodes of a session run that has been run."""
    loaded = load_model(model)
    operators = {node.name: f"{node.domain}.{node.operator}".lstrip(".") for node in loaded.nodes}
    partitions = session.partitions()
    foreign: Counter[str] = Counter()
    for partition in partitions:
        foreign.update(f"{operators[node]}: {reason}" for node, reason in partition.reasons.items())
    sizes = [size for partition in partitions if (size := partition.binding_properties) is not None]
    return Placement(
        native_nodes=len(loaded.nodes) - foreign.total(),
        nodes=len(loaded.nodes),
        foreign=dict(foreign.most_common()),
        parts=len(partitions),
        persistent_bytes=sum(size.persistent_resource_size for size in sizes),
        temporary_bytes=sum(size.temporary_resource_size for size in sizes),
        constant_bytes=sum(array.nbytes for array in loaded.constants.values()),
    )


def start_seconds(start: Callable[[], object], clock: Clock) -> float:
    """Return the median time of making a model ready and running it once."""
    seconds = []
    for _ in range(_STARTS):
        begin = clock()
        start()
        seconds.append(clock() - begin)
    return statistics.median(seconds)


def slowest_steps(session: dmlcpu.InferenceSession, x: Array, count: int) -> list[StepCost]:
    """Return the steps that take the most, by the medians of several runs; a part on onnxruntime is one step."""
    name = session.get_inputs()[0].name
    seconds: dict[int, list[float]] = {}
    names: dict[int, str] = {}
    with TemporaryDirectory() as folder:
        for _ in range(_PROFILES):
            path = session.profile(Path(folder) / "trace.json", {name: x})
            events = json.loads(Path(path).read_text())["traceEvents"]
            steps = [event for event in events if event["cat"] == "Node" or event["name"] == "onnxruntime"]
            for index, event in enumerate(steps):
                seconds.setdefault(index, []).append(event["dur"] / 1e6)
                names[index] = event["name"]
    medians = {index: statistics.median(values) for index, values in seconds.items()}
    total = sum(medians.values())
    slowest = sorted(medians, key=medians.__getitem__, reverse=True)[:count]
    return [StepCost(*_split(names[index]), medians[index], medians[index] / total) for index in slowest]


def _split(event: str) -> tuple[str, str]:
    operator, _, node = event.partition(" ")
    return operator, node
