"""``dmlcpu check``: a model beside onnxruntime, one quantized operator at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.cli.differences import Difference, difference
from dmlcpu.cli.failures import needed_module
from dmlcpu.cli.groups import Group, find_groups
from dmlcpu.cli.images import PixelScaling
from dmlcpu.cli.inputs import complete_feeds, fixed_shapes, opened_session, random_array, read_feeds, require_tensors
from dmlcpu.cli.options import Files, Inputs, Isa, Mean, Model, Scale, Seed, Shapes, Std, Threads, Values
from dmlcpu.cli.progress import progress_bar
from dmlcpu.cli.reference_sessions import Recorder, reference_session
from dmlcpu.cli.tables import Column, print_table
from dmlcpu.descriptions import Partition
from dmlcpu.errors import DmlError

if TYPE_CHECKING:
    from dmlcpu.onnx.models.model import Model as LoadedModel

__all__ = ["command"]


@dataclass(frozen=True, slots=True)
class _Row:
    """How the results of a group differ; ``runs_on`` names who runs its nodes in dmlcpu's session."""

    node: str
    operators: str
    runs_on: str
    difference: Difference


def command(
    model: Model,
    files: Files = None,
    inputs: Inputs = None,
    shapes: Shapes = None,
    values: Values = None,
    seed: Seed = 0,
    random_codes: Annotated[
        bool, typer.Option("--random-codes", help="feed random codes to each operator instead of recorded ones")
    ] = False,
    mean: Mean = "0",
    std: Std = "1",
    scale: Scale = 1 / 255,
    threads: Threads = 0,
    isa: Isa = "",
) -> None:
    """Compare a model with onnxruntime, operator by operator.

    An operator is a node on codes, or the nodes from dequantize to quantize. It runs alone in both, on what
    onnxruntime computed before it. Inputs of the model that are not given are random. Ends with exit code 1 if
    codes of an operator differ by more than 1, or floats by more than 1e-4 of the largest. What comes of small
    differences in the whole model is shown last.
    """
    onnxruntime = needed_module("onnxruntime", "onnxruntime", "check compares with onnxruntime")
    from dmlcpu.onnx.models.model import load_model
    from dmlcpu.onnx.models.nodes import has_quantized_nodes

    loaded = load_model(model)
    if not has_quantized_nodes(loaded.nodes):
        raise DmlError(f"{model}: nothing to check, since no node of the model is quantized")
    session = opened_session(model, isa, threads)
    require_tensors(session.get_outputs())
    given = read_feeds(session.get_inputs(), inputs, files, PixelScaling.parsed(scale, mean, std))
    fixed = fixed_shapes(session.get_inputs(), shapes, feeds=given)
    generator = np.random.default_rng(seed)
    feeds = complete_feeds(session, given, fixed, values, generator)
    results = session.run(None, feeds)

    recorder = Recorder(onnxruntime, loaded)
    for value in loaded.outputs:
        if recorder.types[value.name].kind == "V":
            raise DmlError(f"{value.name!r}: elements of type {value.dtype} are not compared")
    groups = find_groups(loaded, recorder.types)
    recorded = recorder.run(groups, feeds)
    if random_codes:
        recorded.update(_random_codes(groups, recorded, generator))
    with progress_bar() as progress:
        compared = _compared(onnxruntime, loaded, groups, recorded, session.device)
        rows = list(progress.track(compared, len(groups), description="operators"))
    names = [value.name for value in session.get_outputs()]
    expected = reference_session(onnxruntime, loaded.proto).run(names, feeds)
    shapes_of_feeds = {name: array.shape for name, array in feeds.items()}
    decisions = {name: feeds[name] for name in session.deciding_inputs}
    providers = _providers(session.partitions(shapes_of_feeds, decisions))
    whole = [
        _Row(name, "the whole model", providers, difference(ours, theirs, name))
        for name, ours, theirs in zip(names, results, expected, strict=True)
    ]
    _print(rows, whole)
    if any(row.difference.is_large for row in rows):
        raise typer.Exit(1)


