"""``dmlcpu run``: a model on files."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from dmlcpu.cli.images import PixelScaling
from dmlcpu.cli.inputs import opened_session, read_feeds, require_all, require_tensors
from dmlcpu.cli.options import Files, Inputs, Isa, Mean, Model, Scale, Std, Threads
from dmlcpu.cli.tables import Column, print_table, shape_text

__all__ = ["command"]


def command(
    model: Model,
    files: Files = None,
    inputs: Inputs = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="an .npz file to write the outputs to, by name; its name gets this ending if it has another; INT4 "
            "becomes int8, UINT4 uint8, FLOAT8 and BFLOAT16 float32",
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(metavar="N", help="classes to show of an output that is a row of scores; 5 by default", min=0),
    ] = None,
    mean: Mean = "0",
    std: Std = "1",
    scale: Scale = 1 / 255,
    threads: Threads = 0,
    isa: Isa = "",
) -> None:
    """Run a model once on arrays and images, and show its outputs.

    Images are set upright and resized to the size of the input; of 16-bit pixels the upper 8 count. UINT8 inputs get
    pixels, INT8 inputs pixels less 128, floating-point inputs (pixel * scale - mean) / std.
    """
    session = opened_session(model, isa, threads)
    require_tensors(session.get_outputs())
    feeds = read_feeds(session.get_inputs(), inputs, files, PixelScaling.parsed(scale, mean, std))
    require_all(session.get_inputs(), feeds)
    names = [value.name for value in session.get_outputs()]
    results = dict(zip(names, session.run(None, feeds), strict=True))
    rows = [(name, shape_text(array.shape), str(array.dtype)) for name, array in results.items()]
    print_table([Column("output", words=True), Column("shape", words=True), Column("type", words=True)], rows)
    for name, array in results.items():
        if top != 0 and _are_scores(array):
            classes = [(str(index), _score_text(score)) for index, score in _best(array, 5 if top is None else top)]
            print_table([Column(f"class ({name})"), Column("score")], classes)
    if top and not any(map(_are_scores, results.values())):
        typer.echo(f"--top {top}: no output is a single row of scores", err=True)
    if output is not None:
        path = output if output.suffix == ".npz" else output.with_name(f"{output.name}.npz")  # as numpy's savez
        _write(path, results)
        typer.echo(f"{path} is written")


def _are_scores(array: NDArray[Any]) -> bool:
    """Tell whether an output looks like the scores of classes: one axis longer than 1, of numbers below 100,000."""
    return array.dtype.kind in "iuf" and 2 <= array.size < 100_000 and max(array.shape) == array.size


def _best(array: NDArray[Any], top: int) -> Iterator[tuple[int, Any]]:
    scores = array.reshape(-1)
    # Of equal scores the first class comes first; integers are negated where none overflows.
    ranks = np.argsort(-scores.astype(np.float64), kind="stable")
    return ((int(index), scores[index]) for index in ranks[:top])


def _score_text(score: Any) -> str:
    return f"{score:.4f}" if score.dtype.kind == "f" else str(score)


def _write(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write an .npz file, elements that numpy itself has not as such that hold them; savez takes no name "file"."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array.astype(_stored_dtype(array.dtype)), allow_pickle=False)


def _stored_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a type of numpy's own that holds what a type does, of ml_dtypes' those of fewer than 32 bits.

    >>> _stored_dtype(np.dtype(np.uint8)), _stored_dtype(np.dtype(object))
    (dtype('uint8'), dtype('<U'))
    """
    if dtype.kind == "O":  # strings
        return np.dtype(np.str_)
    if dtype.isbuiltin != 2:
        return dtype
    return np.dtype(dtype.name.rstrip("0123456789") + "8" if "int" in dtype.name else np.float32)
