"""A progress bar on a terminal; elsewhere nothing."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import Progress

__all__ = ["progress_bar"]


def progress_bar() -> Progress:
    """Return a bar on the standard error stream, to be entered, that goes when it is left."""
    console = Console(file=sys.stderr)
    return Progress(console=console, transient=True, disable=not console.is_terminal)
