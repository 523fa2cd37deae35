"""What a file is that is no ONNX model, by its first bytes."""

from __future__ import annotations

from typing import Final

__all__ = ["format_of"]

_Marks = tuple[int, bytes, str]

# Where a file has which bytes, what it is then and what to do; letters are compared in lower case.
_MARKS: Final[tuple[_Marks, ...]] = (
    (4, b"tfl3", "a LiteRT (TensorFlow Lite) model: convert it to ONNX"),
    (4, b"ortm", "a model in onnxruntime's own format: open the ONNX model that it was made of"),
    (0, b"version https://git-lfs", "a pointer of git-lfs in the place of a model: git lfs pull"),
    (0, b"\x1f\x8b", "compressed by gzip: gunzip it"),
    (0, b"pk\x03\x04", "a zip archive, as PyTorch saves models: extract the ONNX model, or export one"),
    (0, b"\x89hdf", "an HDF5 file, as Keras saves models: convert the model to ONNX"),
    (0, b"\x93numpy", "an array of numpy's"),
    (0, b"<!doctype html", "a web page: download the model itself"),
    (0, b"<html", "a web page: download the model itself"),
    (0, b"<?xml", "XML, as OpenVINO saves models: open the ONNX model that it was made of"),
    (0, b"<net", "XML, as OpenVINO saves models: open the ONNX model that it was made of"),
)


def format_of(data: bytes) -> str:
    """Return what a file is and what to do about it; "" if that cannot be told."""
    if not data:
        return "the file is empty"
    begin = data[:64].lower()
    return next((f"it is {what}" for place, mark, what in _MARKS if begin.startswith(mark, place)), "")
