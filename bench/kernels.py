"""The kernels alone, without operators, packing or Python: every cell of the kernel table that this machine can run."""

from __future__ import annotations

import json
import subprocess
from typing import Annotated, Any

import typer

from bench import native
from bench.report import Column, print_table

__all__ = ["command"]


def command(only: Annotated[str, typer.Option(help="kernels whose name contains this")] = "") -> None:
    """Time each kernel on operands in cache: billions of operations or elements a second, and the ratio over scalar."""
    lines = subprocess.run([native.build("kernel_bench")], capture_output=True, text=True, check=True).stdout
    rows: dict[str, dict[str, Any]] = {}
    for line in lines.splitlines():
        record = json.loads(line)
        if only in record["kernel"]:
            rows.setdefault(record["kernel"], {"unit": record["unit"]})[record["isa"]] = record
    isas = list(dict.fromkeys(json.loads(line)["isa"] for line in lines.splitlines()))
    columns = [Column("kernel", lambda row: row[0], left=True), Column("speed in", _unit, left=True)]
    columns += [Column(isa, lambda row, isa=isa: _rate(row[1], isa)) for isa in isas]  # type: ignore[misc]
    print_table(columns, list(rows.items()))
    print("in brackets: times as fast as scalar")


def _unit(row: tuple[str, dict[str, Any]]) -> str:
    return f"10^9 {row[1]['unit']}/s"


def _rate(row: dict[str, Any], isa: str) -> str:
    record = row.get(isa)
    if record is None:  # the operators of this row do without the kernel
        return ""
    faster = row["scalar"]["seconds"] / record["seconds"]
    return f"{record['amount'] / record['seconds'] / 1e9:.1f} ({faster:.1f}x)"
