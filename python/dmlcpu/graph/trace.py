"""Profiles as traces in the format of chrome://tracing, which ui.perfetto.dev shows too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

__all__ = ["PartTime", "StepTime", "write_trace"]


@dataclass(frozen=True, slots=True)
class StepTime:
    """When one step of a dispatch ran.

    Attributes:
        type: The operator.
        name: The node that it comes from.
        begin: Nanoseconds from the beginning of the dispatch.
        duration: Nanoseconds.

    >>> StepTime("ELEMENT_WISE_QUANTIZE_LINEAR", "quantize", begin=0, duration=1500).duration / 1e6
    0.0015
    """

    type: str
    name: str
    begin: int
    duration: int


@dataclass(frozen=True, slots=True)
class PartTime:
    """When one part of a run ran: a graph, or what another runtime took.

    Attributes:
        provider: ``"dmlcpu"``, ``"onnxruntime"`` or ``"onnx.reference"``.
        begin, duration: Nanoseconds, from the beginning of the run.
        steps: Of a graph, each step, from the beginning of the part.
        nodes: Names of a model's nodes that it is.
    """

    provider: str
    begin: int
    duration: int
    steps: tuple[StepTime, ...] = ()
    nodes: tuple[str, ...] = ()


def write_trace(path: str | PathLike[str], parts: Sequence[PartTime]) -> None:
    """Write complete events in microseconds: each part, of category Part, and the steps within it, of category Node.

    Raises:
        OSError: The file cannot be written.
    """
    import json  # here, as the import of the package does without it

    trace = {"traceEvents": _trace_events(parts), "displayTimeUnit": "ms"}
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(trace))


def _trace_events(parts: Sequence[PartTime]) -> list[dict[str, Any]]:
    def event(name: str, category: str, begin: int, duration: int, **args: Any) -> dict[str, Any]:
        when = {"ph": "X", "ts": begin / 1e3, "dur": duration / 1e3, "pid": 0, "tid": 0}
        return {"name": name, "cat": category, **when, "args": args}

    events = []
    for part in parts:
        nodes = {"nodes": part.nodes} if part.nodes else {}
        events.append(event(part.provider, "Part", part.begin, part.duration, **nodes))
        for step in part.steps:
            begin, told = part.begin + step.begin, {"operator": step.type, "node": step.name}
            events.append(event(f"{step.type} {step.name}", "Node", begin, step.duration, **told))
    return events
