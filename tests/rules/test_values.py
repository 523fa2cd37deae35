"""What holds of all classes of values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from dmlcpu.onnx import rules
from dmlcpu.onnx.constant_arrays import Constant
from dmlcpu.onnx.values import Deferred, Dequantized, Table, Tensor, Value


def with_derived(kind: type) -> Iterator[type]:
    yield kind
    for derived in kind.__subclasses__():
        yield from with_derived(derived)


def test_values_are_keys_by_their_identity() -> None:
    assert rules.RULES  # whose modules define most of the classes
    assert {*get_args(Value)} == {Constant, Deferred, Dequantized, Table, Tensor}
    classes = {kind for base in get_args(Value) for kind in with_derived(base)}
    assert len(classes) > 20
    for kind in classes:
        assert kind.__eq__ is object.__eq__, kind
        assert kind.__hash__ is object.__hash__, kind
