"""The commands, gathered."""

from __future__ import annotations

from typing import Annotated, Final

import typer

import dmlcpu
from dmlcpu.cli import bench, check, info, profile, run
from dmlcpu.cli.failures import reported

__all__ = ["application"]

application: Final = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Quantized ONNX models on any CPU, with DirectML's bits.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dmlcpu {dmlcpu.__version__}")
        raise typer.Exit


@application.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version and exit")
    ] = False,
) -> None:
    pass


for _module in (run, bench, info, check, profile):
    # Of a check 1 says that results differ.
    application.command(_module.__name__.rpartition(".")[2])(reported(_module.command, 2 if _module is check else 1))
