"""How measurements are shown: tables, files, pictures."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Column", "geometric_mean", "plot_ratios", "print_table", "write_json"]


@dataclass(frozen=True)
class Column:
    """A column of a table: its head, and what it shows of a row."""

    head: str
    text: Callable[[Any], str]
    left: bool = False


def print_table(columns: Sequence[Column], rows: Sequence[Any]) -> None:
    """Print rows as a table as wide as it needs to be."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for column in columns:
        table.add_column(column.head, justify="left" if column.left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(column.text(row) for column in columns))
    Console(width=200).print(table)


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def write_json(path: Path, about: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write what was measured and under which conditions."""
    path.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")


def plot_ratios(path: Path, title: str, labels: Sequence[str], series: Mapping[str, Sequence[float | None]]) -> None:
    """Draw a bar for each ratio on a logarithmic axis, with a line where both are equally fast."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 1 + 0.22 * len(labels) * max(len(series), 1)), layout="constrained")
    height = 0.8 / max(len(series), 1)
    for index, (name, ratios) in enumerate(series.items()):
        shown = [(place, ratio) for place, ratio in enumerate(ratios) if ratio is not None]
        axes.barh([place + index * height for place, _ in shown], [ratio for _, ratio in shown], height, label=name)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_yticks([place + 0.4 - height / 2 for place in range(len(labels))], labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel(title)
    axes.legend()
    figure.savefig(path)
    plt.close(figure)
