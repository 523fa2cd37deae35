"""Element-wise operators beside those of other libraries and a plain copy, results compared before they are timed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, cast

import numpy as np
import typer

import dmlcpu
from bench import native
from bench.choices import Repeats, chosen, chosen_device, installed_versions
from bench.element_wise_case import LAYOUTS, OPERATORS, SIZES, ElementWiseCase, Layout, Operator
from bench.operands import PreparedCall
from bench.peers.element_wise import ELEMENT_WISE_PEERS, ElementWisePeer
from bench.report import Column, Compared, plot_ratios, print_ratios, print_table, ratio_columns, write_json
from bench.timing import REPEATS, alternating_medians

__all__ = ["command"]

# Codes that a peer may be off by: it scales and rounds in another order. Of floats, as a part of the largest.
_TOLERANCE = 1
_FLOAT_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Row(Compared):
    """One operator on one layout and size: seconds of a dispatch, of a function's call, of a copy and of peers."""

    operator: Operator
    layout: Layout
    elements: int
    seconds: float
    function_seconds: float
    copy_seconds: float
    peer_seconds: Mapping[str, float]

    @property
    def label(self) -> str:
        """Operator, layout and size."""
        return f"{self.operator} {self.layout} {_size_text(self.elements)}"


def command(
    peers: Annotated[
        str, typer.Option(help=f"libraries to compare with, of {', '.join(ELEMENT_WISE_PEERS)}; none if empty")
    ] = "",
    operators: Annotated[str, typer.Option(help="what to time")] = ",".join(OPERATORS),
    layouts: Annotated[str, typer.Option(help="how tensors lie in memory")] = ",".join(LAYOUTS),
    sizes: Annotated[str, typer.Option(help="elements of a tensor, in Ki")] = ",".join(map(str, SIZES)),
    isa: Annotated[str, typer.Option(help="instruction set; by default the best")] = "",
    threads: Annotated[int, typer.Option(help="threads of a dispatch, of dmlcpu and of the peers")] = 1,
    repeats: Repeats = REPEATS,
    json: Annotated[Path | None, typer.Option(help="a file to write the figures to")] = None,
    plot: Annotated[Path | None, typer.Option(help="a picture of the ratios to write")] = None,
) -> None:
    """Time the element-wise operators on dmlcpu, on other libraries, and a plain copy of as many bytes."""
    device = chosen_device(isa, threads)
    wanted, memories = chosen("--operators", operators, OPERATORS), chosen("--layouts", layouts, LAYOUTS)
    wanted_peers = chosen("--peers", peers, ELEMENT_WISE_PEERS)
    versions = installed_versions(wanted_peers, lambda name: ELEMENT_WISE_PEERS[name].version())
    print(f"dmlcpu {dmlcpu.__version__}, isa {device.isa}, {threads} threads; {versions}")
    cases = [
        ElementWiseCase(cast(Operator, operator), cast(Layout, layout), int(size))
        for operator in wanted
        for size in chosen("--sizes", sizes, {str(size): size for size in SIZES})
        for layout in memories
    ]
    rows = [
        _measure(case, device, [ELEMENT_WISE_PEERS[name] for name in versions], repeats)
        for case in _with_progress(cases)
    ]
    _print(rows, versions)
    if json is not None:
        about = {"isa": device.isa, "threads": threads, "versions": {"dmlcpu": dmlcpu.__version__, **versions}}
        write_json(json, about, [asdict(row) for row in rows])
    if plot is not None:
        series = {name: [row.ratio(name) for row in rows] for name in versions}
        series["copy"] = [row.copy_seconds / row.seconds for row in rows]
        title = f"dmlcpu ({device.isa}, {threads} threads): times as fast as"
        plot_ratios(plot, title, [row.label for row in rows], series)


def _with_progress(cases: Sequence[ElementWiseCase]) -> Iterator[ElementWiseCase]:
    from rich.progress import track

    return iter(track(cases, description="operators", transient=True))


def _measure(case: ElementWiseCase, device: dmlcpu.Device, peers: Sequence[ElementWisePeer], repeats: int) -> Row:
    ours = case.prepare(device)
    ours.run()
    calls: dict[str, Callable[[], object]] = {
        "dispatch": ours.run,
        "function": case.prepare_function(device).run,
        "copy": _copy(case),
    }
    for peer in peers:
        if case.layout in peer.layouts[case.operator]:
            theirs = peer.prepare(case, device.num_threads)
            if _agree(case, ours, theirs):
                calls[peer.name] = theirs.run
            else:
                print(f"{case.operator} {case.layout}: {peer.name} is not timed, its results differ")
    seconds = alternating_medians(calls, repeats)
    dispatch, function, copy = (seconds.pop(name) for name in ("dispatch", "function", "copy"))
    return Row(case.operator, case.layout, case.elements, dispatch, function, copy, seconds)


def _agree(case: ElementWiseCase, ours: PreparedCall, theirs: PreparedCall) -> bool:
    if case.operator == "dequantize":
        return bool(np.allclose(theirs.output, ours.output, rtol=_FLOAT_TOLERANCE, atol=0))
    return int(np.abs(ours.output.astype(np.int16) - theirs.output.astype(np.int16)).max()) <= _TOLERANCE


def _copy(case: ElementWiseCase) -> Callable[[], object]:
    """Return a call that reads and writes as many bytes as the operator, in one pass and on one thread."""
    function = native.load("limits").copy_bytes
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t]
    source, target = np.ones(case.bytes_read, np.uint8), np.ones(case.bytes_written, np.uint8)
    arguments = (source.ctypes.data, source.size, target.ctypes.data, target.size)

    def run() -> object:
        return function(*arguments), source, target

    return run


def _print(rows: Sequence[Row], versions: Mapping[str, str]) -> None:
    contiguous = {(row.operator, _size_text(row.elements)): row for row in rows if row.layout == "contiguous"}

    def over_contiguous(row: Row) -> str:
        base = contiguous.get((row.operator, _size_text(row.elements)))
        return "" if base is None else f"{row.seconds / row.elements / base.seconds * base.elements:.2f}"

    columns = [
        Column("operator", lambda row: row.operator, left=True),
        Column("layout", lambda row: row.layout, left=True),
        Column("elements", lambda row: _size_text(row.elements)),
        Column("us", lambda row: f"{row.seconds * 1e6:.1f}"),
        Column("function us", lambda row: f"{row.function_seconds * 1e6:.1f}"),
        Column("Gelem/s", lambda row: f"{row.elements / row.seconds * 1e-9:.2f}"),
        Column("time over copy", lambda row: f"{row.seconds / row.copy_seconds:.2f}"),
        Column("over contiguous", over_contiguous),
    ]
    columns += ratio_columns(versions)
    print_table(columns, rows)
    for size in dict.fromkeys(_size_text(row.elements) for row in rows):
        print_ratios(f"{size} over the best", [row.ratio_over_best for row in rows if _size_text(row.elements) == size])


def _size_text(elements: int) -> str:
    """Describe a size by the nearest power of two, since not every layout divides it."""
    kibi = 1 << round(np.log2(elements / 1024))
    return f"{kibi} Ki" if kibi < 1024 else f"{kibi >> 10} Mi"
