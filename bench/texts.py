"""Texts: networks whose inputs have another shape at each run, token by token and prompt by prompt.

A run of a shape that has not been seen is planned, by whatever the runtime does then; so all shapes run twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

import dmlcpu
from bench.choices import chosen_device, installed_versions
from bench.model_zoo.quantizing import DYNAMIC, quantized
from bench.model_zoo.text_decoder import HEAD, decoder
from bench.peers.models import MODEL_PEERS
from bench.peers.onnxruntime_session import onnxruntime_session
from bench.report import Column, Compared, print_table, ratio_columns, write_json

__all__ = ["command"]

Array = NDArray[Any]
Run = Callable[[Mapping[str, Array]], list[Array]]

_PROMPT = 8
_PEER = "onnxruntime"


@dataclass(frozen=True)
class Row(Compared):
    """The shapes of one kind of work: median seconds a run, of shapes that are new or known."""

    work: str
    shapes: str
    seconds: float
    peer_seconds: Mapping[str, float] = field(default_factory=dict)


def command(
    layers: Annotated[int, typer.Option(help="of the decoder", min=1)] = 4,
    width: Annotated[int, typer.Option(help=f"elements of a token's state, a multiple of {HEAD}")] = 256,
    words: Annotated[int, typer.Option(help="tokens that the decoder knows", min=1)] = 5000,
    lengths: Annotated[int, typer.Option(help="prompts of so many lengths, and so many tokens one by one", min=1)] = 64,
    isa: Annotated[str | None, typer.Option(help="instruction set of dmlcpu; by default the best")] = None,
    threads: Annotated[int, typer.Option(help="threads of a run, of dmlcpu and of the peer")] = 1,
    json: Annotated[Path | None, typer.Option(help="a file to write the figures to")] = None,
) -> None:
    """Time a dynamically quantized decoder on texts of all lengths, beside onnxruntime."""
    if width < HEAD or width % HEAD:
        raise typer.BadParameter(f"got {width}, expected a multiple of {HEAD}", param_hint="--width")
    if words < (least := _PROMPT + lengths - 1):
        raise typer.BadParameter(f"got {words}, expected at least {least}, the longest text", param_hint="--words")
    device = chosen_device(isa, threads)
    versions = installed_versions([_PEER], lambda name: MODEL_PEERS[name].version())
    print(f"dmlcpu {dmlcpu.__version__}, isa {device.isa}, {threads} threads; {versions}")
    model = quantized(decoder(layers, width, words), DYNAMIC, ()).SerializeToString()
    shape = (1, width // HEAD, 0, HEAD)
    inputs = dmlcpu.InferenceSession(model).get_inputs()
    empty = {value.name: np.zeros(shape, np.float32) for value in inputs if value.name != "ids"}
    for name, difference in _differences(_opened(model, device, versions), _prompts(empty, lengths)).items():
        print(f"results differ from {name}'s by {difference:.2g} of their range at most")
    runs, rows = _opened(model, device, versions), []
    for work, texts in (("prompts", _prompts), ("tokens", _tokens)):
        for shapes in ("new", "known"):
            seconds = _medians(runs, lambda texts=texts: texts(empty, lengths))  # type: ignore[misc]
            rows.append(Row(work, shapes, seconds.pop("dmlcpu"), seconds))
    columns = [
        Column("work", lambda row: row.work, left=True),
        Column("shapes", lambda row: row.shapes, left=True),
        Column("ms", lambda row: f"{row.seconds * 1e3:.3g}"),
    ]
    print_table([*columns, *ratio_columns(versions, before="")], rows)
    if json is not None:
        about = {"isa": device.isa, "threads": threads, "layers": layers, "width": width, "versions": versions}
        write_json(json, about, [asdict(row) for row in rows])


def _opened(model: bytes, device: dmlcpu.Device, peers: Mapping[str, str]) -> dict[str, Run]:
    """Return how each runtime runs a model; each has seen no shapes yet."""
    session = dmlcpu.InferenceSession(model, device=device)
    runs: dict[str, Run] = {"dmlcpu": lambda feeds: session.run(None, feeds)}
    if _PEER in peers:
        other = onnxruntime_session(model, device.num_threads)
        runs[_PEER] = lambda feeds: [np.asarray(array) for array in other.run(None, feeds)]
    return runs


Texts = Iterator[Callable[[list[Array] | None], dict[str, Array]]]
"""Feeds of one run after the other, made of what the run before returned."""


def _prompts(empty: Mapping[str, Array], lengths: int) -> Texts:
    """Texts of all lengths, each by itself."""
    for length in range(_PROMPT, _PROMPT + lengths):
        yield lambda _, length=length: {"ids": np.arange(length)[None], **empty}  # type: ignore[misc]


def _tokens(empty: Mapping[str, Array], lengths: int) -> Texts:
    """Tokens one by one, after a prompt; which they are does not follow from results: all runtimes have the same."""
    yield lambda _: {"ids": np.arange(_PROMPT)[None], **empty}
    for number in range(lengths):
        yield (
            lambda results, number=number: {  # type: ignore[misc]
                "ids": np.array([[number]]),
                **dict(zip(empty, results[1:], strict=True)),
            }
        )


def _medians(runs: Mapping[str, Run], texts: Callable[[], Texts]) -> dict[str, float]:
    """Return the median seconds of a run of each runtime; they take turns, run by run."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    results: dict[str, list[Array] | None] = dict.fromkeys(runs)
    for feeds_after in texts():
        for name, run in runs.items():
            feeds = feeds_after(results[name])
            begin = time.perf_counter()
            results[name] = run(feeds)
            seconds[name].append(time.perf_counter() - begin)
    return {name: median(values) for name, values in seconds.items()}


def _differences(runs: Mapping[str, Run], texts: Texts) -> dict[str, float]:
    """Return by how much the results of dmlcpu and others differ at most, as a fraction of their range."""
    differences: dict[str, float] = {}
    for feeds_after in texts:
        feeds = feeds_after(None)
        ours = runs["dmlcpu"](feeds)[0]
        for name, run in runs.items():
            if name != "dmlcpu":
                difference = float(np.abs(ours - run(feeds)[0]).max() / np.ptp(ours))
                differences[name] = max(differences.get(name, 0.0), difference)
    return differences
