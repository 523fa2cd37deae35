"""``dmlcpu info``: what this machine can do, and how a model runs on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import dmlcpu
from dmlcpu import _core
from dmlcpu.cli.failures import one_line
from dmlcpu.cli.inputs import chosen_device, chosen_values, fixed_shapes, opened_session
from dmlcpu.cli.options import Isa, Shapes, Threads, Values
from dmlcpu.cli.tables import Column, print_table, shape_text, size_text
from dmlcpu.descriptions import NodeArg, Partition
from dmlcpu.errors import DmlError
from dmlcpu.shown_values import counted

__all__ = ["command"]


def command(
    model: Annotated[Path | None, typer.Argument(help="an ONNX file; none to describe the machine")] = None,
    shapes: Shapes = None,
    values: Values = None,
    threads: Threads = 0,
    isa: Isa = "",
    plans: Annotated[bool, typer.Option("--plans", help="all that was chosen for each step")] = False,
) -> None:
    """Describe this machine or a model.

    Of a model: inputs and outputs, who runs which nodes and why, steps, and memory, which is the bytes that the steps
    move, the constants as they are packed, and what the values in between need.
    """
    if model is None:
        for option, given in (("--shape", shapes), ("--value", values), ("--plans", plans)):
            if given:
                raise DmlError(f"{option} is of a model, and none is named")
        typer.echo("\n".join(_machine(isa, threads)))
        return
    try:
        session = opened_session(model, isa, threads)
        chosen = chosen_values(session, values)
        planned = fixed_shapes(session.get_inputs(), shapes)
        partitions = session.partitions(planned, chosen)
        inputs, outputs, device = session.get_inputs(), session.get_outputs(), session.device
    except dmlcpu.MissingRuntimeError as error:
        inputs, outputs, partitions = _planned(model, error)
        planned = {}
        device = chosen_device(isa, threads)
        typer.echo(f"dmlcpu: {one_line(error)}", err=True)
    typer.echo(f"isa {device.isa}, {counted(device.num_threads, 'thread')}\n")
    _print_values("input", inputs)
    _print_values("output", outputs)
    _print_assumed(inputs, planned, shapes or ())
    _print_partitions(partitions)
    for index, partition in enumerate(partitions):
        if partition.steps:
            _print_steps(index, partition, plans)
        if partition.reasons:
            columns = [Column(f"node of partition {index}", words=True)]
            columns += [Column("why it has no kernel", words=True, prose=True)]
            print_table(columns, list(partition.reasons.items()))


def _machine(isa: str, threads: int) -> Iterator[str]:
    """Yield what a device of these options would use; of no options also why there can be none."""
    info, fault = dmlcpu.info(), _fault()
    chosen, num_threads = info.isa, info.num_threads
    reason = info.isa_reason if fault is None else ""
    yield f"dmlcpu       {info.version}"
    if isa or threads:
        device = chosen_device(isa, threads)
        chosen, num_threads, fault = device.isa, device.num_threads, None
        reason = "--isa" if isa else reason
    elif fault is not None:
        yield f"fault        {fault}"
    without = "" if fault is None else " without the fault"
    yield f"isa          {chosen}{f' ({reason})' if reason else without}"
    yield f"num_threads  {num_threads}{without}"
    yield f"kernels      {_kernels_told(_core.kernel_origins(chosen))}"
    yield f"caches       {', '.join(f'{size // 1024} KiB' for size in info.cache_sizes)}"
    for other, why in info.unavailable_isas.items():
        yield f"unavailable  {other}: {why}"


def _fault() -> str | None:
    """Return what a default device raises, such as for a variable of the environment; None if nothing."""
    try:
        dmlcpu.Device()
    except ValueError as error:
        return f"Device() raises {type(error).__name__}: {error}"
    return None


def _kernels_told(origins: Mapping[str, str]) -> str:
    """Return how many families of kernels are of one instruction set, that of the most, and which are of others.

    >>> _kernels_told({"gemm": "avx2", "pack": "avx2", "table": "scalar"})
    'avx2 (2 families); scalar: table'
    """
    families: dict[str, list[str]] = {}
    for family, isa in origins.items():
        families.setdefault(isa, []).append(family)
    most = max(families, key=lambda isa: len(families[isa]))
    others = [f"{isa}: {', '.join(names)}" for isa, names in families.items() if isa != most]
    return "; ".join([f"{most} ({counted(len(families[most]), 'family', 'families')})", *others])


def _planned(model: Path, error: dmlcpu.MissingRuntimeError) -> tuple[list[NodeArg], list[NodeArg], list[Partition]]:
    """Return inputs, outputs and partitions of a model that cannot be run for want of a runtime."""
    from dmlcpu.onnx.missing_package import has_onnxruntime
    from dmlcpu.onnx.models.metadata import node_arg
    from dmlcpu.onnx.models.model import load_model

    loaded = load_model(model)
    is_missing = not has_onnxruntime() or all(each.provider != "nobody" for each in error.partitions)
    partitions = [
        replace(each, provider="missing") if is_missing and each.provider == "onnxruntime" else each
        for each in error.partitions
    ]
    return [*map(node_arg, loaded.inputs)], [*map(node_arg, loaded.outputs)], partitions


def _print_values(kind: str, values: Sequence[NodeArg]) -> None:
    columns = [Column(kind, words=True), Column("shape", words=True), Column("type", words=True)]
    print_table(columns, [(value.name, shape_text(value.shape), value.type) for value in values])


def _print_assumed(inputs: Sequence[NodeArg], planned: Mapping[str, Sequence[int]], given: Sequence[str]) -> None:
    """Tell which lengths are taken for those that the model leaves free: with others it may run otherwise."""
    told = {name for name in planned if any(option.startswith(f"{name}=") for option in given)}
    known = {length for value in inputs if value.name in told for length in value.shape if length}
    free = [
        value.name for value in inputs if not all(isinstance(length, int) or length in known for length in value.shape)
    ]
    assumed = [name for name in free if name in planned and name not in told and not (given and len(inputs) == 1)]
    if assumed:
        shapes = " and ".join(f"{name}={','.join(map(str, planned[name]))}" for name in assumed)
        typer.echo(f"planned for {shapes}; for other lengths give --shape {assumed[0]}=...\n")


def _print_partitions(partitions: Sequence[Partition]) -> None:
    columns = ["partition", "runs on", "nodes", "steps", "memory between steps", "constants"]
    rows = []
    for index, partition in enumerate(partitions):
        row = [str(index), partition.provider, str(len(partition.nodes))]
        if partition.binding_properties is not None:
            memory = partition.binding_properties
            sizes = (memory.temporary_resource_size, memory.persistent_resource_size)
            row += [str(len(partition.steps)), *map(size_text, sizes)]
        rows.append(row)
    print_table([Column(head, words=head == "runs on") for head in columns], rows)


def _print_steps(index: int, partition: Partition, plans: bool) -> None:
    columns = [Column(f"step of partition {index}"), Column("operator", words=True), Column("node", words=True)]
    columns += [Column("moves"), Column("plan" if plans else "algorithm", words=True, prose=True)]
    rows = []
    for number, step in enumerate(partition.steps):
        chosen = step.plan.splitlines()
        plan = "; ".join(chosen) if plans else "".join(chosen[:1]).removeprefix("algorithm: ")
        rows.append((str(number), step.type, step.name, size_text(step.size), plan))
    print_table(columns, rows)