def _providers(partitions: Sequence[Partition]) -> str:
    return "+".join(dict.fromkeys(partition.provider for partition in partitions)) or "no step"


def _random_codes(
    groups: Sequence[Group], recorded: Mapping[str, NDArray[Any]], generator: np.random.Generator
) -> Iterator[tuple[str, NDArray[Any]]]:
    for name in dict.fromkeys(name for group in groups for name in group.inputs):
        array = recorded[name]
        if array.dtype.kind in "iu" and array.itemsize == 1:
            yield name, random_array(array.dtype, array.shape, generator)


def _compared(
    onnxruntime: ModuleType,
    model: LoadedModel,
    groups: Sequence[Group],
    recorded: Mapping[str, NDArray[Any]],
    device: dmlcpu.Device,
) -> Iterator[_Row]:
    for group in groups:
        feeds = {name: recorded[name] for name in group.inputs}
        alone = _model_of(model, group, recorded)
        expected = reference_session(onnxruntime, alone).run(list(group.outputs), feeds)
        for output, array in zip(alone.graph.output, expected, strict=True):
            output.CopyFrom(_described(output.name, array))
        ours = dmlcpu.InferenceSession(alone.SerializeToString(), device=device)
        results = ours.run(list(group.outputs), feeds)
        found = [difference(a, b, name) for name, a, b in zip(group.outputs, results, expected, strict=True)]
        worst = max(found, key=lambda each: (each.is_large, each.largest))
        yield _Row(group.node.name, _operators(group), _providers(ours.partitions()), worst)


def _described(name: str, array: NDArray[Any]) -> Any:
    import onnx

    element_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, element_type, array.shape)


def _model_of(model: LoadedModel, group: Group, recorded: Mapping[str, NDArray[Any]]) -> Any:
    """Return a model of a group, its lengths and indices as constants; its outputs have no type yet."""
    import onnx

    reads = dict.fromkeys(name for node in group.nodes for name in node.reads)
    constants = {name: model.constants[name] for name in reads if name in model.constants}
    constants.update({name: recorded[name] for name in group.settled})
    graph = onnx.helper.make_graph(
        [node.proto for node in group.nodes],
        "group",
        [_described(name, recorded[name]) for name in group.inputs],
        [onnx.helper.make_empty_tensor_value_info(name) for name in group.outputs],
        [onnx.numpy_helper.from_array(np.asarray(array, order="C"), name) for name, array in constants.items()],
    )
    proto = model.proto
    alone = onnx.helper.make_model(graph, opset_imports=list(proto.opset_import), ir_version=proto.ir_version)
    alone.functions.extend(proto.functions)
    return alone


def _operators(group: Group) -> str:
    """Name the operators between codes, or the only one; those of constants are left out."""
    data = {*group.inputs}
    computing = []
    for node in group.nodes:
        if data.intersection(node.reads):
            computing.append(node.operator)
            data.update(node.outputs)
    between = [operator for operator in computing if operator not in ("DequantizeLinear", "QuantizeLinear")]
    return " ".join(between or computing[-1:])


def _print(rows: Sequence[_Row], whole: Sequence[_Row]) -> None:
    columns = [Column("node", words=True), Column("operators", words=True, prose=True), Column("runs on", words=True)]
    columns += [Column("largest difference"), Column("differing"), Column("first at")]
    cells = []
    for row in (*rows, *whole):
        found = row.difference
        first = "" if found.first is None else ",".join(map(str, found.first)) or "0"
        cells.append((row.node, row.operators, row.runs_on, str(found), f"{found.share:.2%}", first))
    print_table(columns, cells)
    differing = [row for row in rows if row.difference.first is not None]
    large = [row for row in rows if row.difference.is_large]
    begin = f"; it begins at {(large or differing)[0].node}" if differing else ""
    typer.echo(f"{len(differing)} of {len(rows)} operators differ, {len(large)} by more than 1 code{begin}")
