"""Products of quantized matrices beside those of other libraries, results compared before they are timed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, cast, get_args

import numpy as np
import typer

import dmlcpu
from bench import native
from bench.choices import Repeats, chosen, chosen_device, installed_versions
from bench.matrix_case import NETWORKS, MatrixCase, MatrixShape, Result
from bench.operands import CODE_TYPES
from bench.peers.matrix_multiply import MATRIX_PEERS, peer_version
from bench.report import Column, Compared, print_ratios, print_table, ratio_columns, write_json
from bench.timing import REPEATS, alternating_medians

__all__ = ["command"]

# Rows up to which a product reads b at the speed of memory.
_FEW_ROWS = 8


@dataclass(frozen=True)
class Row(Compared):
    """One product: seconds a call, and how dmlcpu stands."""

    network: str
    shape: str
    result: Result
    types: str
    b: str
    seconds: float
    fraction_of_limit: float | None
    fraction_of_read: float | None
    peer_seconds: Mapping[str, float]


def command(
    peers: Annotated[str, typer.Option(help=f"libraries to compare with, of {', '.join(MATRIX_PEERS)}")] = "",
    networks: Annotated[str, typer.Option(help=f"of {', '.join(NETWORKS)}")] = ",".join(NETWORKS),
    results: Annotated[str, typer.Option(help="codes, sums, floats: what products end in")] = "codes",
    types: Annotated[str, typer.Option(help=f"of a and b: {', '.join(CODE_TYPES)}")] = "u8s8",
    bound: Annotated[bool, typer.Option("--bound", help="b is bound at each dispatch, not a constant")] = False,
    isa: Annotated[str, typer.Option(help="instruction set; by default the best")] = "",
    threads: Annotated[int, typer.Option(help="threads of a dispatch, of dmlcpu and of the peers")] = 1,
    only: Annotated[str, typer.Option(help="shapes that contain this")] = "",
    repeats: Repeats = REPEATS,
    json: Annotated[Path | None, typer.Option(help="a file to write the figures to")] = None,
) -> None:
    """Time products of quantized matrices on dmlcpu and on other libraries."""
    device = chosen_device(isa, threads)
    shapes = {name: NETWORKS[name] for name in chosen("--networks", networks, NETWORKS)}
    ends, code_types = chosen("--results", results, get_args(Result)), chosen("--types", types, CODE_TYPES)
    versions = installed_versions(chosen("--peers", peers, MATRIX_PEERS), peer_version)
    limits = _Limits(device.isa, threads)
    print(
        f"dmlcpu {dmlcpu.__version__}, isa {device.isa}, {threads} threads; "
        f"limit {limits.operations / 1e12:.2f} TOPS; {versions}"
    )
    present = list(versions)
    rows = [
        _measure(network, MatrixCase(shape, cast(Result, result), name, not bound), device, present, limits, repeats)
        for network, of_network in shapes.items()
        for shape in of_network
        if only in str(shape)
        for result in ends
        for name in code_types
    ]
    _print(rows, present)
    if json is not None:
        about = {"isa": device.isa, "threads": threads, "limit": limits.operations}
        about["versions"] = {"dmlcpu": dmlcpu.__version__, **versions}
        write_json(json, about, [asdict(row) for row in rows])


class _Limits:
    """What the machine can do at most: operations a second, and seconds to read bytes."""

    def __init__(self, isa: str, threads: int) -> None:
        self._library = native.load("limits")
        self._library.operations_per_second.restype = ctypes.c_double
        self._library.seconds_to_read.restype = ctypes.c_double
        self._library.seconds_to_read.argtypes = [ctypes.c_size_t]
        self.operations = float(self._library.operations_per_second(isa.encode())) * threads

    def seconds_to_read(self, shape: MatrixShape) -> float:
        """Return how long one core takes to read the bytes of b."""
        return float(self._library.seconds_to_read(shape.batch * shape.k * shape.n))


def _measure(
    network: str, case: MatrixCase, device: dmlcpu.Device, peers: Sequence[str], limits: _Limits, repeats: int
) -> Row:
    ours = case.prepare(device)
    ours.run()
    calls: dict[str, Callable[[], object]] = {"dmlcpu": ours.run}
    for name in peers:
        theirs = MATRIX_PEERS[name](case, device.num_threads)
        if theirs is None:
            continue
        difference = float(np.abs(ours.output.astype(np.float64) - theirs.output.astype(np.float64)).max())
        scale = float(np.abs(ours.output).max()) if case.result == "floats" else 1.0
        if difference <= case.tolerance * scale:
            calls[name] = theirs.run
        else:
            print(f"{case.shape} {case.types}: {name} is not timed, it differs by up to {difference}")
    seconds = alternating_medians(calls, repeats)
    mine = seconds.pop("dmlcpu")
    return Row(
        network,
        str(case.shape),
        case.result,
        case.types,
        "constant" if case.is_constant else "bound",
        mine,
        case.shape.operations / mine / limits.operations if limits.operations else None,
        limits.seconds_to_read(case.shape) / mine if case.shape.m <= _FEW_ROWS else None,
        seconds,
    )


def _print(rows: Sequence[Row], peers: Sequence[str]) -> None:
    columns = [
        Column("network", lambda row: row.network, left=True),
        Column("product", lambda row: row.shape, left=True),
        Column("into", lambda row: row.result),
        Column("types", lambda row: row.types),
        Column("b", lambda row: row.b),
        Column("us", lambda row: f"{row.seconds * 1e6:.1f}"),
        Column("of limit", lambda row: _percent(row.fraction_of_limit)),
        Column("of reading b", lambda row: _percent(row.fraction_of_read)),
    ]
    columns += ratio_columns(peers)
    print_table(columns, rows)
    for name in peers:
        print_ratios(f"over {name}", [row.ratio(name) for row in rows])


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{fraction:.0%}"
