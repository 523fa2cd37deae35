"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

__all__ = ["Files", "Inputs", "Isa", "Mean", "Model", "Scale", "Seed", "Shapes", "Std", "Threads", "Values"]

Model: TypeAlias = Annotated[Path, typer.Argument(help="an ONNX file", show_default=False)]
Files: TypeAlias = Annotated[
    list[str] | None, typer.Argument(help="inputs, as for --input", metavar="[NAME=]FILE", show_default=False)
]
Inputs: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NAME=FILE",
        help="a .npy file, an .npz file with an array of this name, or with one array, a tensor of ONNX (.pb) or an "
        "image; just FILE if the model has one input",
    ),
]
Shapes: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=LENGTHS",
        help="of an input with free lengths, such as x=1,3,224,224; they are 1 else",
    ),
]
Values: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--value", metavar="NAME=N", help="of an input that decides which branch of an If runs, such as use=1"
    ),
]
Threads: TypeAlias = Annotated[
    int, typer.Option(metavar="N", help="threads of a run; by default all processors", min=0, max=1024)
]
Isa: TypeAlias = Annotated[str, typer.Option(metavar="NAME", help="instruction set; by default the best")]
Seed: TypeAlias = Annotated[int, typer.Option(metavar="N", help="of random inputs", min=0)]
Mean: TypeAlias = Annotated[
    str, typer.Option(metavar="NUMBERS", help="subtracted from scaled pixels: a number, or one a channel")
]
Std: TypeAlias = Annotated[str, typer.Option(metavar="NUMBERS", help="what pixels less their mean are divided by")]
Scale: TypeAlias = Annotated[
    float, typer.Option(metavar="NUMBER", help="what pixels are multiplied by, for floating-point inputs")
]
