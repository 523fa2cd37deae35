"""The functions of a recurrent layer's cell, as its attributes tell them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotNative
from dmlcpu.onnx.rules.element_operators import float_bits
from dmlcpu.onnx.rules.native_functions import FloatUnary

__all__ = ["CellFunction", "cell_functions"]

# The functions of a cell in ONNX's order, where the node names none.
_OWN: Final[Mapping[str, Sequence[bytes]]] = {
    "RNN": (b"tanh",),
    "LSTM": (b"sigmoid", b"tanh", b"tanh"),
    "DynamicQuantizeLSTM": (b"sigmoid", b"tanh", b"tanh"),
    "GRU": (b"sigmoid", b"tanh"),
}
# Those with a kernel, and what alpha and beta are where the node tells none; None where the function has none.
_KNOWN: Final[Mapping[bytes, tuple[FloatUnary, float | None, float | None]]] = {
    b"sigmoid": (FloatUnary.SIGMOID, None, None),
    b"tanh": (FloatUnary.TANH, None, None),
    b"relu": (FloatUnary.RELU, None, None),
    b"softsign": (FloatUnary.SOFTSIGN, None, None),
    b"softplus": (FloatUnary.SOFTPLUS, None, None),
    b"leakyrelu": (FloatUnary.LEAKY_RELU, 0.01, None),
    b"hardsigmoid": (FloatUnary.HARD_SIGMOID, 0.2, 0.5),
}


class CellFunction(NamedTuple):
    """A function and its parameters, 0 where it has none."""

    function: FloatUnary
    alpha: float
    beta: float

    @property
    def numbers(self) -> tuple[int, int, int]:
        """As operators are told it."""
        return self.function, float_bits(np.float32(self.alpha)), float_bits(np.float32(self.beta))


def cell_functions(node: Node, directions: int) -> Sequence[CellFunction]:
    """Return the functions of a layer's cell, in ONNX's order.

    Raises:
        NotNative: One has no kernel, or directions differ.
    """
    own = _OWN[node.operator]
    given = [name.lower() for name in node.attributes.get("activations", ())] or [*own] * directions
    functions = [*_with_parameters(node, given)]
    first = functions[: len(own)]
    if len(given) != len(own) * directions or functions != first * directions:
        raise NotNative(f"functions {given} of a cell in {directions} directions")
    return first


def _with_parameters(node: Node, names: Sequence[bytes]) -> Iterator[CellFunction]:
    """Yield functions; each that has parameters takes the next that the node tells, as long as there are some."""
    alphas, betas = (iter(node.attributes.get(f"activation_{name}", ())) for name in ("alpha", "beta"))
    for name in names:
        if name not in _KNOWN:
            raise NotNative(f"a cell of {name!r}")
        function, alpha, beta = _KNOWN[name]
        yield CellFunction(
            function, 0.0 if alpha is None else next(alphas, alpha), 0.0 if beta is None else next(betas, beta)
        )
