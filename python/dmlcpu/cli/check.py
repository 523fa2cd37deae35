"""``dmlcpu check``: a model beside onnxruntime, one quantized operator at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
import typer
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.cli.comparison import Comparison, Row
from dmlcpu.cli.dequantized_codes import codes_behind
from dmlcpu.cli.differences import LIMITS
from dmlcpu.cli.failures import needed_module
from dmlcpu.cli.groups import Group, dequantizes_without_array, find_groups
from dmlcpu.cli.images import PixelScaling
from dmlcpu.cli.inputs import complete_feeds, opened_session, random_array, read_feeds, require_tensors
from dmlcpu.cli.options import Files, Inputs, Isa, Mean, Model, Scale, Seed, Shapes, Std, Threads, Values
from dmlcpu.cli.progress import progress_bar
from dmlcpu.cli.reference_sessions import Recorder
from dmlcpu.cli.tables import Column, print_table
from dmlcpu.cli.told_zero_points import with_zero_points
from dmlcpu.cli.visible_codes import with_visible_codes
from dmlcpu.descriptions import Partition
from dmlcpu.errors import DmlError

if TYPE_CHECKING:
    from dmlcpu.onnx.models.model import Model as LoadedModel
    from dmlcpu.onnx.models.nodes import Node

__all__ = ["command"]

_OF_WEIGHTS: Final = frozenset({"DequantizeLinear", "MatMulNBits", "GatherBlockQuantized"})


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
    codes of an operator differ by more than 1, or floats by more than 1e-4 of the largest, and with 2 if it cannot
    compare. What comes of small differences in the whole model follows in the table, and the verdict on the operators
    last. A model in which nothing is quantized is compared as a whole.

    Onnxruntime's optimizer may compute otherwise than the model says, such as by floats rounded to 8 bits beside
    weights of 4. So what differs by more is compared with onnxruntime without it as well (unoptimized), and does not
    count where they agree; but codes of 8 bits count in any case.
    """
    onnxruntime = needed_module("onnxruntime", "onnxruntime", "check compares with onnxruntime")
    from dmlcpu.onnx.models.model import load_model
    from dmlcpu.onnx.models.nodes import has_quantized_nodes

    loaded = load_model(model)
    is_quantized = has_quantized_nodes(loaded.nodes) or any(node.operator in _OF_WEIGHTS for node in loaded.nodes)
    session = opened_session(model, isa, threads)
    require_tensors(session.get_outputs())
    given = read_feeds(session.get_inputs(), inputs, files, PixelScaling.parsed(scale, mean, std))
    generator = np.random.default_rng(seed)
    feeds = complete_feeds(session, given, shapes, values, generator)
    results = session.run(None, feeds)

    spelled_out = with_visible_codes(loaded)
    recorder = Recorder(onnxruntime, spelled_out)
    for value in loaded.outputs:
        if recorder.types[value.name].kind == "V":
            raise DmlError(f"{value.name!r}: elements of type {value.dtype} are not compared")
    groups = find_groups(spelled_out, recorder.types) if is_quantized else []
    recorded = recorder.run(groups, feeds)
    if random_codes:
        recorded.update(_random_codes(groups, recorded, generator))
    with progress_bar() as progress:
        compared = _compared(onnxruntime, spelled_out, groups, recorded, recorder.types, session.device)
        rows = list(progress.track(compared, len(groups), description="operators"))
    reference = with_zero_points(loaded.proto, recorder.types, {**loaded.constants, **feeds})
    whole = _whole(Comparison(onnxruntime, reference, feeds), session, feeds, results)
    _print(rows, whole)
    if any(row.is_large for row in rows or whole):
        raise typer.Exit(1)


def _whole(
    comparison: Comparison,
    session: dmlcpu.InferenceSession,
    feeds: Mapping[str, NDArray[Any]],
    results: Sequence[NDArray[Any]],
) -> list[Row]:
    shapes = {name: array.shape for name, array in feeds.items()}
    decisions = {name: feeds[name] for name in session.deciding_inputs}
    providers = _providers(session.partitions(shapes, decisions))
    outputs = session.get_outputs()
    return [
        comparison.row(output.name, "the whole model", providers, {output.name: array})
        for output, array in zip(outputs, results, strict=True)
    ]


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
    types: Mapping[str, np.dtype[Any]],
    device: dmlcpu.Device,
) -> Iterator[Row]:
    for group in groups:
        feeds = {name: recorded[name] for name in group.inputs}
        alone = _model_of(model, group, recorded)
        reference = with_zero_points(alone, types, {**model.constants, **recorded})
        comparison = Comparison(onnxruntime, reference, feeds, partial(_numbered, model, group.node, types))
        for output in alone.graph.output:
            output.CopyFrom(_described(output.name, comparison.expected[output.name]))
        ours = dmlcpu.InferenceSession(alone.SerializeToString(), device=device)
        results = dict(zip(group.outputs, ours.run(list(group.outputs), feeds), strict=True))
        yield comparison.row(group.node.name, _operators(group), _providers(ours.partitions()), results)


def _numbered(model: LoadedModel, node: Node, types: Mapping[str, np.dtype[Any]], array: NDArray[Any]) -> NDArray[Any]:
    """Return floats that a node has dequantized as codes, where it reads such as have no array."""
    scale = model.constants.get(node.inputs[1]) if dequantizes_without_array(node, types) else None
    codes = None if scale is None or scale.size != 1 else codes_behind(array, scale.item(), types[node.inputs[0]])
    return array if codes is None else codes


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


def _print(rows: Sequence[Row], whole: Sequence[Row]) -> None:
    columns = [Column("node", words=True), Column("operators", words=True, prose=True), Column("runs on", words=True)]
    columns += [Column("largest difference"), Column("differing"), Column("first at"), Column("unoptimized")]
    cells = []
    for row in (*rows, *whole):
        found = row.difference
        first = "" if found.first is None else ",".join(map(str, found.first)) or "0"
        unoptimized = "" if row.unoptimized is None else str(row.unoptimized)
        cells.append((row.node, row.operators, row.runs_on, str(found), f"{found.share:.2%}", first, unoptimized))
    if not any(row.unoptimized for row in (*rows, *whole)):
        columns.pop()
    print_table(columns, [cell[: len(columns)] for cell in cells])
    typer.echo(_verdict(rows) if rows else _verdict(whole, "outputs"))


def _verdict(rows: Sequence[Row], what: str = "operators") -> str:
    """Return whether operators, or outputs, are as they should be, how many differ, and the first that does."""
    differing = [row for row in rows if row.difference.first is not None]
    large = [row for row in rows if row.is_large]
    agreeing = sum(row.difference.is_large and not row.is_large for row in rows)
    within = len(differing) - len(large) - agreeing
    told = [f"{len(rows) - len(differing)} of {len(rows)} {what} are equal"]
    if within:
        told.append(f"{_differ(within)} within the limits ({LIMITS})")
    if agreeing:
        told.append(f"{_differ(agreeing)} by more from onnxruntime's optimizer alone")
    if large:
        told.append(f"{_differ(len(large))} by more than the limits{'' if within else f' ({LIMITS})'}")
    first = f"; the first is {(large or differing)[0].node}" if differing else ""
    return f"{'failed' if large else 'passed'}: {', '.join(told)}{first}"


def _differ(count: int) -> str:
    return f"{count} {'differs' if count == 1 else 'differ'}"
