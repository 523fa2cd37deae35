"""The command line: run, info and profile, errors, missing packages."""

from __future__ import annotations

import json
import pickle
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlcpu
from command_line import (
    KEYWORDS,
    PHOTO,
    ROOT,
    failed,
    in_floats,
    parsed,
    partly_quantized,
    run,
    succeeded,
)
from dmlcpu import _core
from dmlcpu.onnx.session import InferenceSession
from onnx_models import Builder


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


@pytest.mark.parametrize("command", ["run", "bench", "info", "check", "profile"])
def test_help_tells_what_options_take(command: str) -> None:
    told = succeeded(command, "--help")
    options = [line for line in told.splitlines() if line.startswith("  --")]
    assert not [line for line in options if "<list" in line or "range>" in line]
    assert any(line.startswith("  --threads N ") for line in options)


def test_summaries_of_commands_are_whole() -> None:
    """As long as the list of them is wide."""
    assert succeeded("--help").count("...") == 1  # that of the usage


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


def test_info_of_the_machine() -> None:
    """As in Python, but that kernels are counted."""
    told, printed = (text.splitlines() for text in (succeeded("info"), str(dmlcpu.info())))
    assert [line for line in told if not line.startswith("kernels")] == [
        line for line in printed if not line.startswith("kernels")
    ]
    assert len(told) == len(printed)


def test_info_of_the_machine_as_a_device_would_use_it(isa: str) -> None:
    told = succeeded("info", "--isa", isa, "--threads", 3).splitlines()
    assert told[1:3] == [f"isa          {isa} (--isa)", "num_threads  3"]
    most, *others = told[3].removeprefix("kernels      ").split("; ")
    listed = {
        family: row for row, _, names in (each.partition(": ") for each in others) for family in names.split(", ")
    }
    row, _, count = most.partition(" ")
    origins = _core.kernel_origins(isa)
    assert count == f"({len(origins) - len(listed)} families)"
    assert origins == {family: listed.get(family, row) for family in origins}
    assert "num_threads  3\n" in succeeded("info", "--threads", 3)


def test_info_tells_a_fault_of_the_environment_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMLCPU_NUM_THREADS", "x")
    told = succeeded("info").splitlines()
    assert told[1] == (
        "fault        Device() raises ValueError: DMLCPU_NUM_THREADS='x'; expected a number of threads from 1 to 1024"
    )
    assert told[2] == f"isa          {dmlcpu.available_isas()[-1]} without the fault"
    assert told[3].startswith("num_threads  ")
    assert told[3].endswith(" without the fault")
    assert "fault" not in "".join(told[4:])
    assert "fault" not in succeeded("info", "--threads", 3)


def test_info_tells_steps_and_memory() -> None:
    told = succeeded("info", KEYWORDS, "--threads", 1, "--isa", "scalar")
    assert told.startswith("isa scalar, 1 thread\n")
    [partition] = dmlcpu.InferenceSession(KEYWORDS, device=dmlcpu.Device(num_threads=1)).partitions()
    for step in partition.steps:
        assert sum(line.split()[1:3] == [step.type, step.name] for line in told.splitlines()) == 1
    assert "input0  1,50,10,1  tensor(float)" in told
    assert "blocks: " in succeeded("info", KEYWORDS, "--plans")


def with_branches(folder: Path) -> Path:
    """Three times x, or its absolute value."""
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", (2, 3)), 0.1, np.uint8(3))
    use = builder.input("bool", (1,), "use")
    graphs = []
    for name, operator, operands in (("a", "Mul", [x, np.float32(3)]), ("b", "Abs", [x])):
        inner = Builder(prefix=name)
        inner.output(inner.node(operator, operands), "float32")
        graphs.append(inner.graph())
    y = builder.node("If", [use], then_branch=graphs[0], else_branch=graphs[1])
    builder.output(builder.quantized(y, 0.3, np.uint8(9)), "uint8")
    path = folder / "branches.onnx"
    path.write_bytes(builder.build())
    return path


