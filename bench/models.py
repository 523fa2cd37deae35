"""Quantized networks beside other runtimes, in one process, results compared before they are timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

import dmlcpu
from bench.choices import Repeats, chosen, chosen_device, installed_versions
from bench.model_case import Agreement, Placement, StepCost, agreement, placement, slowest_steps, start_seconds
from bench.model_zoo import FORMS, NETWORKS, MissingPackageError, Network, TinyNetwork, default_folder
from bench.peers.models import MODEL_PEERS, ModelPeer, OpenModel
from bench.report import Column, Compared, plot_ratios, print_ratios, print_table, ratio_columns, ratio_text, write_json
from bench.timing import REPEATS, Clock, alternating_medians, scaling

__all__ = ["command"]

Array = NDArray[Any]

_COMPARED_INPUTS = 8
# What results of a peer may differ by, as a fraction of their range, without a note beside its time: roundings add up.
_TOLERANCE = 0.25


@dataclass(frozen=True)
class Row(Compared):
    """One network in one form: seconds a run, how dmlcpu stands, and how it scales with callers."""

    network: str
    form: str
    batch: int
    seconds: float
    start_seconds: float
    agreement: Agreement
    placement: Placement
    peer_seconds: Mapping[str, float] = field(default_factory=dict)
    peer_start_seconds: Mapping[str, float] = field(default_factory=dict)
    peer_notes: Mapping[str, str] = field(default_factory=dict)
    slowest: Sequence[StepCost] = ()
    scaling: float | None = None


@dataclass(frozen=True)
class _Settings:
    """How networks are measured.

    Attributes:
        device: Of dmlcpu; peers have as many threads.
        batch: Images a run.
        repeats: Of which the median counts.
        clock: What seconds are told by.
        steps: How many of the slowest steps are told.
        callers: Threads that run a network at once, to compare with one; 0 for none.
    """

    device: dmlcpu.Device
    batch: int
    repeats: int
    clock: Clock
    steps: int
    callers: int


def command(
    networks: Annotated[str, typer.Option(help=f"of {', '.join(NETWORKS)}")] = ",".join(NETWORKS),
    forms: Annotated[str, typer.Option(help="format, and types of activations and filters")] = ",".join(FORMS),
    peers: Annotated[str, typer.Option(help="runtimes to compare with; none if empty")] = ",".join(MODEL_PEERS),
    isa: Annotated[str | None, typer.Option(help="instruction set of dmlcpu; by default the best")] = None,
    threads: Annotated[int, typer.Option(help="threads of a run, of dmlcpu and of the peers")] = 1,
    batch: Annotated[int, typer.Option(help="images a run", min=1)] = 1,
    callers: Annotated[
        int, typer.Option(help="threads that each run the network at once, to compare with one; 0 for none", min=0)
    ] = 0,
    folder: Annotated[Path | None, typer.Option(help="where quantized networks are kept; by default a cache")] = None,
    steps: Annotated[int, typer.Option(help="how many of the slowest steps to print of each", min=0)] = 0,
    build_only: Annotated[
        bool, typer.Option("--build-only", help="make the quantized networks, measure nothing")
    ] = False,
    cpu_time: Annotated[bool, typer.Option("--cpu-time", help="for a processor that others use too")] = False,
    repeats: Repeats = REPEATS,
    json: Annotated[Path | None, typer.Option(help="a file to write the figures to")] = None,
    plot: Annotated[Path | None, typer.Option(help="a picture of the ratios to write")] = None,
) -> None:
    """Time whole quantized networks on dmlcpu and on other runtimes."""
    wanted_forms, wanted = chosen("--forms", forms, FORMS), chosen("--networks", networks, NETWORKS)
    device = chosen_device(isa, threads)
    versions = installed_versions(chosen("--peers", peers, MODEL_PEERS), lambda name: MODEL_PEERS[name].version())
    clock, measured = (time.process_time, "processor time") if cpu_time else (time.perf_counter, "time")
    print(f"dmlcpu {dmlcpu.__version__}, isa {device.isa}, {threads} threads, batch {batch}, {measured}; {versions}")
    settings = _Settings(device, batch, repeats, clock, steps, callers)
    rows = []
    for network, form in ((NETWORKS[name], form) for name in wanted for form in wanted_forms):
        if form not in network.forms:
            continue
        try:
            model = network.model(form, batch, folder or default_folder())
        except MissingPackageError as error:
            print(f"{network.name} is left out: {error}")
            continue
        if not build_only:
            given = {peer: _given(MODEL_PEERS[peer], network, model, batch, folder) for peer in versions}
            rows.append(_measure(network, form, model, given, settings))
    if build_only:
        return
    if not rows:
        print("nothing was measured")
        raise typer.Exit(1)
    _print(rows, versions)
    if json is not None:
        about = {
            "isa": device.isa,
            "threads": threads,
            "cpu_time": cpu_time,
            "versions": {"dmlcpu": dmlcpu.__version__, **versions},
        }
        write_json(json, about, [asdict(row) for row in rows])
    if plot is not None:
        series = {name: ratios for name in versions if any(ratios := [row.ratio(name) for row in rows])}
        labels = [f"{row.network} {row.form}" for row in rows]
        plot_ratios(plot, f"dmlcpu ({device.isa}, {threads} threads, batch {batch}): times as fast as", labels, series)


def _given(
    peer: ModelPeer, network: Network | TinyNetwork, model: bytes, batch: int, folder: Path | None
) -> bytes | None:
    """Return the model that a peer is given; None if it takes none of this network's."""
    if not peer.form:
        return model
    try:
        if peer.form == "tflite":
            return network.tflite() if isinstance(network, TinyNetwork) else None
        return network.model("float", batch, folder or default_folder()) if "float" in network.forms else None
    except MissingPackageError as error:
        print(f"{network.name} is not timed on {peer.name}: {error}")
        return None


