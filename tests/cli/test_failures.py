"""What a user can mend ends a command with one line and exit code 1; what others end it with is silent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from command_line import KEYWORDS, PHOTO, failed, in_floats, parsed, run


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
        (["run", KEYWORDS, "other=x.npy"], "dmlcpu: other=x.npy: the model has no input 'other'; its inputs: input0\n"),
        (
            ["info", KEYWORDS, "--shape", "other=1"],
            "--shape other=1: the model has no input 'other'; its inputs: input0",
        ),
        (["info", "two.onnx", "--shape", "1"], "--shape 1: expected NAME=..., with a name of x, z\n"),
        (["run", KEYWORDS, PHOTO, "--input", PHOTO], "input 'input0' is given twice"),
        (
            ["run", KEYWORDS, "--input", "other=x.npy"],
            "--input other=x.npy: the model has no input 'other'; its inputs: in",
        ),
        (["run", KEYWORDS, "--input", "missing.npy"], "No such file"),
        (["run", KEYWORDS, "--input", "missing.png"], "No such file"),
        (["run", KEYWORDS, "--input", KEYWORDS], "cannot be read as an image"),
        (["run", KEYWORDS, "--input", "text.npy"], "text.npy: it cannot be read as a .npy file: the magic string"),
        (["run", KEYWORDS, "--input", "damaged.npy"], "damaged.npy: it cannot be read as a .npy file"),
        (["run", KEYWORDS, "--input", "archive.npy"], "archive.npy: it cannot be read as a .npy file"),
        (["run", "no_inputs.onnx", "codes.npy"], "dmlcpu: codes.npy: the model has no inputs"),
        (["info", "empty.onnx"], "empty.onnx: the file is empty"),
        (["bench", "strings.onnx"], "input 't': no random tensor(string)\n"),
        (["bench", "complex.onnx"], "input 'x': no random tensor(complex64)\n"),
        (["profile", "complex.onnx"], "input 'x': no random tensor(complex64); give one with --input x=FILE\n"),
        (["run", "strings.onnx"], "got no input 't', expected tensor(string) of shape (2,): --input t=FILE, a .npy"),
        (["run", "strings.onnx", PHOTO], "input 't': images become uint8, int8 or floats, not tensor(string)"),
        (["run", KEYWORDS, "--input", "codes.npy"], "got uint8 of shape (2,), expected float32"),
        (["run", KEYWORDS, "--input", PHOTO, "--mean", "1,2"], "--mean has 2 numbers, the image 1 channel"),
        (["run", KEYWORDS, "--input", PHOTO, "--std", "x"], "--std: got 'x'"),
        (["run", KEYWORDS, "--input", PHOTO, "--std", "0"], "--std has a 0"),
        (["run", KEYWORDS, "--input", PHOTO, "--std", "1,inf"], "--std: got '1,inf', expected finite numbers with"),
        (["run", KEYWORDS, "--input", PHOTO, "--scale", "nan"], "--scale: got nan, expected a finite number"),
        (["run", KEYWORDS, "codes.npy", "--mean", "1"], "--scale, --mean and --std are of images, and none is given"),
        (["bench", KEYWORDS, "--json", "absent/figures.json"], "No such file or directory: 'absent/figures.json'"),
        (["run", "two.onnx", "x=several.npz"], "several.npz: it has no array 'x'; its arrays: y, z"),
        (["run", KEYWORDS, "text.npz"], "text.npz: it cannot be read as an .npz file: "),
        (["run", KEYWORDS, "text.pb"], "text.pb: it cannot be read as a tensor of ONNX: "),
        (["run", KEYWORDS, "absent.pb"], "No such file"),
        (["run", KEYWORDS, "--isa", "mmx"], "mmx"),
        (["info", "--isa", "mmx"], "mmx"),
        (["info", "--shape", "x=1"], "--shape is of a model, and none is named"),
        (["info", "--value", "x=1"], "--value is of a model, and none is named"),
        (["info", "--plans"], "--plans is of a model, and none is named"),
        (["info", KEYWORDS, "--shape", "1,2,3"], "got shape (1, 2, 3), expected (1, 50, 10, 1)"),
        (["info", KEYWORDS, "--shape", "1,a"], "expected lengths"),
        (["info", "free.onnx", "--shape", "-1,4"], "got shape (-1, 4), expected lengths of 0 and more"),
        (
            ["bench", "free.onnx", "--shape", f"{1 << 70},4"],
            "got shape (an integer of 71 bits, 4), expected",
        ),
        (["bench", "free.onnx", "--batch", f"{1 << 70}"], "elements"),
        (
            ["bench", "free.onnx", "--batch", "2", "--shape", "x=1,4"],
            "--batch 2: no input of the model has a free first length that --shape does not give",
        ),
        (["bench", KEYWORDS, "--batch", "2"], "no input of the model has a free first length"),
        (["bench", KEYWORDS, "--peers", "other"], "got 'other', expected names of onnxruntime, openvino"),
        (["profile", KEYWORDS, "--output", "."], "directory"),
        *(
            (
                [command, KEYWORDS, "--input", "codes.npy"],
                "input 'input0': got uint8 of shape (2,), expected float32 of shape (1, 50, 10, 1)",
            )
            for command in ("check", "profile")
        ),
    ],
)
def test_errors_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[object], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.npy").write_text("not an array\n")
    (tmp_path / "damaged.npy").write_bytes(b"PK\3\4 and so on")
    (tmp_path / "empty.onnx").touch()
    np.save("codes.npy", np.uint8([1, 2]))
    for name in ("text.npz", "text.pb"):
        (tmp_path / name).write_text("not an array\n")
    np.savez("several.npz", y=np.uint8([1, 2]), z=np.uint8([1, 2]))
    np.savez("archive.npz", np.uint8([1, 2]))
    (tmp_path / "archive.npz").rename("archive.npy")
    for name, inputs, node in (
        ("free", "float[n, 4] x", "Neg(x)"),
        ("no_inputs", "", "Constant<value_floats=[1.0]>()"),
        ("strings", "string[2] t", "Cast<to=1>(t)"),
        ("complex", "complex64[2] x, float[2] a", "Neg(a)"),
        ("two", "float[n] x, float[n] z", "Neg(x)"),
    ):
        parsed(tmp_path / f"{name}.onnx", inputs, "float y", f"{{ y = {node} }}")
    assert told in f"{failed(*arguments)}\n"


def test_a_number_of_threads_in_the_environment_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMLCPU_NUM_THREADS", "many")
    assert failed("info", KEYWORDS).startswith("dmlcpu: DMLCPU_NUM_THREADS='many'; expected a number of threads")


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


@pytest.mark.parametrize("arguments", [["bench", KEYWORDS, "--seed", -1], ["info", KEYWORDS, "--threads", 1025]])
def test_numbers_out_of_range(arguments: list[object]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert "Invalid value for '--" in result.stderr


def in_a_process(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "dmlcpu", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, **options)  # type: ignore[call-overload, no-any-return]


def test_characters_that_the_output_has_not(tmp_path: Path) -> None:
    model = in_floats(tmp_path)
    proto = onnx.load(model)
    proto.graph.input[0].name = proto.graph.node[0].input[0] = "\u7bc0\u70b9"
    onnx.save(proto, model)
    process = in_a_process("info", model, stdout=subprocess.PIPE, env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    told, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, b"")
    assert rb"\u7bc0\u70b9" in told


def test_nothing_is_told_of_a_pipe_that_is_closed() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = in_a_process("info", KEYWORDS, stdout=writing)
    os.close(writing)
    assert process.communicate(timeout=120)[1] == b""
    assert process.returncode == 1
