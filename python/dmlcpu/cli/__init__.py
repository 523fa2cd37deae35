"""The command line: ``dmlcpu run``, ``bench``, ``info``, ``check`` and ``profile``, a file each; the extra ``cli``."""

from __future__ import annotations

import io
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command that the arguments of the process name."""
    try:
        from dmlcpu.cli.application import application
    except ModuleNotFoundError as error:
        raise SystemExit(
            f"dmlcpu: the command line needs the package {error.name!r}: pip install 'dmlcpu[cli]'"
        ) from None
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of a model may have characters that the terminal has not
        sys.stdout.reconfigure(errors="backslashreplace")
    application(prog_name="dmlcpu")
