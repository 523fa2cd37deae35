"""Functions of FLOAT32 elements in numpy, with the same results on every processor.

They are those of onnx's evaluator, to the bit, of plain arithmetic; its import alone takes several times as long as all
that a small model needs. The last bits of numpy's exponentials, logarithms and functions of angles depend on what the
processor has instructions for. Functions of these are computed in double precision and rounded once: errors there are
of a few units of 2**-53, so two processors differ only where a result lies within 2**-27 of the middle of two floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from dmlcpu.onnx.constant_arrays import Array

__all__ = ["ELEMENT_FUNCTIONS", "ElementFunction"]


class ElementFunction(NamedTuple):
    """An operator on each element.

    Attributes:
        since: The version from which on it has these attributes and this meaning.
        compute: The function of its inputs, and then of its attributes.
        defaults: Of its attributes, in this order.
        is_plain: Each of its operations is rounded as FLOAT32; otherwise its first input is given as FLOAT64.
        is_slow: It goes through the elements one by one.
    """

    since: int
    compute: Callable[..., Array]
    defaults: Mapping[str, Any] = {}
    is_plain: bool = False
    is_slow: bool = False


def _leaky_relu(x: Array, alpha: float) -> Array:
    slope = (x > 0).astype(x.dtype)
    slope -= ((slope - 1) * alpha).astype(x.dtype)
    made: Array = x * slope
    return made


def _prelu(x: Array, slope: Array) -> Array:
    return np.where(x > 0, x, x * slope)


def _thresholded_relu(x: Array, alpha: float) -> Array:
    return np.where(x > alpha, x, 0)


def _shrink(x: Array, bias: float, bound: float) -> Array:
    return np.where(x < -bound, x + bias, np.where(x > bound, x - bias, 0))


def _sigmoid(x: Array) -> Array:
    exponential = np.exp(x)
    return np.where(x > 0, 1.0 / (1.0 + np.exp(-x)), exponential / (1.0 + exponential))


def _hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    return np.maximum(0, np.minimum(1, x * alpha + beta)).astype(x.dtype)


def _hard_swish(x: Array) -> Array:
    made: Array = x * _hard_sigmoid(x, 1 / 6, 0.5)
    return made


def _swish(x: Array, alpha: float) -> Array:
    made: Array = x * (1 / (1 + np.exp(-alpha * x)))
    return made


def _softplus(x: Array) -> Array:
    made: Array = np.logaddexp(0, x)
    return made


def _mish(x: Array) -> Array:
    made: Array = x * np.tanh(_softplus(x))
    return made


def _softsign(x: Array) -> Array:
    made: Array = x / (np.abs(x) + 1)
    return made


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(x))


def _selu(x: Array, alpha: float, gamma: float) -> Array:
    made: Array = _elu(x, alpha) * gamma
    return made


def _celu(x: Array, alpha: float) -> Array:
    made: Array = np.maximum(0, x) + np.minimum(0, alpha * np.expm1(x / alpha))
    return made


def _one_by_one(function: Callable[[float], float], x: Array) -> Array:
    made: Array = np.array([function(element) for element in x.reshape(-1).tolist()], np.float64).reshape(x.shape)
    return made


def _erf(x: Array) -> Array:
    return _one_by_one(math.erf, x)


def _gelu(x: Array, approximate: bytes) -> Array:
    # Halves of 1 + erf and of 1 + tanh, without what these sums lose where they are close to 0.
    if approximate == b"none":
        share = _one_by_one(math.erfc, x / -math.sqrt(2)) / 2
    elif approximate == b"tanh":
        share = 1 / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * np.power(x, 3))))
    else:
        raise ValueError(approximate)
    made: Array = x * share
    return made


ELEMENT_FUNCTIONS: Final[Mapping[str, ElementFunction]] = {
    "Exp": ElementFunction(1, np.exp),
    "Log": ElementFunction(1, np.log),
    "Sin": ElementFunction(7, np.sin),
    "Cos": ElementFunction(7, np.cos),
    "Tanh": ElementFunction(6, np.tanh),
    "Reciprocal": ElementFunction(6, np.reciprocal, is_plain=True),
    "Round": ElementFunction(11, np.round, is_plain=True),
    "Tan": ElementFunction(7, np.tan),
    "Asin": ElementFunction(7, np.arcsin),
    "Acos": ElementFunction(7, np.arccos),
    "Atan": ElementFunction(7, np.arctan),
    "Sinh": ElementFunction(9, np.sinh),
    "Cosh": ElementFunction(9, np.cosh),
    "Asinh": ElementFunction(9, np.arcsinh),
    "Acosh": ElementFunction(9, np.arccosh),
    "Atanh": ElementFunction(9, np.arctanh),
    "Pow": ElementFunction(7, np.power),
    "LeakyRelu": ElementFunction(6, _leaky_relu, {"alpha": 0.01}, is_plain=True),
    "PRelu": ElementFunction(9, _prelu, is_plain=True),
    "ThresholdedRelu": ElementFunction(10, _thresholded_relu, {"alpha": 1.0}, is_plain=True),
    "Shrink": ElementFunction(9, _shrink, {"bias": 0.0, "lambd": 0.5}, is_plain=True),
    "Sigmoid": ElementFunction(6, _sigmoid),
    "HardSigmoid": ElementFunction(6, _hard_sigmoid, {"alpha": 0.2, "beta": 0.5}, is_plain=True),
    "HardSwish": ElementFunction(14, _hard_swish, is_plain=True),
    "Swish": ElementFunction(24, _swish, {"alpha": 1.0}),
    "Softplus": ElementFunction(1, _softplus),
    "Mish": ElementFunction(18, _mish),
    "Softsign": ElementFunction(1, _softsign, is_plain=True),
    "Elu": ElementFunction(6, _elu, {"alpha": 1.0}),
    "Selu": ElementFunction(6, _selu, {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}),
    "Celu": ElementFunction(12, _celu, {"alpha": 1.0}),
    "Erf": ElementFunction(9, _erf, is_slow=True),
    "Gelu": ElementFunction(20, _gelu, {"approximate": b"none"}, is_slow=True),
}
