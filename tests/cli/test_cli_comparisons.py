"""The commands that compare with onnxruntime: check, and the groups of nodes that it checks, and bench."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

import dmlcpu
from command_line import (
    MODELS,
    failed,
    made_model,
    parsed,
    partly_quantized,
    run,
    succeeded,
)
from conftest import SEED
from dmlcpu.cli import bench
from dmlcpu.cli.differences import Difference, difference
from dmlcpu.cli.groups import find_groups
from dmlcpu.cli.peers import Runtime
from dmlcpu.onnx import model_values
from dmlcpu.onnx.models.model import load_model
from onnx_models import Builder

# Elsewhere onnxruntime's sums may saturate, and differ for that.
needs_exact_sums = pytest.mark.skipif(
    not any("vnni" in isa for isa in dmlcpu.available_isas()), reason="onnxruntime's sums may saturate without VNNI"
)


def test_check_compares_floats_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = parsed(tmp_path / "floats.onnx", "float[3, 4] x", "float[3, 4] y", "{ a = Relu(x) y = Neg(a) }")
    told = succeeded("check", model, "--seed", SEED)
    assert [line.split()[:5] for line in told.splitlines() if "whole" in line] == [
        ["y", "the", "whole", "model", "dmlcpu"]
    ]
    assert told.splitlines()[-1] == "passed: 1 of 1 outputs are equal"
    changed = {**model_values.RULES, ("", "Relu"): lambda lowering, node, inputs: [inputs[0]]}
    monkeypatch.setattr(model_values, "RULES", changed)
    result = run("check", model, "--seed", SEED)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].startswith("failed: 0 of 1 outputs are equal, 1 differs by more than")


@needs_exact_sums
@pytest.mark.parametrize("model", sorted(MODELS.glob("*.onnx")), ids=lambda path: path.stem)
def test_check_finds_no_large_difference(model: Path) -> None:
    for arguments in ((), ("--random-codes", "--seed", 7, "--threads", 1)):
        told = succeeded("check", model, *arguments)
        assert "the whole model" in told
        assert told.splitlines()[-1].startswith("passed: ")


def test_check_of_a_model_that_is_quantized_in_part(tmp_path: Path) -> None:
    told = succeeded("check", partly_quantized(tmp_path), "--shape", "x=2,3,6,6")
    rows = {line.split("  ")[0]: line.split() for line in told.splitlines()}
    assert rows["quantize_a"][1:5] == ["Conv", "Relu", "dmlcpu", "0"]
    assert rows["quantize_rows"][1:4] == ["Add", "Reshape", "dmlcpu"]
    assert rows["trilu"][1:4] == ["Trilu", "dmlcpu+onnxruntime", "0"]


def test_check_names_the_operator_that_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = model_values.RULES["", "Relu"]
    changed = {**model_values.RULES, ("", "Relu"): lambda lowering, node, inputs: [inputs[0]]}
    model = partly_quantized(tmp_path)
    monkeypatch.setattr(model_values, "RULES", changed)
    result = run("check", model)
    assert result.exit_code == 1
    rows = {line.split("  ")[0]: line.split() for line in result.stdout.splitlines()}
    assert int(rows["quantize_a"][4]) > 1
    assert float(rows["quantize_a"][5].rstrip("%")) > 0
    assert rows["quantize_x"][3] == "0"
    assert result.stdout.splitlines()[-1] == (
        "failed: 3 of 5 operators are equal, 2 differ by more than the limits (1 code; 1e-4 of the largest float); "
        "the first is quantize_a"
    )
    monkeypatch.setattr(model_values, "RULES", {**changed, ("", "Relu"): rule})
    assert run("check", model).exit_code == 0


@needs_exact_sums
def test_check_reads_models_as_files_have_them(tmp_path: Path) -> None:
    """Also where others run in the place of what a file has: weights of floats become codes, FLOAT16 FLOAT32."""
    for dtype in (np.float32, np.float16):
        builder, rng = Builder(21), np.random.default_rng(SEED)
        coded = [builder.input(dtype, (1, 4, 8, 8)), dtype(0.0625), np.uint8(128)]
        floats = builder.node("DequantizeLinear", [builder.node("QuantizeLinear", coded), *coded[1:]])
        weights = rng.normal(0, 1, (6, 4, 3, 3)).astype(dtype)
        product = builder.node("Conv", [floats, weights], name="product")
        codes = [builder.node("QuantizeLinear", [product, dtype(0.25), np.uint8(128)]), dtype(0.25), np.uint8(128)]
        builder.output(builder.node("DequantizeLinear", codes), dtype)
        path = tmp_path / f"{np.dtype(dtype).name}.onnx"
        path.write_bytes(builder.build())
        assert succeeded("check", path, "--seed", SEED).splitlines()[-1].startswith("passed: ")


@pytest.mark.parametrize(
    ("body", "operators", "groups"),
    [
        ("q = SplitToSequence(f) g = ConcatFromSequence<axis = 0>(q)", "SplitToSequence ConcatFromSequence", 2),
        ("q = Optional(f) g = OptionalGetElement(q)", "Optional OptionalGetElement", 2),
        ("q = QuantizeLinear<output_dtype = 22>(f, s) g = DequantizeLinear(q, s)", "DequantizeLinear", 3),
    ],
)
def test_what_has_no_array_is_within_an_operator(tmp_path: Path, body: str, operators: str, groups: int) -> None:
    body = (
        f"<float s = {{0.5}}> {{ c = QuantizeLinear(x, s) f = DequantizeLinear(c, s) {body} y = QuantizeLinear(g, s) }}"
    )
    model = parsed(tmp_path / "model.onnx", "float[3, 8] x", "uint8[3, 8] y", body)
    told = succeeded("check", model, "--seed", SEED)
    assert f"  {operators}  " in told
    assert told.splitlines()[-1] == f"passed: {groups} of {groups} operators are equal"


def test_outputs_without_an_array_are_not_compared(tmp_path: Path) -> None:
    body = "<float s = {0.5}> { y = QuantizeLinear<output_dtype = 22>(x, s) }"
    model = parsed(tmp_path / "model.onnx", "float[3] x", "int4[3] y", body)
    assert failed("check", model) == "dmlcpu: 'y': elements of type int4 are not compared"


def test_groups_are_dequantize_operate_quantize(tmp_path: Path) -> None:
    model = load_model(partly_quantized(tmp_path))
    codes = {name for name in ("x_codes", "a_codes", "b_codes", "rows_codes")}
    lengths = {"lengths", "new_shape"}
    types = {
        name: np.dtype(np.int8 if name in codes else np.int64 if name in lengths else np.float32)
        for node in model.nodes
        for name in node.outputs
    }
    found = {group.node.name: group for group in find_groups(model, types)}
    assert {name: tuple(node.name for node in group.nodes) for name, group in found.items()} == {
        "quantize_x": ("quantize_x",),
        "quantize_a": ("dequantize_x", "dequantize_w", "conv", "relu", "quantize_a"),
        "quantize_b": ("dequantize_x", "dequantize_w", "conv", "relu", "quantize_b"),
        "quantize_rows": ("dequantize_a", "dequantize_b", "add", "reshape", "quantize_rows"),
        "trilu": ("dequantize_rows", "trilu"),
    }
    assert found["quantize_rows"].inputs == ("a_codes", "b_codes")
    assert found["quantize_rows"].settled == ("new_shape",)


def test_groups_end_where_shared_floats_lead_far() -> None:
    node = helper.make_node
    chain = [node("Neg", [f"f{index}"], [f"f{index + 1}"], f"neg{index}") for index in range(12)]
    ends = [node("QuantizeLinear", ["f12", "scale"], [name], name) for name in ("a", "b")]
    inputs, codes = {"f0": (TensorProto.FLOAT, [4])}, (TensorProto.UINT8, [4])
    proto = made_model([*chain, *ends], inputs, {"a": codes, "b": codes}, scale=np.float32(1))
    model = load_model(proto.SerializeToString())
    types = {name: np.dtype(np.uint8 if name in "ab" else np.float32) for node in model.nodes for name in node.outputs}
    assert [(group.node.name, group.inputs) for group in find_groups(model, types)] == [
        ("neg11", ("f0",)),
        ("a", ("f12",)),
        ("b", ("f12",)),
    ]


@pytest.mark.parametrize(
    ("got", "expected", "largest", "share", "first"),
    [
        (np.uint8([0, 255]), np.uint8([255, 255]), 255, 0.5, (0,)),
        (np.int8([[1, -128]]), np.int8([[1, 127]]), 255, 0.5, (0, 1)),
        (np.float32([np.nan, np.inf, 2]), np.float32([np.nan, np.inf, 4]), 0.5, 1 / 3, (2,)),
        (np.float32([np.nan, 1]), np.float32([1, 1]), np.inf, 0.5, (0,)),
        (np.float32([1.5]), np.float32([0]), np.inf, 1, (0,)),
        (np.float32(3), np.float32(3), 0, 0, None),
    ],
)
def test_difference(
    got: NDArray[Any], expected: NDArray[Any], largest: float, share: float, first: tuple[int, ...] | None
) -> None:
    found = difference(got, expected)
    assert found == Difference(largest, got.dtype.kind != "f", share, first)
    assert found.is_large == (largest > 1e-4)


def test_bench_beside_onnxruntime(tmp_path: Path) -> None:
    path, model = tmp_path / "figures.json", partly_quantized(tmp_path)
    told = succeeded("bench", model, "--peers", "onnxruntime", "--duration", 0, "--batch", 2, "--json", path)
    figures = json.loads(path.read_text())
    assert figures["shapes"] == {"x": [2, 3, 6, 6]}
    assert [row["runtime"] for row in figures["rows"]] == ["dmlcpu", "onnxruntime"]
    assert all(row["seconds"] > 0 and row["runs"] >= 3 for row in figures["rows"])
    assert [line.split()[0] for line in told.splitlines()[3:5]] == ["dmlcpu", "onnxruntime"]


def test_bench_shows_how_far_results_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS / "image_classification.qop.onnx"

    def peer(path: Path, feeds: Mapping[str, NDArray[Any]], num_threads: int) -> Runtime:
        [codes] = dmlcpu.InferenceSession(path).run(None, feeds)
        return Runtime("peer", "1.0", lambda: [codes ^ 2])

    def broken(path: Path, feeds: Mapping[str, NDArray[Any]], num_threads: int) -> Runtime:
        raise ValueError("no such\noperator")

    monkeypatch.setattr(bench, "PEERS", MappingProxyType({"peer": peer, "broken": broken}))
    result = run("bench", model, "--peers", "peer,broken", "--duration", 0)
    assert result.exit_code == 0
    assert result.stderr == "dmlcpu: broken is not timed: no such operator\n"
    assert result.stdout.splitlines()[-2].endswith(" 2 codes")
