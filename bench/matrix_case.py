"""One product of quantized matrices with its data, as dmlcpu and its peers are given it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import dmlcpu
from bench.operands import CODE_TYPES, PreparedCall, random_codes
from dmlcpu import Device, TensorDataType, TensorDesc, TensorFlags

__all__ = ["NETWORKS", "MatrixCase", "MatrixShape", "Result"]

Result = Literal["codes", "sums", "floats"]


@dataclass(frozen=True)
class MatrixShape:
    """A product of {batch, M, K} by {K, N}, or by {batch, K, N} where b is an activation too."""

    m: int
    k: int
    n: int
    batch: int = 1

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batch * self.m * self.k * self.n

    def __str__(self) -> str:
        """Spell it as batch x M x K x N."""
        return f"{'' if self.batch == 1 else f'{self.batch}x'}{self.m}x{self.k}x{self.n}"


NETWORKS: dict[str, tuple[MatrixShape, ...]] = {
    # Linear layers of a block for 128 tokens, then the products of attention, by head.
    "bert_base": (
        MatrixShape(128, 768, 768),
        MatrixShape(128, 768, 3072),
        MatrixShape(128, 3072, 768),
        MatrixShape(128, 64, 128, 12),
        MatrixShape(128, 128, 64, 12),
    ),
    "bert_large": (
        MatrixShape(384, 1024, 1024),
        MatrixShape(384, 1024, 4096),
        MatrixShape(384, 4096, 1024),
        MatrixShape(384, 64, 384, 16),
    ),
    "vit_b16": (MatrixShape(197, 768, 2304), MatrixShape(197, 768, 3072), MatrixShape(197, 3072, 768)),
    # One token, and a prompt of 128, of a language model of 7 billion parameters.
    "llm_decode": (
        MatrixShape(1, 4096, 4096),
        MatrixShape(1, 4096, 11008),
        MatrixShape(1, 11008, 4096),
        MatrixShape(4, 4096, 4096),
        MatrixShape(8, 4096, 4096),
    ),
    "llm_prefill": (MatrixShape(128, 4096, 4096), MatrixShape(128, 4096, 11008), MatrixShape(128, 11008, 4096)),
    "square": tuple(MatrixShape(size, size, size) for size in (256, 512, 1024, 2048)),
}
"""The products of networks that people run, by name."""


@dataclass(frozen=True)
class MatrixCase:
    """A shape, what it ends in, the types of a and b, whether b is a constant, and data that follow from a seed.

    The output of codes has a's type. Scales of b are one for each column, such that the output's codes spread over
    their range. Zero points are off the middle of a's type and in the middle of b's.
    """

    shape: MatrixShape
    result: Result
    types: str
    is_constant: bool
    seed: int = 1

    a_scale = np.float32(0.02)
    output_scale = np.float32(0.05)

    @property
    def a_type(self) -> np.dtype[Any]:
        """The type of a, and of an output of codes."""
        return CODE_TYPES[self.types][0]

    @property
    def b_type(self) -> np.dtype[Any]:
        """The type of b."""
        return CODE_TYPES[self.types][1]

    @property
    def output_type(self) -> np.dtype[Any]:
        """The type of the output."""
        return {"codes": self.a_type, "sums": np.dtype(np.int32), "floats": np.dtype(np.float32)}[self.result]

    @property
    def batch(self) -> tuple[int, ...]:
        """The batch axes of a and the output."""
        return () if self.shape.batch == 1 else (self.shape.batch,)

    @cached_property
    def a(self) -> NDArray[Any]:
        """Codes, {.., M, K}."""
        return random_codes(self.a_type, (*self.batch, self.shape.m, self.shape.k), (self.seed, 0))

    @cached_property
    def b(self) -> NDArray[Any]:
        """Codes, {.., K, N}."""
        return random_codes(self.b_type, (*self.batch, self.shape.k, self.shape.n), (self.seed, 1))

    @property
    def a_zero_point(self) -> NDArray[Any]:
        """A little off the middle."""
        return np.array(131 if self.a_type == np.uint8 else 3, self.a_type)

    @property
    def b_zero_point(self) -> NDArray[Any]:
        """The middle of the type."""
        return np.array(128 if self.b_type == np.uint8 else 0, self.b_type)

    @property
    def output_zero_point(self) -> NDArray[Any]:
        """A little off the middle."""
        return np.array(120 if self.a_type == np.uint8 else -8, self.a_type)

    @cached_property
    def b_scale(self) -> NDArray[np.float32]:
        """Such that an output is off its zero point by about 40 codes."""
        deviation = 74.0 * 74.0 * np.sqrt(self.shape.k) * float(self.a_scale) / float(self.output_scale)
        spread = np.random.default_rng((self.seed, 2)).uniform(0.7, 1.3, self.shape.n)
        scales: NDArray[np.float32] = (spread * 40.0 / deviation).astype(np.float32)
        return scales

    @property
    def tolerance(self) -> float:
        """How far a peer's results may be off: it scales and rounds in another order."""
        return {"codes": 1.0, "sums": 0.0, "floats": 1e-4}[self.result]

    def prepare(self, device: Device) -> PreparedCall:
        """Compile dmlcpu's operator, b and its parameters owned if they are constants, and bind the rest."""
        tensors: dict[str, NDArray[Any]] = {"a": self.a, "a_zero_point": self.a_zero_point.reshape(1)}
        constants = {"b": self.b, "b_zero_point": np.full(self.shape.n, self.b_zero_point)}
        if self.result != "sums":
            tensors["a_scale"] = self.a_scale.reshape(1)
            constants["b_scale"] = self.b_scale
        if self.result == "codes":
            tensors["output_scale"] = self.output_scale.reshape(1)
            tensors["output_zero_point"] = self.output_zero_point.reshape(1)
        output = np.empty((*self.batch, self.shape.m, self.shape.n), self.output_type)
        flags = TensorFlags.OWNED_BY_DML if self.is_constant else TensorFlags.NONE
        descs = {f"{name}_tensor": TensorDesc.from_array(array) for name, array in tensors.items()}
        descs |= {f"{name}_tensor": TensorDesc.from_array(array, flags=flags) for name, array in constants.items()}
        desc_type: Any = {
            "codes": dmlcpu.QuantizedLinearMatrixMultiplyOperatorDesc,
            "sums": dmlcpu.MatrixMultiplyIntegerOperatorDesc,
            "floats": dmlcpu.MatrixMultiplyIntegerToFloatOperatorDesc,
        }[self.result]
        output_desc = TensorDesc(TensorDataType[self.output_type.name.upper()], output.shape)
        compiled = device.compile_operator(device.create_operator(desc_type(**descs, output_tensor=output_desc)))
        bindings = {f"{name}_tensor": array for name, array in tensors.items()}
        of_b = {f"{name}_tensor": array for name, array in constants.items()}
        if self.is_constant:
            compiled.initialize(**of_b)
        else:
            bindings |= of_b
        return PreparedCall(lambda: compiled.dispatch(**bindings, output_tensor=output), output)
