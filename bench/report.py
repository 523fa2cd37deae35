"""How measurements are shown: tables, files, pictures."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

__all__ = [
    "Column",
    "Compared",
    "plot_ratios",
    "print_ratios",
    "print_table",
    "ratio_columns",
    "ratio_text",
    "write_json",
]


@dataclass(frozen=True)
class Column:
    """A column of a table: its head, and what it shows of a row."""

    head: str
    text: Callable[[Any], str]
    left: bool = False


class Compared:
    """What rows have that were timed beside peers."""

    seconds: float
    peer_seconds: Mapping[str, float]

    def ratio(self, peer: str) -> float | None:
        """How many times dmlcpu is as fast as a peer."""
        return self.peer_seconds[peer] / self.seconds if peer in self.peer_seconds else None

    @property
    def ratio_over_best(self) -> float | None:
        """The same over the fastest peer."""
        return min(self.peer_seconds.values()) / self.seconds if self.peer_seconds else None


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


def ratio_columns(peers: Iterable[str], before: str = "over ") -> list[Column]:
    """Return a column for each peer: how many times as fast dmlcpu is. Heads are the names, with a word before them."""
    return [Column(f"{before}{peer}", partial(_shown_ratio, peer=peer)) for peer in peers]


def _shown_ratio(row: Compared, peer: str) -> str:
    return ratio_text(row.ratio(peer))


def ratio_text(ratio: float | None) -> str:
    """Return a ratio with two places behind the point; nothing where there is none."""
    return "" if ratio is None else f"{ratio:.2f}"


def print_ratios(over: str, ratios: Iterable[float | None]) -> None:
    """Print what the ratios over a peer come to, as far as there are any."""
    known = [ratio for ratio in ratios if ratio is not None]
    if known:
        print(f"{over}: geometric mean {_geometric_mean(known):.2f}, least {min(known):.2f}")


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def write_json(path: Path, about: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write what was measured and under which conditions."""
    path.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")


Series: TypeAlias = Mapping[str, Sequence[float | None]]


def plot_ratios(path: Path, title: str, labels: Sequence[str], series: Series, fractions: Series | None = None) -> None:
    """Draw a bar for each ratio on a logarithmic axis, with a line where both are equally fast.

    Args:
        path: The picture to write.
        title: Of the ratios' axis.
        labels: What is measured, from above.
        series: By name, a ratio for each label, None where there is none.
        fractions: The same of fractions, for a second picture beside it.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    columns = 1 if fractions is None else 2
    size = (4 + 4 * columns, 1 + 0.22 * len(labels) * max(len(series), 1))
    figure, axes = plt.subplots(1, columns, figsize=size, layout="constrained", sharey=True, squeeze=False)
    ratios = axes[0, 0]
    _draw_bars(ratios, labels, series)
    ratios.axvline(1, color="black", linewidth=0.8)
    ratios.set_xscale("log", base=2)
    ratios.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ratios.set_xlabel(title)
    ratios.invert_yaxis()
    if fractions is not None:
        _draw_bars(axes[0, 1], labels, fractions)
        axes[0, 1].set_xlim(0, 1)
        axes[0, 1].xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes[0, 1].set_xlabel("of the machine's limit")
    figure.savefig(path)
    plt.close(figure)


def _draw_bars(axes: Any, labels: Sequence[str], series: Series) -> None:
    height = 0.8 / max(len(series), 1)
    for index, (name, values) in enumerate(series.items()):
        shown = [(place, value) for place, value in enumerate(values) if value is not None]
        axes.barh([place + index * height for place, _ in shown], [value for _, value in shown], height, label=name)
    axes.set_yticks([place + 0.4 - height / 2 for place in range(len(labels))], labels, fontsize=7)
    axes.legend()
