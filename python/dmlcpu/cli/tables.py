"""Tables of the commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["Column", "print_table", "shape_text", "size_text"]

# Columns of what is no terminal: tables are as wide as what they hold.
_WIDTH = 1000


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its head, and whether it holds words, which begin on the left."""

    head: str
    words: bool = False


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, and an empty line after it."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column.head, justify="left" if column.words else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
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
