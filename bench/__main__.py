"""The command line of the measurements."""

from __future__ import annotations

import typer

from bench import convolution, dispatch, element_wise, isas, kernels, matrix_multiply, models, texts

application = typer.Typer(add_completion=False, no_args_is_help=True, help="Measure dmlcpu.", rich_markup_mode=None)
application.command("conv")(convolution.command)
application.command("matmul")(matrix_multiply.command)
application.command("elementwise")(element_wise.command)
application.command("models")(models.command)
application.command("texts")(texts.command)
application.command("kernels")(kernels.command)
application.command("isas")(isas.command)
application.command("dispatch")(dispatch.command)

if __name__ == "__main__":
    application(prog_name="python -m bench")
