"""Tables of the commands."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["Column", "print_table", "shape_text", "size_text"]

# Columns that no table needs, and those that prose is not narrower than.
_UNLIMITED = 1 << 20
_LEAST_OF_PROSE = 20


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its head, whether it holds words, which begin on the left, and whether these may be wrapped."""

    head: str
    words: bool = False
    prose: bool = False


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, and an empty line after it.

    It is as wide as what it holds; on a terminal prose is wrapped to its width, and names and numbers never are.
    """
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        cells = (len(row[index]) for row in rows if index < len(row))
        table.add_column(
            column.head,
            justify="left" if column.words else "right",
            no_wrap=not column.prose,
            min_width=min(_LEAST_OF_PROSE, max(cells, default=0)) if column.prose else None,
        )
    for row in rows:
        table.add_row(*map(Text, row))
    needed = Console(width=_UNLIMITED, height=1).measure(table)
    # Not of rich, to which every terminal that calls itself dumb has 80 columns.
    terminal = shutil.get_terminal_size().columns
    width = max(terminal, needed.minimum) if sys.stdout.isatty() else needed.maximum
    console = Console(width=width, height=1)  # of a width alone rich makes 80 on some terminals
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        typer.echo(line.rstrip())
    typer.echo()


def shape_text(shape: Sequence[int | str | None]) -> str:
    """Return a shape as in ``--shape``; free lengths have their names, or "?".

    >>> shape_text(["batch", 3, None])
    'batch,3,?'
    """
    return ",".join("?" if length is None else str(length) for length in shape) or "scalar"


def size_text(size: int) -> str:
    """Return a number of bytes in the unit that suits it.

    >>> size_text(999), size_text(20480), size_text(3 << 20)
    ('999 B', '20.0 KiB', '3.0 MiB')
    """
    for unit, shift in (("MiB", 20), ("KiB", 10)):
        if size >= 1 << shift:
            return f"{size / (1 << shift):.1f} {unit}"
    return f"{size} B"