def _measure(
    network: Network | TinyNetwork, form: str, model: bytes, given: Mapping[str, bytes | None], settings: _Settings
) -> Row:
    device, clock, repeats = settings.device, settings.clock, settings.repeats
    inputs = network.inputs(_COMPARED_INPUTS, settings.batch)
    x = inputs[0]
    session = dmlcpu.InferenceSession(model, device=device)
    feeds = {session.get_inputs()[0].name: x}
    outputs = session.run(None, feeds)
    calls: dict[str, Callable[[], object]] = {"dmlcpu": lambda: session.run(None, feeds)}
    starts = {"dmlcpu": start_seconds(lambda: dmlcpu.InferenceSession(model, device=device).run(None, feeds), clock)}
    notes = {}
    for name, own in given.items():
        if own is None:
            continue
        opened, notes[name] = _opened(MODEL_PEERS[name], own, x, device.num_threads, outputs)
        if opened is None or notes[name] != opened.note:
            print(f"{network.name} {form} on {name}: {notes[name]}")
        if opened is not None:
            calls[name] = opened.run
            starts[name] = start_seconds(partial(MODEL_PEERS[name].open, own, x, device.num_threads), clock)
    seconds = alternating_medians(calls, repeats, clock)
    return Row(
        network.name,
        form,
        settings.batch,
        seconds.pop("dmlcpu"),
        starts.pop("dmlcpu"),
        agreement(session, model, inputs, network.answer),
        placement(session, model),
        seconds,
        starts,
        notes,
        slowest_steps(session, x, settings.steps) if settings.steps else (),
        scaling(calls["dmlcpu"], settings.callers, repeats) if settings.callers else None,
    )


def _opened(
    peer: ModelPeer, model: bytes, x: Array, num_threads: int, expected: Sequence[Array]
) -> tuple[OpenModel | None, str]:
    """Return a model that a peer has run, None if it does not take it, and what a reader should know of that."""
    try:
        opened = peer.open(model, x, num_threads)
    except Exception as error:  # whatever a runtime raises on a model that it does not take
        return None, f"not run: {_first_line(error)}"
    difference = _relative_difference(expected, opened)
    if peer.form or difference <= _TOLERANCE:
        return opened, opened.note
    told = f"results differ by {difference:.2g} of their range"
    return opened, f"{opened.note}; {told}" if opened.note else told


def _relative_difference(outputs: Sequence[Array], theirs: OpenModel) -> float:
    """Return the largest difference of two results, as a fraction of the largest element."""
    differences = [
        np.abs(a.astype(np.float64) - np.asarray(b, np.float64).reshape(a.shape)).max()
        / max(np.abs(a.astype(np.float64)).max(), 1e-30)
        for a, b in zip(outputs, theirs.outputs(), strict=True)
    ]
    return float(max(differences))


def _first_line(error: Exception) -> str:
    """Return what tells most of an error: some runtimes begin with where in their source it was raised."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith("Exception from")]
    return (lines[0] if lines else type(error).__name__)[:160]


def _print(rows: Sequence[Row], versions: Mapping[str, str]) -> None:
    named = [Column("network", lambda row: row.network, left=True), Column("form", lambda row: row.form, left=True)]
    print("\ntimes as fast as others")
    speed = Column("ms", lambda row: f"{row.seconds * 1e3:.3g}")
    print_table([*named, speed, *ratio_columns(versions, before="")], rows)
    print("\nresults beside onnxruntime's, and where nodes run")
    results = [
        Column("same answers", lambda row: f"{row.agreement.same_answers:.1%}"),
        Column("differ by", lambda row: f"{row.agreement.difference:.2g}"),
        Column("of", lambda row: f"{row.agreement.range:.3g}"),
        Column("its own", lambda row: f"{row.agreement.own_difference:.2g}"),
        Column("native nodes", lambda row: f"{row.placement.native_nodes}/{row.placement.nodes}"),
        Column("parts", lambda row: str(row.placement.parts)),
    ]
    print_table([*named, *results], rows)
    print("\nuntil the first result (ms); memory (MB): constants in the model, kept by graphs, used by a run;")
    print("scaling: times as many runs a second with all callers as with one")
    costs = [Column("dmlcpu", lambda row: f"{row.start_seconds * 1e3:.0f}")]
    for name in versions:
        costs.append(Column(name, lambda row, name=name: _milliseconds(row.peer_start_seconds.get(name))))  # type: ignore[misc]
    costs += [
        Column("constants", lambda row: f"{row.placement.constant_bytes / 1e6:.2f}"),
        Column("kept", lambda row: f"{row.placement.persistent_bytes / 1e6:.2f}"),
        Column("run", lambda row: f"{row.placement.temporary_bytes / 1e6:.2f}"),
        Column("scaling", lambda row: ratio_text(row.scaling)),
    ]
    print_table([*named, *costs], rows)
    for name in versions:
        print_ratios(f"over {name}", [row.ratio(name) for row in rows])
    for row in rows:
        for name, note in row.peer_notes.items():
            if note:
                print(f"{row.network} {row.form}: {name}: {note}")
        for reason, count in row.placement.foreign.items():
            print(f"{row.network} {row.form}: not native: {count} x {reason}")
        for step in row.slowest:
            cost = f"{step.seconds * 1e6:8.1f} us {step.fraction:4.0%}"
            print(f"{row.network} {row.form}: {cost} {step.operator} {step.node}")


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.0f}"
