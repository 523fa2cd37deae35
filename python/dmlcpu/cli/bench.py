"""``dmlcpu bench``: how long a run of a model takes, beside other runtimes in the same process."""

from __future__ import annotations

import json as json_format
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.cli.differences import Difference, difference
from dmlcpu.cli.failures import one_line
from dmlcpu.cli.inputs import complete_feeds, opened_session, require_tensors
from dmlcpu.cli.options import Isa, Model, Seed, Shapes, Threads, Values
from dmlcpu.cli.peers import PEERS, Runtime
from dmlcpu.cli.progress import progress_bar
from dmlcpu.cli.tables import Column, print_table
from dmlcpu.errors import DmlError
from dmlcpu.shown_values import counted

__all__ = ["command"]

# A turn is long beside a switch between runtimes, and short beside what else happens on the machine.
_SECONDS_A_TURN = 0.05
_OF_MAX = """\
of max: as a part of the largest float. In a quantized model floats differ by steps of codes: one code that is rounded
otherwise is 1/255 of a tensor's range, so that 1e-2 is no fault. dmlcpu check compares operator by operator.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of a runtime.

    Attributes:
        runtime, version: Which it is.
        seconds: The median of a run.
        runs: How many were timed.
        difference: Of its outputs from dmlcpu's; "" for dmlcpu itself.
    """

    runtime: str
    version: str
    seconds: float
    runs: int
    difference: str


def command(
    model: Model,
    peers: Annotated[
        str, typer.Option(metavar="NAMES", help=f"runtimes to compare with, of {', '.join(PEERS)}; commas between")
    ] = "",
    threads: Threads = 0,
    batch: Annotated[int, typer.Option(metavar="N", help="first length of inputs that have it free", min=1)] = 1,
    duration: Annotated[float, typer.Option(metavar="SECONDS", help="for each runtime", min=0.0)] = 3.0,
    isa: Isa = "",
    shapes: Shapes = None,
    values: Values = None,
    seed: Seed = 0,
    json: Annotated[Path | None, typer.Option(help="a file to write the figures to")] = None,
) -> None:
    """Time runs of a model on random inputs. Runtimes take turns; results are compared first, and medians count."""
    chosen = _chosen(peers)
    session = opened_session(model, isa, threads)
    require_tensors(session.get_outputs())
    generator = np.random.default_rng(seed)
    feeds = complete_feeds(session, None, shapes, values, generator, batch)
    device = session.device
    if json is not None:
        json.open("a").close()  # what cannot be written is told before anything is timed
    ours = Runtime("dmlcpu", dmlcpu.__version__, lambda: session.run(None, feeds))
    expected = ours.run()
    runtimes, differences = [ours], {ours.name: ""}
    for name in chosen:
        try:
            peer = PEERS[name](model, feeds, device.num_threads)
            differences[name] = _differences(expected, peer.run())
            runtimes.append(peer)
        except ImportError:
            raise
        except Exception as error:  # each has its own; it is told, and the others are measured
            typer.echo(f"dmlcpu: {name} is not timed: {one_line(error)}", err=True)
    typer.echo(f"isa {device.isa}, {counted(device.num_threads, 'thread')}\n")
    seconds = _timed(runtimes, duration)
    rows = [
        Row(each.name, each.version, statistics.median(taken), len(taken), differences[each.name])
        for each, taken in zip(runtimes, seconds, strict=True)
    ]
    _print(rows)
    if any("of max" in row.difference for row in rows):
        typer.echo(_OF_MAX)
    if json is not None:
        about = {"model": str(model), "isa": device.isa, "threads": device.num_threads, "seed": seed}
        about["shapes"] = {name: array.shape for name, array in feeds.items()}
        json.write_text(json_format.dumps({**about, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")


def _chosen(peers: str) -> Sequence[str]:
    names = [name.strip() for name in peers.split(",") if name.strip()]
    for name in names:
        if name not in PEERS:
            raise DmlError(f"--peers: got {name!r}, expected names of {', '.join(PEERS)}")
    return names


def _differences(ours: Sequence[NDArray[Any]], theirs: Sequence[NDArray[Any]]) -> str:
    """Return the largest difference of all outputs, in codes and of floats."""
    largest: dict[bool, Difference] = {}
    for a, b in zip(ours, theirs, strict=True):
        found = difference(a, np.asarray(b))
        if found.in_codes not in largest or found.largest > largest[found.in_codes].largest:
            largest[found.in_codes] = found
    return ", ".join(f"{found} codes" if found.in_codes else str(found) for found in largest.values())


def _timed(runtimes: Sequence[Runtime], duration: float) -> list[list[float]]:
    """Return the seconds of each run of each runtime; at least 3 turns each, in turn."""
    runs = [_runs_a_turn(runtime) for runtime in runtimes]
    seconds: list[list[float]] = [[] for _ in runtimes]
    spent = [0.0] * len(runtimes)
    with progress_bar() as progress:
        task = progress.add_task("timing", total=duration or 1.0)
        while min(spent) < duration or len(seconds[0]) < 3 * runs[0]:
            for index, runtime in enumerate(runtimes):
                runtime.run()  # not timed: threads of the one before may still be waiting for work
                for _ in range(runs[index]):
                    begin = time.perf_counter()
                    runtime.run()
                    seconds[index].append(time.perf_counter() - begin)
                    spent[index] += seconds[index][-1]
            progress.update(task, completed=min(spent), refresh=True)
    return seconds


def _runs_a_turn(runtime: Runtime) -> int:
    runtime.run()
    begin = time.perf_counter()
    runtime.run()
    return max(1, round(_SECONDS_A_TURN / (time.perf_counter() - begin)))


def _print(rows: Sequence[Row]) -> None:
    columns = [Column("runtime", words=True), Column("version", words=True), Column("ms"), Column("runs/s")]
    columns += [Column("time over dmlcpu"), Column("largest difference")]
    print_table(
        columns,
        [
            (
                row.runtime,
                row.version,
                f"{row.seconds * 1e3:.3f}",
                f"{1 / row.seconds:.1f}",
                f"{row.seconds / rows[0].seconds:.2f}" if row is not rows[0] else "",
                row.difference,
            )
            for row in rows
        ],
    )
