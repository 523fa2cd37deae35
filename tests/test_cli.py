"""The command line: each command on networks of tests/data/models and on small models, errors, missing packages."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from typer.testing import CliRunner

import dmlcpu
from dmlcpu.cli import bench
from dmlcpu.cli.application import application
from dmlcpu.cli.differences import Difference, difference
from dmlcpu.cli.groups import find_groups
from dmlcpu.cli.images import PixelScaling, read_image
from dmlcpu.cli.peers import Runtime
from dmlcpu.onnx import planning
from dmlcpu.onnx.model import load_model

ROOT = Path(__file__).parents[1]
MODELS = ROOT / "tests" / "data" / "models"
EXAMPLE = ROOT / "examples" / "image_classification"
PHOTO = EXAMPLE / "chelsea.png"
KEYWORDS = MODELS / "keyword_spotting.qdq.onnx"
# Elsewhere onnxruntime's sums may saturate, and differ for that.
needs_exact_sums = pytest.mark.skipif(
    not any("vnni" in isa for isa in dmlcpu.available_isas()), reason="onnxruntime's sums may saturate without VNNI"
)


def run(*arguments: object) -> Any:
    return CliRunner().invoke(application, [str(argument) for argument in arguments], prog_name="dmlcpu")


def succeeded(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def failed(*arguments: object) -> str:
    """The one line that a failing command prints."""
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith("dmlcpu: ")
    return line


def saved(model: onnx.ModelProto, path: Path) -> Path:
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


def made_model(
    nodes: list[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, list[Any]]],
    outputs: Mapping[str, tuple[int, list[Any]]],
    **constants: NDArray[Any],
) -> onnx.ModelProto:
    arrays = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, *value) for name, value in inputs.items()],
        [helper.make_tensor_value_info(name, *value) for name, value in outputs.items()],
        arrays,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def partly_quantized(path: Path) -> Path:
    """Dequantize, convolve, ReLU, quantized twice; a reshape by computed lengths; an operator without a kernel."""
    node, generator = helper.make_node, np.random.default_rng(5)
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["x_codes"], "quantize_x"),
        node("DequantizeLinear", ["x_codes", "scale", "zero"], ["x_floats"], "dequantize_x"),
        node("DequantizeLinear", ["w", "scale", "zero"], ["w_floats"], "dequantize_w"),
        node("Conv", ["x_floats", "w_floats"], ["conv"], "conv"),
        node("Relu", ["conv"], ["relu"], "relu"),
        node("QuantizeLinear", ["relu", "scale", "zero"], ["a_codes"], "quantize_a"),
        node("QuantizeLinear", ["relu", "wide_scale", "zero"], ["b_codes"], "quantize_b"),
        node("DequantizeLinear", ["a_codes", "scale", "zero"], ["a"], "dequantize_a"),
        node("DequantizeLinear", ["b_codes", "wide_scale", "zero"], ["b"], "dequantize_b"),
        node("Shape", ["x"], ["lengths"], "shape", end=1),
        node("Concat", ["lengths", "rest"], ["new_shape"], "concat", axis=0),
        node("Add", ["a", "b"], ["sum"], "add"),
        node("Reshape", ["sum", "new_shape"], ["rows"], "reshape"),
        node("QuantizeLinear", ["rows", "wide_scale", "zero"], ["rows_codes"], "quantize_rows"),
        node("DequantizeLinear", ["rows_codes", "wide_scale", "zero"], ["rows_floats"], "dequantize_rows"),
        node("CumSum", ["rows_floats", "axis"], ["sums"], "cumsum"),
    ]
    model = made_model(
        nodes,
        {"x": (TensorProto.FLOAT, ["N", 3, 6, 6])},
        {"sums": (TensorProto.FLOAT, ["N", None])},
        scale=np.float32(0.05),
        wide_scale=np.float32(0.1),
        zero=np.int8(0),
        w=generator.integers(-64, 64, (4, 3, 3, 3), np.int8),  # so small that no sum of onnxruntime's saturates
        rest=np.int64([-1]),
        axis=np.int64(1),
    )
    return saved(model, path / "partly_quantized.onnx")


def test_version() -> None:
    result = run("--version")
    assert (result.exit_code, result.output) == (0, f"dmlcpu {dmlcpu.__version__}\n")


def test_readme_shows_what_the_command_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = (ROOT / "README.md").read_text().split("```console\n")[1:]
    assert blocks
    for block in blocks:
        command, _, expected = block.partition("```")[0].partition("\n")
        assert command.startswith("$ dmlcpu ")
        assert succeeded(*shlex.split(command)[2:]) == expected


@pytest.mark.parametrize("form", ["qdq", "qop"])
def test_run_writes_what_the_session_returns(tmp_path: Path, form: str) -> None:
    model = MODELS / f"keyword_spotting.{form}.onnx"
    feed = np.random.default_rng(3).standard_normal((1, 50, 10, 1)).astype(np.float32)
    np.save(tmp_path / "x.npy", feed)
    session = dmlcpu.InferenceSession(model)
    [expected] = session.run(None, {"input0": feed})
    told = succeeded(
        "run", model, "--input", f"input0={tmp_path / 'x.npy'}", "--output", tmp_path / "y.npz", "--top", 3
    )
    with np.load(tmp_path / "y.npz") as archive:
        assert archive.files == ["output0"]
        np.testing.assert_array_equal(archive["output0"], expected)
    best = [line.split() for line in told.splitlines()[4:7]]
    order = np.argsort(-expected[0], kind="stable")[:3]
    assert best == [[str(index), f"{expected[0, index]:.4f}"] for index in order]


@pytest.mark.parametrize("command", ["run", "check", "profile"])
def test_inputs_may_follow_the_model(tmp_path: Path, command: str) -> None:
    options = ["--output", tmp_path / "trace.json"] if command == "profile" else []
    with_option = succeeded(command, KEYWORDS, "--input", PHOTO, *options)
    for file in (PHOTO, f"input0={PHOTO}"):
        told = succeeded(command, KEYWORDS, file, *options)
        if command == "profile":  # it tells times
            assert len(told.splitlines()) == len(with_option.splitlines())
        else:
            assert told == with_option


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((1, 20, 30, 3), np.uint8), ((1, 3, 20, 30), np.int8), ((1, 20, 30), np.uint8), ((20, 30, 1), np.int8)],
)
def test_images_become_codes_in_the_layout_of_the_input(shape: tuple[int, ...], dtype: type[Any]) -> None:
    with Image.open(PHOTO) as image:
        colours = image.convert("RGB" if 3 in shape else "L").resize((30, 20), Image.Resampling.BILINEAR)
    pixels = np.asarray(colours).reshape(20, 30, -1).astype(int) - (128 if dtype is np.int8 else 0)
    if shape[-1] not in (1, 3):
        pixels = pixels.transpose(2, 0, 1)
    array = read_image(PHOTO, "x", shape, np.dtype(dtype), PixelScaling())
    assert array.dtype == dtype
    np.testing.assert_array_equal(array, pixels.reshape(shape))


def test_images_become_scaled_floats() -> None:
    with Image.open(PHOTO) as image:
        pixels = np.asarray(image.convert("RGB")).transpose(2, 0, 1)[np.newaxis].astype(np.float64)
    scaling = PixelScaling.parsed(0.5, "1,2,3", "4")
    array = read_image(PHOTO, "x", ("N", 3, None, "width"), np.dtype(np.float32), scaling)
    expected = (pixels * 0.5 - np.float64([1, 2, 3]).reshape(1, 3, 1, 1)) / 4
    np.testing.assert_array_equal(array, expected.astype(np.float32))


def test_info_of_the_machine() -> None:
    assert succeeded("info") == f"{dmlcpu.info()}\n"


def test_info_tells_steps_and_memory() -> None:
    told = succeeded("info", KEYWORDS, "--threads", 1, "--isa", "scalar")
    assert told.startswith("isa scalar, 1 threads\n")
    [partition] = dmlcpu.InferenceSession(KEYWORDS, device=dmlcpu.Device(num_threads=1)).partitions()
    for step in partition.steps:
        assert sum(line.split()[1:3] == [step.type, step.name] for line in told.splitlines()) == 1
    assert "input0  1,50,10,1  tensor(float)" in told
    assert "blocks: " in succeeded("info", KEYWORDS, "--plans")


def test_info_tells_why_a_node_has_no_kernel(tmp_path: Path) -> None:
    told = succeeded("info", partly_quantized(tmp_path), "--shape", "x=2,3,6,6")
    reason = "sums of elements of type float32 along axis 1 of 2"
    assert ["cumsum", *reason.split()] in [line.split() for line in told.splitlines()]
    assert {"dmlcpu", "onnxruntime"} <= {word for line in told.splitlines() for word in line.split()[1:2]}


def in_floats(path: Path) -> Path:
    """A model of ten nodes in floating point."""
    nodes = [helper.make_node("Sin", [f"v{index}"], [f"v{index + 1}"], f"sin{index}") for index in range(10)]
    return saved(
        made_model(nodes, {"v0": (TensorProto.FLOAT, [4])}, {"v10": (TensorProto.FLOAT, [4])}), path / "floats.onnx"
    )


def test_a_model_in_floats_without_onnxruntime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    model = in_floats(tmp_path)
    message = (
        "the model has no quantized nodes: nodes have no kernel, and onnxruntime, which could run them, is not "
        "installed (pip install onnxruntime): Sin (sin0): "
    )
    with pytest.raises(dmlcpu.DmlError) as raised:
        dmlcpu.InferenceSession(model)
    assert str(raised.value).startswith(message)
    assert str(raised.value).endswith("; and 2 more")
    assert failed("run", model).startswith(f"dmlcpu: {message}")
    result = run("info", model)
    assert (result.exit_code, result.stderr) == (0, f"dmlcpu: {raised.value}\n")
    assert "v0     4      tensor(float)" in result.stdout
    assert ["0", "not", "installed", "10"] in [line.split() for line in result.stdout.splitlines()]
    partial = run("info", partly_quantized(tmp_path), "--shape", "x=2,3,6,6")
    assert partial.stderr.startswith("dmlcpu: nodes have no kernel")
    assert {"dmlcpu", "not"} <= {word for line in partial.stdout.splitlines() for word in line.split()[1:2]}


def test_check_has_nothing_to_check_in_floats(tmp_path: Path) -> None:
    assert "nothing to check: no node is quantized" in failed("check", in_floats(tmp_path))


@needs_exact_sums
@pytest.mark.parametrize("model", sorted(MODELS.glob("*.onnx")), ids=lambda path: path.stem)
def test_check_finds_no_large_difference(model: Path) -> None:
    for arguments in ((), ("--random-codes", "--seed", 7, "--threads", 1)):
        told = succeeded("check", model, *arguments)
        assert "the whole model" in told
        assert " operators differ, 0 by more than 1 code" in told


def test_check_of_a_model_that_is_quantized_in_part(tmp_path: Path) -> None:
    told = succeeded("check", partly_quantized(tmp_path), "--shape", "x=2,3,6,6")
    rows = {line.split("  ")[0]: line.split() for line in told.splitlines()}
    assert rows["quantize_a"][1:5] == ["Conv", "Relu", "dmlcpu", "0"]
    assert rows["quantize_rows"][1:4] == ["Add", "Reshape", "dmlcpu"]
    assert rows["cumsum"][1:4] == ["CumSum", "dmlcpu+onnxruntime", "0"]


def test_check_names_the_operator_that_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = planning.RULES["", "Relu"]
    changed = {**planning.RULES, ("", "Relu"): lambda lowering, node, inputs: [inputs[0]]}
    model = partly_quantized(tmp_path)
    monkeypatch.setattr(planning, "RULES", changed)
    result = run("check", model)
    assert result.exit_code == 1
    rows = {line.split("  ")[0]: line.split() for line in result.stdout.splitlines()}
    assert int(rows["quantize_a"][4]) > 1
    assert float(rows["quantize_a"][5].rstrip("%")) > 0
    assert rows["quantize_x"][3] == "0"
    assert result.stdout.splitlines()[-1].endswith("it begins at quantize_a")
    monkeypatch.setattr(planning, "RULES", {**changed, ("", "Relu"): rule})
    assert run("check", model).exit_code == 0


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
        "cumsum": ("dequantize_rows", "cumsum"),
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


def test_profile_writes_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    told = succeeded("profile", partly_quantized(tmp_path), "--output", path)
    events = json.loads(path.read_text())["traceEvents"]
    steps = [event["args"] for event in events if event["cat"] == "Node"]
    assert {"operator": "QUANTIZED_LINEAR_CONVOLUTION", "node": "quantize_a"} in steps
    foreign = [event["name"] for event in events if event["cat"] == "Part" and event["name"] != "dmlcpu"]
    assert set(foreign) == {"onnxruntime"}
    rows = [line.split() for line in told.splitlines()[1:-2]]
    assert sorted(row[2] for row in rows) == sorted([*foreign, *(step["operator"] for step in steps)])
    times = [float(row[0]) for row in rows]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "missing.onnx"], "No such file"),
        (["run", PHOTO], "not an ONNX model"),
        (["info", PHOTO], "not an ONNX model"),
        (
            ["run", KEYWORDS],
            "got no input 'input0', expected float32 of shape (1, 50, 10, 1): --input input0=FILE",
        ),
        (["run", KEYWORDS, "other=x.npy"], "expected NAME=..., with a name of input0"),
        (["run", KEYWORDS, PHOTO, "--input", PHOTO], "input 'input0' is given twice"),
        (["run", KEYWORDS, "--input", "other=x.npy"], "expected NAME=..., with a name of input0"),
        (["run", KEYWORDS, "--input", "missing.npy"], "No such file"),
        (["run", KEYWORDS, "--input", "missing.png"], "No such file"),
        (["run", KEYWORDS, "--input", KEYWORDS], "cannot be read as an image"),
        (["run", KEYWORDS, "--input", "text.npy"], "text.npy"),
        (["run", KEYWORDS, "--input", "codes.npy"], "got uint8 of shape (2,), expected float32"),
        (["run", KEYWORDS, "--input", PHOTO, "--mean", "1,2"], "--mean has 2 numbers, the image 1 channels"),
        (["run", KEYWORDS, "--input", PHOTO, "--std", "x"], "--std: got 'x'"),
        (["run", KEYWORDS, "--input", PHOTO, "--std", "0"], "--std has a 0"),
        (["run", KEYWORDS, "--isa", "mmx"], "mmx"),
        (["info", KEYWORDS, "--shape", "1,2,3"], "got shape (1, 2, 3), expected (1, 50, 10, 1)"),
        (["info", KEYWORDS, "--shape", "1,a"], "expected lengths"),
        (["bench", KEYWORDS, "--batch", "2"], "no input of the model has a free first length"),
        (["bench", KEYWORDS, "--peers", "other"], "got 'other', expected names of onnxruntime, openvino"),
        (["profile", KEYWORDS, "--output", "."], "directory"),
        (["check", KEYWORDS, "--input", "codes.npy"], "got uint8 of shape (2,), expected float32"),
    ],
)
def test_errors_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[object], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.npy").write_text("not an array\n")
    np.save("codes.npy", np.uint8([1, 2]))
    assert told in failed(*arguments)


def test_an_error_of_onnxruntime_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    fail = type("Fail", (Exception,), {"__module__": "onnxruntime.capi.onnxruntime_pybind11_state"})

    def session(*arguments: object, **options: object) -> None:
        raise fail("node of\nits own")

    monkeypatch.setattr("dmlcpu.onnx.session.InferenceSession", session)
    assert failed("info", KEYWORDS) == "dmlcpu: node of its own"


def test_an_error_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def session(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("dmlcpu.onnx.session.InferenceSession", session)
    assert isinstance(run("info", KEYWORDS).exception, ZeroDivisionError)


@pytest.mark.parametrize(
    ("package", "arguments", "told"),
    [
        ("PIL.Image", ["run", KEYWORDS, "--input", PHOTO], "pip install 'dmlcpu[cli]'"),
        ("onnxruntime", ["check", KEYWORDS], "pip install 'onnxruntime'"),
        ("openvino", ["bench", KEYWORDS, "--peers", "openvino"], "pip install 'openvino'"),
    ],
)
def test_a_missing_package_is_told(
    monkeypatch: pytest.MonkeyPatch, package: str, arguments: list[object], told: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert told in failed(*arguments)


@pytest.mark.parametrize("package", ["typer", "rich.table"])
def test_the_missing_extra_is_told(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; import dmlcpu.cli; dmlcpu.cli.main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 1
    expected = f"dmlcpu: the command line needs the package '{package}': pip install 'dmlcpu[cli]'\n"
    assert (result.stdout, result.stderr) == ("", expected)


def test_the_package_is_a_command() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "dmlcpu", "info"], capture_output=True, text=True, timeout=120, check=True
    )
    assert result.stdout == f"{dmlcpu.info()}\n"
    assert result.stderr == ""


def test_the_library_imports_nothing_of_the_command_line() -> None:
    names = "{'dmlcpu.cli', 'typer', 'rich', 'onnx', 'PIL'}"
    code = f"import sys, dmlcpu; assert not {names} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], timeout=120, check=True)