@pytest.mark.parametrize(
    ("options", "operator"), [([], "Abs"), (["--value", "0"], "Abs"), (["--value", "use=1"], "Mul")]
)
def test_branches_that_an_input_chooses(tmp_path: Path, options: list[str], operator: str) -> None:
    model = with_branches(tmp_path)
    told = succeeded("info", model, *options)
    [partition] = dmlcpu.InferenceSession(model).partitions(values={"use": operator == "Mul"})
    assert any(f"/{operator}_" in node for node in partition.nodes)
    assert f" {len(partition.nodes)} " in told
    assert "onnxruntime" in succeeded("bench", model, *options, "--peers", "onnxruntime", "--duration", 0)
    assert "2 of 2" not in succeeded("check", model, *options)


@pytest.mark.parametrize("command", ["bench", "check", "profile"])
@pytest.mark.parametrize("value", [0, 1])
def test_runs_take_the_branch_of_a_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, value: int
) -> None:
    fed, session_run = [], InferenceSession.run

    def recorded(session: InferenceSession, names: Any, feeds: Any) -> Any:
        fed.extend([feeds["use"].item()] if "use" in feeds else [])  # those of check are of parts of the model, too
        return session_run(session, names, feeds)

    monkeypatch.setattr(InferenceSession, "run", recorded)
    monkeypatch.chdir(tmp_path)
    succeeded(command, with_branches(tmp_path), "--value", value, *(["--duration", 0] if command == "bench" else []))
    assert {*fed} == {value == 1}


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("use=yes", "--value use=yes: expected a number, 0 or 1 of a condition"),
        ("x=1", "--value x=1: expected NAME=..., with a name of use"),
        ("use=7", "values: got 7 for input 'use', expected one bool"),
    ],
)
def test_values_that_choose_no_branch(tmp_path: Path, option: str, message: str) -> None:
    assert failed("info", with_branches(tmp_path), "--value", option) == f"dmlcpu: {message}"
    no_branch = f"--value {option}: no input of the model decides which branch of an If runs"
    assert failed("info", KEYWORDS, "--value", option) == f"dmlcpu: {no_branch}"


@pytest.mark.parametrize("command", ["bench", "check", "profile"])
def test_values_that_an_input_cannot_have(tmp_path: Path, command: str) -> None:
    assert failed(command, with_branches(tmp_path), "--value", "use=7") == "dmlcpu: --value use=7: expected one bool"


def test_an_input_and_its_value_are_not_given_both(tmp_path: Path) -> None:
    np.save(tmp_path / "use.npy", np.array([True]))
    options = ["--value", "use=1", "--input", f"use={tmp_path / 'use.npy'}"]
    assert failed("profile", with_branches(tmp_path), *options) == "dmlcpu: input 'use' is given twice"


@pytest.mark.parametrize("command", ["check", "profile"])
def test_inputs_that_are_given_need_no_random_elements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    body = "<float s = {0.5}> { y = QuantizeLinear(x, s) z = Cast<to=1>(t) }"
    parsed(Path("model.onnx"), "float[2] x, string[2] t", "uint8[2] y, float[2] z", body)
    np.save("t.npy", np.array(["1", "2"]))
    succeeded(command, "model.onnx", "t=t.npy")
    told = "dmlcpu: input 't': no random tensor(string); give one with --input t=FILE"
    assert failed(command, "model.onnx") == told


def test_outputs_of_types_that_numpy_has_not_are_written_as_others(tmp_path: Path) -> None:
    body = """<float s = {0.5}> {
        i = QuantizeLinear<output_dtype = 22>(x, s)
        u = QuantizeLinear<output_dtype = 21>(x, s)
        f = QuantizeLinear<output_dtype = 17>(x, s)
        b = Cast<to = 16>(x)
        t = Cast<to = 8>(x) }"""
    outputs = "int4[3] i, uint4[3] u, float8e4m3fn[3] f, bfloat16[3] b, string[3] t"
    model = parsed(tmp_path / "model.onnx", "float[3] x", outputs, body)
    np.save(tmp_path / "x.npy", np.float32([-3, 0, 2]))
    succeeded("run", model, tmp_path / "x.npy", "--output", tmp_path / "y.npz")
    with np.load(tmp_path / "y.npz") as archive:
        written = dict(archive)
    assert {name: array.dtype.kind + str(array.itemsize) for name, array in written.items() if name != "t"} == {
        "i": "i1",
        "u": "u1",
        "f": "f4",
        "b": "f4",
    }
    expected = [[-6, 0, 4], [0, 0, 4], [-6, 0, 4], [-3, 0, 2], ["-3", "0", "2"]]
    assert [array.tolist() for array in written.values()] == expected


