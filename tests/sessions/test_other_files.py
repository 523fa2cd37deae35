"""Files that are no model, or not one that is known: what they are, and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import dmlcpu


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "the file is empty"),
        (b"\x1c\0\0\0TFL3" + bytes(100), "it is a LiteRT (TensorFlow Lite) model: convert it to ONNX"),
        (b"\x1c\0\0\0ORTM" + bytes(100), "it is a model in onnxruntime's own format: open the ONNX model"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "it is a pointer of git-lfs in the place"),
        (b"\x1f\x8b\x08" + bytes(100), "it is compressed by gzip: gunzip it"),
        (b"PK\x03\x04" + bytes(100), "it is a zip archive, as PyTorch saves models"),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), "it is an HDF5 file, as Keras saves models"),
        (b"\x93NUMPY\x01\0" + bytes(100), "it is an array of numpy's"),
        (b"<!DOCTYPE html><html>404</html>", "it is a web page: download the model itself"),
        (b'<?xml version="1.0"?><net name="x"/>', "it is XML, as OpenVINO saves models"),
    ],
)
def test_files_of_other_formats(data: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "file.onnx"
    path.write_bytes(data)
    with pytest.raises(dmlcpu.InvalidModelError, match=rf"file\.onnx: (not an ONNX model: )?{re.escape(told)}"):
        dmlcpu.InferenceSession(path)
    with pytest.raises(dmlcpu.InvalidModelError, match=rf"^model: (not an ONNX model: )?{re.escape(told)}"):
        dmlcpu.InferenceSession(data)


def sigmoid(of_format: int = 8, domain: str = "", version: int = 17, output: str = "float") -> bytes:
    imports = f'"{domain}" : {version}' + ', "" : 17' * bool(domain)
    text = (
        f"<ir_version: {of_format}, opset_import: [{imports}]> g (float[4] x) => ({output}[4] y) {{ y = Sigmoid(x) }}"
    )
    serialized: bytes = onnx.parser.parse_model(text).SerializeToString()
    return serialized


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (sigmoid(99), "got version 99 of ONNX's format, expected 14 or less"),
        (sigmoid(version=29), "got version 29 of ONNX's operators, expected one from 1 to 28: export it for opset 28"),
        (sigmoid(version=0), "got version 0 of ONNX's operators, expected one from 1 to 28"),
        (
            sigmoid(domain="ai.onnx.ml", version=6),
            "got version 6 of the operators of the domain 'ai.onnx.ml', expected",
        ),
        (sigmoid(domain="com.microsoft", version=2), "got version 2 of the operators of the domain 'com.microsoft'"),
    ],
)
def test_versions_that_are_not_known(model: bytes, told: str) -> None:
    with pytest.raises(dmlcpu.InvalidModelError, match=f"^model: {re.escape(told)}"):
        dmlcpu.InferenceSession(model)


def test_the_newest_versions() -> None:
    for model in (
        sigmoid(14),
        sigmoid(version=28),
        sigmoid(domain="ai.onnx.ml", version=5),
        sigmoid(domain="own", version=99),
    ):
        dmlcpu.InferenceSession(model).run(None, {"x": np.zeros(4, np.float32)})


@pytest.mark.parametrize("output", ["int64", "float16", "bool"])
def test_an_output_of_another_type_than_the_model_tells(output: str) -> None:
    told = rf"^output 'y': its nodes make float32, the model tells {output}$"
    with pytest.raises(dmlcpu.InvalidModelError, match=told):
        dmlcpu.InferenceSession(sigmoid(output=output))


def test_weights_in_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes do not tell in which folder that is: it is not looked for in the current one."""
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights.bin")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Add", ["x", "w"], ["y"])], "graph", [x], [y], [tensor])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(
        dmlcpu.InvalidModelError,
        match=r"model\.onnx: the file 'weights\.bin', .* of its weights, is missing$",
    ):
        dmlcpu.InferenceSession(tmp_path / "model.onnx")
    (tmp_path / "weights.bin").write_bytes(np.float32([1, 2, 3, 4]).tobytes())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        dmlcpu.InvalidModelError, match=r"^initializer 'w': .* 'weights\.bin': pass the path of the model"
    ):
        dmlcpu.InferenceSession(model.SerializeToString())
    [result] = dmlcpu.InferenceSession("model.onnx").run(None, {"x": np.ones(4, np.float32)})
    np.testing.assert_array_equal(result, np.float32([2, 3, 4, 5]))
