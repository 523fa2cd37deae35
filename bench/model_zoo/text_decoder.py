"""A decoder of text with seeded random weights, GPT-2's layers, node by node as exporters write them.

Its inputs are the numbers of new tokens, and for each layer the keys and values of those before, which it returns with
the new ones: so their shapes change with each token.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from bench.model_zoo.he_networks import Builder

__all__ = ["HEAD", "decoder"]

HEAD = 64
"""Elements of a head."""

_POSITIONS, _EXPANSION = 1024, 4
# What a branch adds to the residual stream, so that sums of all layers stay in range.
_BRANCH = 0.16


def decoder(layers: int, width: int, words: int) -> onnx.ModelProto:
    """Return a decoder.

    Args:
        layers: Of attention and products.
        width: Elements of a token's state, a multiple of ``HEAD``.
        words: Tokens that it knows.
    """
    build = _Decoder(layers + width)
    past = [(f"past_keys_{layer}", f"past_values_{layer}") for layer in range(layers)]
    present: list[str] = []
    count = build.node("Gather", build.node("Shape", "ids"), build.integers(1), axis=0)
    before = build.node("Gather", build.node("Shape", past[0][0]), build.integers(2), axis=0)
    places = build.row(before, build.node("Add", before, count))
    x = build.node("Gather", build.drawn(0.5, (words, width)), "ids")
    x = build.node("Add", x, build.node("Gather", build.drawn(0.1, (_POSITIONS, width)), places))
    mask = build.later_hidden(places)
    for keys, values in past:
        y, *pair = build.attention(build.normalized(x, width), width, (keys, values), mask)
        present += pair
        x = build.node("Add", x, y)
        y = build.gelu(build.product(build.normalized(x, width), width, _EXPANSION * width))
        x = build.node("Add", x, build.product(y, _EXPANSION * width, width, _BRANCH))
    last = build.node("Gather", build.normalized(x, width), build.axes(-1), axis=1)
    logits = build.node("MatMul", last, build.drawn(width**-0.5, (width, words)))
    before_shape, all_shape = (("batch", width // HEAD, length, HEAD) for length in ("past", "all"))
    return build.finished(
        "decoder",
        [
            helper.make_tensor_value_info("ids", TensorProto.INT64, ("batch", "tokens")),
            *(_floats(name, before_shape) for pair in past for name in pair),
        ],
        [_floats(logits, ("batch", 1, words)), *(_floats(name, all_shape) for name in present)],
    )


def _floats(name: str, shape: tuple[int | str, ...]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


class _Decoder(Builder):
    def integers(self, *values: int) -> str:
        return self.constant(np.array(values if len(values) > 1 else values[0], np.int64))

    def axes(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def row(self, begin: str, end: str) -> str:
        """Add a row of numbers, one after the other."""
        return self.node("Unsqueeze", self.node("Range", begin, end, self.integers(1)), self.axes(0))

    def normalized(self, x: str, width: int) -> str:
        weight, bias = self.drawn(0.1, (width,), mean=1.0), self.drawn(0.1, (width,))
        return self.node("LayerNormalization", x, weight, bias, axis=-1, epsilon=1e-5)

    def later_hidden(self, places: str) -> str:
        """Add what hides from each token those behind it: {tokens, all}."""
        last = self.node("Add", self.node("ReduceMax", places, keepdims=0), self.integers(1))
        own = self.node("Transpose", places, perm=(1, 0))
        seen = self.node("LessOrEqual", self.row(self.integers(0), last), own)
        zero, lowest = (self.constant(np.array(value, np.float32)) for value in (0, -1e4))
        return self.node("Where", seen, zero, lowest)

    def attention(self, x: str, width: int, past: tuple[str, str], mask: str) -> list[str]:
        """Add attention; return it, and all keys and values."""
        projected = self.product(x, width, 3 * width)
        parts = [
            self.node("Slice", projected, self.axes(begin), self.axes(begin + width), self.axes(2))
            for begin in range(0, 3 * width, width)
        ]
        shape = self.axes(0, 0, width // HEAD, HEAD)
        queries, *own = (self.node("Transpose", self.node("Reshape", part, shape), perm=(0, 2, 1, 3)) for part in parts)
        keys, values = (self.node("Concat", before, new, axis=2) for before, new in zip(past, own, strict=True))
        scores = self.node("MatMul", queries, self.node("Transpose", keys, perm=(0, 1, 3, 2)))
        scaled = self.node("Mul", scores, self.constant(np.array(HEAD**-0.5, np.float32)))
        shares = self.node("Softmax", self.node("Add", scaled, mask), axis=-1)
        y = self.node("Transpose", self.node("MatMul", shares, values), perm=(0, 2, 1, 3))
        y = self.node("Reshape", y, self.axes(0, 0, width))
        return [self.product(y, width, width, _BRANCH), keys, values]

    def gelu(self, x: str) -> str:
        erf = self.node("Erf", self.node("Div", x, self.constant(np.array(np.sqrt(2), np.float32))))
        doubled = self.node("Mul", x, self.node("Add", erf, self.constant(np.array(1, np.float32))))
        return self.node("Mul", doubled, self.constant(np.array(0.5, np.float32)))