def test_info_tells_which_lengths_it_took_for_free_ones(tmp_path: Path) -> None:
    model = partly_quantized(tmp_path)
    assert "\nplanned for x=1,3,6,6; for other lengths give --shape x=...\n" in succeeded("info", model)
    for shape in ("x=2,3,6,6", "2,3,6,6"):
        assert "planned for" not in succeeded("info", model, "--shape", shape)
    assert "planned for" not in succeeded("info", KEYWORDS)


@pytest.mark.parametrize(
    ("shapes", "planned"),
    [
        ([], "planned for x=1,1 and y=1,1; for other lengths give --shape x=..."),
        (["x=2,64"], "planned for y=64,1; for other lengths give --shape y=..."),
        (["y=64,5"], "planned for x=1,64; for other lengths give --shape x=..."),
        (["x=2,64", "y=64,5"], None),
    ],
)
def test_lengths_of_one_name_are_taken_alike(tmp_path: Path, shapes: list[str], planned: str | None) -> None:
    inputs = "float[rows, terms] x, float[terms, columns] y"
    model = parsed(tmp_path / "model.onnx", inputs, "float[rows, columns] z", "{ z = MatMul(x, y) }")
    options = [word for shape in shapes for word in ("--shape", shape)]
    told = [line for line in succeeded("info", model, *options).splitlines() if line.startswith("planned")]
    assert told == ([planned] if planned else [])
    succeeded("bench", model, *options, "--duration", 0)


def test_info_tells_no_lengths_that_follow(tmp_path: Path) -> None:
    inputs = "float[batch, length] x, float[batch, length] mask"
    model = parsed(tmp_path / "model.onnx", inputs, "float[batch, length] y", "{ y = Mul(x, mask) }")
    assert "planned for" not in succeeded("info", model, "--shape", "x=2,64")
    succeeded("bench", model, "--shape", "mask=2,64", "--batch", 2, "--duration", 0)


@pytest.mark.parametrize("command", ["check", "profile"])
def test_lengths_of_an_input_that_is_given_are_taken_for_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    inputs, body = "float[rows, terms] x, float[terms, columns] y", "{ p = MatMul(x, y) z = QuantizeLinear(p, s) }"
    model = parsed(tmp_path / "model.onnx", inputs, "uint8[rows, columns] z", f"<float s = {{0.5}}> {body}")
    np.save("y.npy", np.ones((64, 5), np.float32))
    succeeded(command, model, "--input", "y=y.npy")


def test_info_tells_why_a_node_has_no_kernel(tmp_path: Path) -> None:
    told = succeeded("info", partly_quantized(tmp_path), "--shape", "x=2,3,6,6")
    reason = "no kernel for this operator"
    assert ["trilu", *reason.split()] in [line.split() for line in told.splitlines()]
    assert {"dmlcpu", "onnxruntime"} <= {word for line in told.splitlines() for word in line.split()[1:2]}


