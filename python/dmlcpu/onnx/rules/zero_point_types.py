"""Zero points are of the type of their codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.refusals import NotValid
from dmlcpu.onnx.values import Value, element_type

__all__ = ["check_zero_points"]

_OWN: Final = "com.microsoft"
_OF_ONE_INPUT: Final = ((0, 2), (0, 4))
_OF_TWO_INPUTS: Final = ((0, 2), (3, 5), (0, 3), (0, 7))
# Places of inputs that are of one type, by domain and operator.
_PLACES: Final[Mapping[tuple[str, str], Sequence[tuple[int, int]]]] = {
    ("", "DequantizeLinear"): ((0, 2),),
    ("", "QLinearConv"): ((0, 2), (3, 5)),
    ("", "QLinearMatMul"): ((0, 2), (3, 5)),
    ("", "ConvInteger"): ((0, 2), (1, 3)),
    ("", "MatMulInteger"): ((0, 2), (1, 3)),
    (_OWN, "DequantizeLinear"): ((0, 2),),
    (_OWN, "DynamicQuantizeMatMul"): ((1, 3),),
    (_OWN, "MatMulIntegerToFloat"): ((0, 4), (1, 5)),
    (_OWN, "QAttention"): ((0, 6), (1, 7)),
    (_OWN, "QGemm"): ((0, 2), (3, 5)),
    (_OWN, "QLinearAdd"): _OF_TWO_INPUTS,
    (_OWN, "QLinearAveragePool"): _OF_ONE_INPUT,
    (_OWN, "QLinearGlobalAveragePool"): _OF_ONE_INPUT,
    (_OWN, "QLinearLeakyRelu"): _OF_ONE_INPUT,
    (_OWN, "QLinearMul"): _OF_TWO_INPUTS,
    (_OWN, "QLinearReduceMean"): _OF_ONE_INPUT,
    (_OWN, "QLinearSigmoid"): _OF_ONE_INPUT,
    (_OWN, "QLinearSoftmax"): _OF_ONE_INPUT,
    (_OWN, "QLinearWhere"): ((1, 3), (4, 6), (1, 4), (1, 8)),
}


def _places(node: Node) -> Sequence[tuple[int, int]]:
    operator = node.domain, node.operator
    if operator == (_OWN, "QLinearConcat"):  # behind the result's parameters, those of each part
        return [(codes, codes + 2) for codes in range(2, len(node.inputs), 3)]
    return _PLACES.get(operator, ())


def check_zero_points(node: Node, inputs: Sequence[Value | None]) -> None:
    """Check that codes and zero points that a node reads are of one type.

    Raises:
        NotValid: Some are not.
    """
    for first, second in _places(node):
        if second < len(inputs) and (codes := inputs[first]) is not None and (other := inputs[second]) is not None:
            wanted, got = element_type(codes), element_type(other)
            if wanted != got and wanted.kind in "iu" and got.kind in "iu":
                raise NotValid(f"got {got} for its input {second}, expected {wanted}, as its input {first} is")
