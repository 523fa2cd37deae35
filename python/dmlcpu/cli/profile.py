"""``dmlcpu profile``: when each step of a run ran."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import typer

from dmlcpu.cli.images import PixelScaling
from dmlcpu.cli.inputs import complete_feeds, opened_session, read_feeds
from dmlcpu.cli.options import Files, Inputs, Isa, Mean, Model, Scale, Seed, Shapes, Std, Threads, Values
from dmlcpu.cli.tables import Column, print_table
from dmlcpu.shown_values import counted

__all__ = ["command"]

# Runs before those that are recorded: pages are touched, caches filled, threads awake.
_WARM_UP_RUNS = 3

_Event: TypeAlias = Mapping[str, Any]


def command(
    model: Model,
    output: Annotated[
        Path, typer.Option(metavar="FILE", help="the trace to write, for chrome://tracing and ui.perfetto.dev")
    ] = Path("trace.json"),
    files: Files = None,
    inputs: Inputs = None,
    shapes: Shapes = None,
    values: Values = None,
    runs: Annotated[
        int, typer.Option(metavar="N", help="runs, of which the quickest is told: others may have waited", min=1)
    ] = 10,
    seed: Seed = 0,
    mean: Mean = "0",
    std: Std = "1",
    scale: Scale = 1 / 255,
    threads: Threads = 0,
    isa: Isa = "",
) -> None:
    """Write a trace of the quickest of some runs, step by step.

    Its steps are shown, the longest first. Inputs that are not given are random.
    """
    session = opened_session(model, isa, threads)
    given = read_feeds(session.get_inputs(), inputs, files, PixelScaling.parsed(scale, mean, std))
    generator = np.random.default_rng(seed)
    feeds = complete_feeds(session, given, shapes, values, generator)
    for _ in range(_WARM_UP_RUNS):
        session.run(None, feeds)
    traces = [Path(session.profile(output, feeds)).read_text() for _ in range(runs)]
    quickest = min(traces, key=lambda trace: _duration(_steps(trace)))
    output.write_text(quickest)
    steps = _steps(quickest)
    total = _duration(steps)
    _print_steps(steps, total)
    device = session.device
    typer.echo(f"{total:.1f} us in all, isa {device.isa}, {counted(device.num_threads, 'thread')}; {output} is written")


def _steps(trace: str) -> list[_Event]:
    """Return the events of steps, and of parts that are no graphs."""
    events: list[_Event] = json.loads(trace)["traceEvents"]
    return [event for event in events if event["cat"] == "Node" or event["name"] != "dmlcpu"]


def _duration(steps: Iterable[_Event]) -> float:
    return float(sum(step["dur"] for step in steps))


def _print_steps(events: Sequence[_Event], total: float) -> None:
    columns = [Column("us"), Column("share"), Column("operator", words=True), Column("node", words=True)]
    rows = [
        (
            f"{event['dur']:.1f}",
            f"{event['dur'] / total:.1%}",
            event["args"].get("operator", event["name"]),
            event["args"].get("node") or _first_of(event["args"].get("nodes", ())),
        )
        for event in sorted(events, key=lambda event: -event["dur"])
    ]
    print_table(columns, rows)


def _first_of(nodes: Sequence[str]) -> str:
    more = len(nodes) - 1
    return f"{nodes[0]} and {more} more" if more > 0 else "".join(nodes)
