"""The commands, gathered."""

from __future__ import annotations

from typing import Final

import typer

from dmlcpu.cli import bench, check, info, profile, run
from dmlcpu.cli.failures import reported

__all__ = ["application"]

application: Final = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Quantized ONNX models on any CPU, with DirectML's bits.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _module in (run, bench, info, check, profile):
    application.command(_module.__name__.rpartition(".")[2])(reported(_module.command))
