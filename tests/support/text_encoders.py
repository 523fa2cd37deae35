"""Small encoders of text, as exporters write them: token numbers and a mask in, states out."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from conftest import SEED
from onnx_models import Builder

__all__ = ["FORMS", "STYLES", "TOKENS", "quantized_encoder", "token_feeds"]

Array = NDArray[Any]

TOKENS, POSITIONS, STATES, HEADS = 50, 24, 16, 2
FLOAT, INT32, INT64, BOOL = 1, 6, 7, 9
LOWEST = np.float32(np.finfo(np.float32).min)

# What is made of the mask, and of the positions.
STYLES = ("added mask", "masked scores", "counted positions", "indexed mask")
FORMS = ("dynamic", "static")


class Encoder(Builder):
    """An encoder of one layer under construction."""

    def __init__(self, style: str) -> None:
        super().__init__(14)
        self.style = style
        self.random = np.random.default_rng((SEED, 1))
        self.ids = self.input("int64", ["batch", "tokens"], "input_ids")
        self.mask = self.input("int64", ["batch", "tokens"], "attention_mask")

    def weights(self, *shape: int) -> str:
        return self.constant(self.random.normal(0, 0.3, shape).astype(np.float32))

    def length(self, axis: int) -> str:
        result: str = self.node("Gather", [self.node("Shape", [self.ids]), np.array(axis)], axis=0)
        return result

    def unsqueezed(self, value: str, *axes: int) -> str:
        result: str = self.node("Unsqueeze", [value, np.array(axes)])
        return result

    def positions(self) -> str:
        """All positions up to the length, or the tokens counted that are not padding, which is 1."""
        if self.style == "counted positions":
            padding = self.node("Equal", [self.ids, np.array(1)])
            present = self.node("Cast", [self.node("Not", [padding])], to=INT32)
            count = self.node("Mul", [self.node("CumSum", [present, np.array(1)]), present])
            result: str = self.node("Add", [self.node("Cast", [count], to=INT64), np.array(1)])
            return result
        every = np.arange(POSITIONS)[None]
        end = self.unsqueezed(self.length(1), 0)
        result = self.node("Slice", [every, np.array([0]), end, np.array([1]), np.array([1])])
        return result

    def masked(self, scores: str) -> str:
        if self.style == "masked scores":
            absent = self.node("Equal", [self.mask, np.array(0)])
            tokens = self.unsqueezed(self.length(1), 0)
            shape = self.node("Concat", [np.array([-1, 1, 1]), tokens], axis=0)
            absent = self.node("Expand", [self.node("Reshape", [absent, shape]), self.node("Shape", [scores])])
            result: str = self.node("Where", [absent, LOWEST, scores])
            return result
        if self.style == "indexed mask":
            rows = self.node("Range", [np.array(0), self.length(0), np.array(1)])
            columns = self.node("Range", [np.array(0), self.length(1), np.array(1)])
            rows = self.node("Mul", [self.unsqueezed(rows, 1, 2, 3), self.length(1)])
            whole = self.node("Reshape", [self.node("Cast", [self.mask], to=BOOL), np.array([-1])])
            present = self.node("Gather", [whole, self.node("Add", [rows, columns])])
            queries = self.unsqueezed(self.node("GreaterOrEqual", [columns, np.array(0)]), 1)
            present = self.node("And", [present, queries])
            addend = self.node("Where", [present, np.float32(0), np.float32(-1e4)])
        else:
            absent = self.node("Cast", [self.unsqueezed(self.mask, 1, 2)], to=FLOAT)
            addend = self.node("Mul", [self.node("Sub", [np.float32(1), absent]), np.float32(-1e4)])
        result = self.node("Add", [scores, addend])
        return result

    def dense(self, x: str, rows: int, columns: int) -> str:
        result: str = self.node("Add", [self.node("MatMul", [x, self.weights(rows, columns)]), self.weights(columns)])
        return result

    def normalized(self, x: str) -> str:
        distances = self.node("Sub", [x, self.node("ReduceMean", [x], axes=[-1])])
        variance = self.node("ReduceMean", [self.node("Pow", [distances, np.float32(2)])], axes=[-1])
        deviation = self.node("Sqrt", [self.node("Add", [variance, np.float32(1e-5)])])
        result: str = self.node("Mul", [self.node("Div", [distances, deviation]), self.weights(STATES)])
        result = self.node("Add", [result, self.weights(STATES)])
        return result

    def head(self, x: str, *order: int) -> str:
        split = self.node("Reshape", [self.dense(x, STATES, STATES), np.array([0, 0, HEADS, STATES // HEADS])])
        result: str = self.node("Transpose", [split], perm=order)
        return result

    def attention(self, x: str) -> str:
        scores = self.node("MatMul", [self.head(x, 0, 2, 1, 3), self.head(x, 0, 2, 3, 1)])
        shares = self.node("Softmax", [self.masked(self.node("Div", [scores, np.float32(8**0.5)]))], axis=-1)
        if self.style == "indexed mask":
            shares = self.node("Where", [self.node("IsNaN", [shares]), np.float32(0), shares])
        taken = self.node("Transpose", [self.node("MatMul", [shares, self.head(x, 0, 2, 1, 3)])], perm=[0, 2, 1, 3])
        return self.dense(self.node("Reshape", [taken, np.array([0, 0, STATES])]), STATES, STATES)

    def finished(self) -> onnx.ModelProto:
        x = self.node("Gather", [self.weights(TOKENS, STATES), self.ids])
        x = self.normalized(
            self.node("Add", [x, self.node("Gather", [self.weights(POSITIONS, STATES), self.positions()])])
        )
        x = self.normalized(self.node("Add", [x, self.attention(x)]))
        y = self.dense(x, STATES, 4 * STATES)
        erf = self.node("Add", [self.node("Erf", [self.node("Div", [y, np.float32(2**0.5)])]), np.float32(1)])
        y = self.node("Mul", [self.node("Mul", [y, erf]), np.float32(0.5)])
        self.output(
            self.normalized(self.node("Add", [x, self.dense(y, 4 * STATES, STATES)])),
            "float32",
            ["batch", "tokens", STATES],
        )
        for index, node in enumerate(self.nodes):
            node.name = f"{node.op_type}_{index}"
        return self.proto()


def token_feeds(seed: int, batch: int, tokens: int) -> dict[str, Array]:
    """Rows of different lengths, filled up with 1, which the mask leaves out."""
    random = np.random.default_rng((SEED, seed))
    ids = random.integers(2, TOKENS, (batch, tokens))
    mask = np.arange(tokens) < random.integers(1, tokens + 1, batch)[:, None]
    return {"input_ids": np.where(mask, ids, 1), "attention_mask": mask.astype(np.int64)}


@functools.cache
def quantized_encoder(style: str, form: str) -> bytes:
    """An encoder quantized by onnxruntime's tools."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_dynamic,
        quantize_static,
    )

    class Reader(CalibrationDataReader):  # type: ignore[misc] # the package has no types
        def __init__(self) -> None:
            self._feeds: Iterator[dict[str, Array]] = (token_feeds(seed, 3, 9) for seed in range(4))

        def get_next(self) -> dict[str, Array] | None:
            return next(self._feeds, None)

    model, signed = Encoder(style).finished(), {"per_channel": True, "weight_type": QuantType.QInt8}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "quantized.onnx"
        logging.disable(logging.WARNING)
        try:
            if form == "dynamic":
                quantize_dynamic(model, path, **signed)
            else:
                quantize_static(model, path, Reader(), quant_format=QuantFormat.QDQ, **signed)
        finally:
            logging.disable(logging.NOTSET)
        return path.read_bytes()
