"""Small encoders of text as onnxruntime's optimizer of transformers leaves them, and dynamically quantized."""

from __future__ import annotations

import functools
import logging
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx

from conftest import SEED
from onnx_models import Builder
from text_encoders import FLOAT, INT32, POSITIONS, TOKENS

__all__ = ["FORMS", "LAYERS", "STYLES", "fused_encoder"]

STATES, HEADS, LAYERS = 24, 3, 2

# Where the mask goes: to lengths with the embeddings, or by a sum; as it is to a node of attention; to one of heads.
STYLES = ("embedded lengths", "summed lengths", "mask", "heads", "generator")
FORMS = ("floats", "dynamic", "dynamic per channel")


class FusedEncoder(Builder):
    """Such an encoder under construction."""

    def __init__(self, style: str) -> None:
        super().__init__(14)
        self.style = style
        self.random = np.random.default_rng((SEED, 1))
        ids, mask = (self.input("int64", ["batch", "tokens"], name) for name in ("input_ids", "attention_mask"))
        self.ids, self.mask = (self.node("Cast", [value], to=INT32) for value in (ids, mask))

    def weights(self, *shape: int) -> str:
        return self.constant(self.random.normal(0, 0.3, shape).astype(np.float32))

    def embedded(self) -> str:
        words, positions = self.weights(TOKENS, STATES), self.weights(POSITIONS, STATES)
        vectors = [self.weights(STATES), self.weights(STATES)]
        if self.style == "generator":
            rows = self.node("Gather", [words, self.ids])
            result: str = self.node("LayerNormalization", [rows, *vectors], axis=-1)
            return result
        with_mask = self.style == "embedded lengths"
        segments = [self.node("Mul", [self.ids, np.int32(0)]), words, positions, self.weights(2, STATES)]
        inputs = [self.ids, *segments, *vectors, *([self.mask] if with_mask else [])]
        result, lengths = self.node("com.microsoft.EmbedLayerNormalization", inputs, count=2, epsilon=1e-12)
        if with_mask:
            self.mask = lengths
        elif self.style == "summed lengths":
            self.mask = self.node("ReduceSum", [self.mask, np.array([1])], keepdims=0)
        return result

    def attention(self, x: str) -> str:
        if self.style == "heads":
            parts = [self.node("MatMul", [x, self.weights(STATES, STATES)]) for _ in range(3)]
            inputs = [*parts, self.weights(3 * STATES), self.mask]
            result: str = self.node("com.microsoft.MultiHeadAttention", inputs, num_heads=HEADS)
            return result
        inputs = [x, self.weights(STATES, 3 * STATES), self.weights(3 * STATES), self.mask]
        order = {"unidirectional": 1} if self.style == "generator" else {}
        result = self.node("com.microsoft.Attention", inputs, num_heads=HEADS, **order)
        return result

    def normalized(self, x: str, skip: str) -> tuple[str, str]:
        """The normalized sum, and what the next layer skips to: that, or the sum itself."""
        vectors = [self.weights(STATES) for _ in range(3)]
        if self.style != "generator":
            result: str = self.node("com.microsoft.SkipLayerNormalization", [x, skip, *vectors], epsilon=1e-12)
            return result, result
        outputs = self.node("com.microsoft.SkipLayerNormalization", [x, skip, *vectors], count=4, epsilon=1e-5)
        self.nodes[-1].output[1:3] = "", ""
        return outputs[0], outputs[3]

    def finished(self) -> onnx.ModelProto:
        x = skip = self.embedded()
        for _ in range(LAYERS):
            y = self.node("MatMul", [self.attention(x), self.weights(STATES, STATES)])
            x, skip = self.normalized(y, skip)
            y = self.node("MatMul", [x, self.weights(STATES, 4 * STATES)])
            kind = "FastGelu" if self.style == "generator" else "BiasGelu"
            y = self.node(f"com.microsoft.{kind}", [y, self.weights(4 * STATES)])
            x, skip = self.normalized(self.node("MatMul", [y, self.weights(4 * STATES, STATES)]), skip)
        self.output(x, "float32", ["batch", "tokens", STATES])
        for index, node in enumerate(self.nodes):
            node.name = f"{node.op_type}_{index}"
        return self.proto()


@functools.cache
def fused_encoder(style: str, form: str) -> bytes:
    """An encoder of a style, quantized by onnxruntime's tools if the form says so."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = FusedEncoder(style).finished()
    if form == "floats":
        serialized: bytes = model.SerializeToString()
        return serialized
    options = {"per_channel": form.endswith("channel"), "weight_type": QuantType.QInt8}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "quantized.onnx"
        logging.disable(logging.WARNING)
        try:
            quantize_dynamic(model, path, extra_options={"DefaultTensorType": FLOAT}, **options)
        finally:
            logging.disable(logging.NOTSET)
        return path.read_bytes()
