"""A vision transformer with seeded random weights: the shapes of ViT-Ti/16, node by node as exporters write it."""

from __future__ import annotations

import numpy as np
import onnx

from bench.model_zoo.he_networks import Builder

__all__ = ["vit_tiny"]

_WIDTH, _HEADS, _LAYERS, _EXPANSION, _PATCH, _IMAGE, _CLASSES = 192, 3, 12, 4, 16, 224, 1000
_PATCHES = (_IMAGE // _PATCH) ** 2
# What a branch adds to the residual stream, so that sums of all layers stay in range.
_BRANCH = 0.16


def _ints(build: Builder, *values: int) -> str:
    return build.constant(np.array(values, np.int64))


def _float(build: Builder, value: float) -> str:
    return build.constant(np.array(value, np.float32))


def _normalized(build: Builder, x: str) -> str:
    weight, bias = build.drawn(0.1, (_WIDTH,), mean=1.0), build.drawn(0.1, (_WIDTH,))
    return build.node("LayerNormalization", x, weight, bias, axis=-1, epsilon=1e-6)


def _tokens(build: Builder) -> str:
    """Add the patches of an image, a token before them, and where each is."""
    weights = build.drawn(np.sqrt(1 / (3 * _PATCH**2)), (_WIDTH, 3, _PATCH, _PATCH))
    bias = build.drawn(0.1, (_WIDTH,))
    x = build.node("Conv", "input", weights, bias, kernel_shape=(_PATCH,) * 2, strides=(_PATCH,) * 2)
    x = build.node("Transpose", build.node("Reshape", x, _ints(build, 0, _WIDTH, _PATCHES)), perm=(0, 2, 1))
    shape = build.node("Concat", build.node("Shape", x, end=1), _ints(build, 1, _WIDTH), axis=0)
    token = build.node("Expand", build.drawn(0.5, (1, 1, _WIDTH)), shape)
    return build.node("Add", build.node("Concat", token, x, axis=1), build.drawn(0.5, (1, _PATCHES + 1, _WIDTH)))


def _attention(build: Builder, x: str) -> str:
    tokens, size = _PATCHES + 1, _WIDTH // _HEADS
    x = build.node("Reshape", build.product(x, _WIDTH, 3 * _WIDTH), _ints(build, 0, tokens, 3, _HEADS, size))
    x = build.node("Transpose", x, perm=(2, 0, 3, 1, 4))
    q, k, v = (build.node("Gather", x, build.constant(np.array(part, np.int64)), axis=0) for part in range(3))
    scores = build.node("MatMul", q, build.node("Transpose", k, perm=(0, 1, 3, 2)))
    shares = build.node("Softmax", build.node("Mul", scores, _float(build, size**-0.5)), axis=-1)
    y = build.node("Transpose", build.node("MatMul", shares, v), perm=(0, 2, 1, 3))
    return build.product(build.node("Reshape", y, _ints(build, 0, tokens, _WIDTH)), _WIDTH, _WIDTH, _BRANCH)


def _gelu(build: Builder, x: str) -> str:
    erf = build.node("Erf", build.node("Div", x, _float(build, np.sqrt(2))))
    doubled = build.node("Mul", x, build.node("Add", erf, _float(build, 1)))
    return build.node("Mul", doubled, _float(build, 0.5))


def vit_tiny() -> onnx.ModelProto:
    """Return ViT-Ti/16 for images of 224 x 224."""
    build = Builder(16)
    x = _tokens(build)
    for _ in range(_LAYERS):
        x = build.node("Add", x, _attention(build, _normalized(build, x)))
        y = _gelu(build, build.product(_normalized(build, x), _WIDTH, _EXPANSION * _WIDTH))
        x = build.node("Add", x, build.product(y, _EXPANSION * _WIDTH, _WIDTH, _BRANCH))
    first = build.node("Gather", _normalized(build, x), build.constant(np.array(0, np.int64)), axis=1)
    weights, bias = build.drawn(0.05, (_CLASSES, _WIDTH)), build.drawn(0.1, (_CLASSES,))
    return build.model("vit_tiny", build.node("Gemm", first, weights, bias, transB=1))
