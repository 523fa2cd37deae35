"""A progress bar on a terminal; elsewhere nothing."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import Progress

__all__ = ["progress_bar"]


def progress_bar() -> Progress:
    """Return a bar on the standard error stream, to be entered, that goes when it is left.

    It is drawn when it is updated with ``refresh``, by no thread of its own, which would disturb measurements.
    """
    console = Console(file=sys.stderr)
    console.quiet = not console.is_terminal  # rich 13 ends a bar that is not drawn by an empty line
    return Progress(console=console, transient=True, auto_refresh=False, disable=not console.is_terminal)