def test_a_model_in_floats_without_onnxruntime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    model = in_floats(tmp_path)
    message = (
        "nodes have no kernel, and onnxruntime, which could run them, is not "
        "installed (pip install onnxruntime): Tan (tan0): "
    )
    with pytest.raises(dmlcpu.DmlError) as raised:
        dmlcpu.InferenceSession(model)
    assert str(raised.value).startswith(message)
    same = pickle.loads(pickle.dumps(raised.value))
    assert (str(same), same.partitions) == (str(raised.value), raised.value.partitions)
    assert str(raised.value).endswith("; and 9 that follow")
    assert failed("run", model).startswith(f"dmlcpu: {message}")
    result = run("info", model)
    assert (result.exit_code, result.stderr) == (0, f"dmlcpu: {raised.value}\n")
    assert "v0     4      tensor(float)" in result.stdout
    assert ["0", "missing", "10"] in [line.split() for line in result.stdout.splitlines()]
    partial = run("info", partly_quantized(tmp_path), "--shape", "x=2,3,6,6")
    assert partial.stderr.startswith("dmlcpu: nodes have no kernel")
    assert {"dmlcpu", "missing"} <= {word for line in partial.stdout.splitlines() for word in line.split()[1:2]}


def test_what_the_reference_evaluator_runs_is_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quantized nodes that no kernel computes are its, where onnxruntime is not installed."""
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    builder = Builder(21)
    x, scales = builder.input("float32", (2, 4)), np.float32([0.1, 0.2, 0.3, 0.4])
    builder.output(builder.node("QuantizeLinear", [x, scales, np.arange(4, dtype=np.uint16)], axis=1), "uint16")
    builder.output(builder.node("Tan", [x]), "float32")
    path = tmp_path / "partly.onnx"
    path.write_bytes(builder.build())
    with pytest.raises(dmlcpu.MissingRuntimeError) as raised:
        dmlcpu.InferenceSession(path)
    planned = {partition.provider: [*partition.reasons] for partition in raised.value.partitions}
    assert planned == {"onnx.reference": ["QuantizeLinear_0"], "onnxruntime": ["Tan_1"]}
    rows = [line.split() for line in run("info", path).stdout.splitlines()]
    assert {tuple(row[1:]) for row in rows if row[:1] in (["0"], ["1"])} == {("onnx.reference", "1"), ("missing", "1")}


def test_profile_writes_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    told = succeeded("profile", partly_quantized(tmp_path), "--output", path)
    events = json.loads(path.read_text())["traceEvents"]
    steps = [event["args"] for event in events if event["cat"] == "Node"]
    assert {"operator": "QUANTIZED_LINEAR_CONVOLUTION", "node": "conv"} in steps
    parts = [event for event in events if event["cat"] == "Part"]
    session = dmlcpu.InferenceSession(tmp_path / "partly_quantized.onnx")
    assert [tuple(part["args"]["nodes"]) for part in parts] == [
        partition.nodes for partition in session.partitions({"x": (1, 3, 6, 6)})
    ]
    foreign = [event["name"] for event in parts if event["name"] != "dmlcpu"]
    assert set(foreign) == {"onnxruntime"}
    assert [line.split()[2:] for line in told.splitlines() if "onnxruntime" in line] == [["onnxruntime", "trilu"]]
    rows = [line.split() for line in told.splitlines()[1:-2]]
    assert sorted(row[2] for row in rows) == sorted([*foreign, *(step["operator"] for step in steps)])
    times = [float(row[0]) for row in rows]
    assert times == sorted(times, reverse=True)


def test_profile_tells_the_quickest_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    durations = iter([3, 1, 2])

    def profile(session: InferenceSession, path: Path, feeds: object) -> str:
        event = {"name": "onnxruntime", "cat": "Part", "dur": next(durations), "args": {}}
        path.write_text(json.dumps({"traceEvents": [event]}))
        return str(path)

    monkeypatch.setattr(InferenceSession, "profile", profile)
    path = tmp_path / "trace.json"
    assert "\n1.0 us in all, " in succeeded("profile", KEYWORDS, "--output", path, "--runs", 3)
    assert [event["dur"] for event in json.loads(path.read_text())["traceEvents"]] == [1]
    assert next(durations, None) is None


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
    assert result.stdout == succeeded("info")
    assert result.stderr == ""


def test_the_library_imports_nothing_of_the_command_line() -> None:
    names = "{'dmlcpu.cli', 'typer', 'rich', 'onnx', 'PIL'}"
    code = f"import sys, dmlcpu; assert not {names} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], timeout=120, check=True)
