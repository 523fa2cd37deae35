"""Quantized convolutions beside those of other libraries, in one process, results compared before they are timed."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, cast, get_args

import numpy as np
import typer

import dmlcpu
from bench import native
from bench.choices import Repeats, chosen, chosen_device, installed_versions
from bench.convolution_case import ConvolutionCase
from bench.operands import CODE_TYPES, Layout, PreparedCall
from bench.peers import PEERS, Peer
from bench.report import Column, Compared, plot_ratios, print_ratios, print_table, ratio_columns, write_json
from bench.shapes import ConvolutionShape, available_shape_files, read_shapes
from bench.timing import REPEATS, alternating_medians

__all__ = ["command"]

# Codes that a peer may be off by: it scales and rounds in another order.
_TOLERANCE = 1


@dataclass(frozen=True)
class Row(Compared):
    """One convolution in one layout: seconds a call, and how dmlcpu stands."""

    shape: str
    layout: Layout
    types: str
    operations: int
    seconds: float
    fraction_of_limit: float | None
    peer_seconds: Mapping[str, float]


def command(
    peers: Annotated[str, typer.Option(help=f"libraries to compare with, of {', '.join(PEERS)}; none if empty")] = "",
    shapes: Annotated[
        str, typer.Option(help=f"networks, of {', '.join(available_shape_files())}, or files")
    ] = "reference",
    isa: Annotated[str, typer.Option(help="instruction sets, one run each; by default the best")] = "",
    threads: Annotated[int, typer.Option(help="threads of a dispatch, of dmlcpu and of the peers")] = 1,
    batch: Annotated[int, typer.Option(help="images", min=1)] = 1,
    layouts: Annotated[str, typer.Option(help="NCHW, NHWC, of input and output memory")] = "NCHW,NHWC",
    types: Annotated[str, typer.Option(help=f"of input and filter: {', '.join(CODE_TYPES)}")] = "u8s8",
    filter_bits: Annotated[int, typer.Option(help="8, or 7 for peers whose sums saturate", min=7, max=8)] = 8,
    only: Annotated[str, typer.Option(help="shapes whose line contains this")] = "",
    repeats: Repeats = REPEATS,
    json: Annotated[Path | None, typer.Option(help="a file to write the figures to; of several sets one each")] = None,
    plot: Annotated[Path | None, typer.Option(help="a picture of the ratios to write, likewise")] = None,
) -> None:
    """Time convolutions of networks on dmlcpu and on other libraries."""
    isas = chosen("--isa", isa, dmlcpu.available_isas())
    if len(isas) > 1:
        # A peer holds to the instruction set that its process began with.
        for name in isas:
            arguments = _of_one(name, sys.argv[1:], {"--json": json, "--plot": plot})
            run = subprocess.run([sys.executable, "-m", "bench", *arguments], check=False)
            if run.returncode:
                raise typer.Exit(run.returncode)
        return
    device = chosen_device("".join(isas), threads)
    code_types, memories = chosen("--types", types, CODE_TYPES), chosen("--layouts", layouts, get_args(Layout))
    versions = installed_versions(chosen("--peers", peers, PEERS), lambda name: PEERS[name].version())
    limit = _limit(device.isa) * threads
    print(
        f"dmlcpu {dmlcpu.__version__}, isa {device.isa}, {threads} threads; limit {limit / 1e12:.2f} TOPS; {versions}"
    )
    cases = [
        ConvolutionCase(shape, types_name, filter_bits)
        for shape in _chosen_shapes(shapes, batch)
        for types_name in code_types
        if only in str(shape)
    ]
    rows = [
        _measure(case, cast(Layout, layout), device, [PEERS[name] for name in versions], limit, repeats)
        for case in _with_progress(cases)
        for layout in memories
    ]
    _print(rows, versions)
    if json is not None:
        about = {
            "isa": device.isa,
            "threads": threads,
            "limit": limit,
            "versions": {"dmlcpu": dmlcpu.__version__, **versions},
        }
        write_json(json, about, [asdict(row) for row in rows])
    if plot is not None:
        labels = [f"{row.shape} {row.layout} {row.types}" for row in rows]
        series = {name: [row.ratio(name) for row in rows] for name in versions}
        fractions = {"dmlcpu": [row.fraction_of_limit for row in rows]} if limit else None
        title = f"dmlcpu ({device.isa}, {threads} threads): times as fast as"
        plot_ratios(plot, title, labels, series, fractions)


def _chosen_shapes(names: str, batch: int) -> list[ConvolutionShape]:
    try:
        return [shape for name in names.split(",") for shape in read_shapes(name, batch)]
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="--shapes") from None


def _of_one(isa: str, arguments: Sequence[str], files: Mapping[str, Path | None]) -> list[str]:
    """Return the arguments of one of several instruction sets, whose name goes into those of its files."""
    for option in ("--isa", *files):
        arguments = [*_without_option(arguments, option)]
    # After a hyphen, since a dot would give a name without a suffix one, which a plot takes for its format.
    own = [f"{option}={path.with_stem(f'{path.stem}-{isa}')}" for option, path in files.items() if path is not None]
    return [*arguments, f"--isa={isa}", *own]


def _without_option(arguments: Sequence[str], option: str) -> Iterator[str]:
    """Leave out an option and its value, written as one argument or as two."""
    skip = False
    for argument in arguments:
        if skip or argument.startswith(f"{option}="):
            skip = False
        elif argument == option:
            skip = True
        else:
            yield argument


def _with_progress(cases: Sequence[ConvolutionCase]) -> Iterator[ConvolutionCase]:
    from rich.progress import track

    return iter(track(cases, description="convolutions", transient=True))


def _limit(isa: str) -> float:
    """Return the multiplications and additions a second that one core can do; 0 where none is known."""
    library = native.load("limits")
    library.operations_per_second.restype = ctypes.c_double
    return float(library.operations_per_second(isa.encode()))


def _measure(
    case: ConvolutionCase, layout: Layout, device: dmlcpu.Device, peers: Sequence[Peer], limit: float, repeats: int
) -> Row:
    ours = case.prepare(device, layout)
    ours.run()
    calls: dict[str, Callable[[], object]] = {"dmlcpu": ours.run}
    for peer in peers:
        if layout in peer.layouts and case.types in peer.code_types:
            theirs = peer.prepare(case, device.num_threads, device.isa)
            difference = _largest_difference(ours, theirs)
            if difference <= _TOLERANCE:
                calls[peer.name] = theirs.run
            else:
                print(f"{case.shape} {layout}: {peer.name} is not timed, it differs by up to {difference} codes")
    seconds = alternating_medians(calls, repeats)
    mine = seconds.pop("dmlcpu")
    fraction = case.shape.operations / mine / limit if limit else None
    return Row(str(case.shape), layout, case.types, case.shape.operations, mine, fraction, seconds)


def _largest_difference(ours: PreparedCall, theirs: PreparedCall) -> int:
    theirs.run()
    return int(np.abs(ours.output.astype(np.int32) - theirs.output.astype(np.int32)).max())


def _print(rows: Sequence[Row], versions: Mapping[str, str]) -> None:
    columns = [
        Column("convolution", lambda row: row.shape, left=True),
        Column("memory", lambda row: row.layout),
        Column("types", lambda row: row.types),
        Column("us", lambda row: f"{row.seconds * 1e6:.1f}"),
        Column("of limit", lambda row: "" if row.fraction_of_limit is None else f"{row.fraction_of_limit:.0%}"),
    ]
    columns += ratio_columns(versions)
    print_table(columns, rows)
    for layout in dict.fromkeys(row.layout for row in rows):
        of_layout = [row for row in rows if row.layout == layout]
        for name in versions:
            print_ratios(f"{layout} over {name}", [row.ratio(name) for row in of_layout])
        print_ratios(f"{layout} over the best of them", [row.ratio_over_best for row in of_layout])
