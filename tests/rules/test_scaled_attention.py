"""ONNX's own Attention against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pytest

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime

Mask = Callable[[np.random.Generator, int, int], Any]


def conditions(random: np.random.Generator, queries: int, keys: int) -> Any:
    """What each query attends to, itself or the first key at least."""
    shown = random.random((queries, keys)) < 0.6
    shown[:, 0] = True
    return shown


def addends(random: np.random.Generator, queries: int, keys: int) -> Any:
    return random.normal(size=(1, 1, queries, keys)).astype(np.float32)


def padded_before(random: np.random.Generator, queries: int, keys: int) -> Any:
    """Of rows that begin with padding: in order the first queries attend to nothing."""
    return np.broadcast_to(np.arange(keys) >= 2, (queries, keys)).copy()


def infinite(random: np.random.Generator, queries: int, keys: int) -> Any:
    return np.where(padded_before(random, queries, keys), np.float32(0.5), np.float32(-np.inf))


def of_images(random: np.random.Generator, queries: int, keys: int) -> Any:
    return random.normal(size=(2, 1, queries, keys)).astype(np.float32)


@dataclass(frozen=True)
class Case:
    queries: int = 5
    keys: int = 5
    heads: int = 4
    groups: int = 4
    size: int = 16
    size_of_values: int = 16
    past: int = 0
    in_columns: bool = False
    mask: Mask | None = None
    attributes: tuple[tuple[str, float], ...] = ()

    def model(self, random: np.random.Generator) -> tuple[bytes, dict[str, Any]]:
        builder = Builder(23)
        feeds: dict[str, Any] = {}

        def fed(name: str, array: Any) -> str:
            feeds[name] = array
            return builder.input(array.dtype, array.shape, name)

        def floats(name: str, heads: int, rows: int, size: int) -> str:
            shape = (2, rows, heads * size) if self.in_columns else (2, heads, rows, size)
            return fed(name, random.normal(size=shape).astype(np.float32))

        inputs = [
            floats("query", self.heads, self.queries, self.size),
            floats("key", self.groups, self.keys, self.size),
            floats("value", self.groups, self.keys, self.size_of_values),
        ]
        mask = None if self.mask is None else self.mask(random, self.queries, self.past + self.keys)
        inputs.append("" if mask is None else fed("mask", mask))
        for name, size in (("past_key", self.size), ("past_value", self.size_of_values)):
            past = random.normal(size=(2, self.groups, self.past, size)).astype(np.float32)
            inputs.append(fed(name, past) if self.past else "")
        attributes: dict[str, float] = dict(self.attributes)
        if self.in_columns:
            attributes |= {"q_num_heads": self.heads, "kv_num_heads": self.groups}
        results = builder.node("Attention", inputs, 3 if self.past else 1, **attributes)
        for name in results if self.past else [results]:
            builder.output(name, "float32")
        return builder.build(), feeds


CASES: Final = {
    "plain": Case(),
    "columns": Case(in_columns=True),
    "groups": Case(groups=2),
    "groups of columns": Case(groups=2, keys=7, size_of_values=8, in_columns=True),
    "conditions": Case(mask=conditions),
    "addends": Case(mask=addends, keys=9),
    "addends of images": Case(mask=of_images),
    "in order": Case(attributes=(("is_causal", 1),)),
    "in order, more keys": Case(keys=8, attributes=(("is_causal", 1),)),
    "in order after a past": Case(queries=2, keys=2, past=3, attributes=(("is_causal", 1),)),
    "in order with addends": Case(mask=addends, attributes=(("is_causal", 1),)),
    "in order after padding": Case(mask=padded_before, attributes=(("is_causal", 1),)),
    "in order after infinite addends": Case(mask=infinite, attributes=(("is_causal", 1),)),
    "next token": Case(queries=1, keys=1, past=4, groups=2),
    "next token with conditions": Case(queries=1, keys=1, past=4, mask=conditions),
    "scale": Case(attributes=(("scale", 0.3),)),
    "capped": Case(attributes=(("softcap", 2.0),)),
}


@pytest.mark.parametrize("name", CASES)
def test_attention(random_numbers: np.random.Generator, name: str) -> None:
    assert_like_onnxruntime(*CASES[name].model(random_numbers))


def test_capped_scores_with_a_mask_go_to_onnxruntime(random_numbers: np.random.Generator) -> None:
    """Versions of the operator differ in what comes first."""
    model, feeds = Case(mask=addends, attributes=(("softcap", 2.0),)).model(random_numbers)
    session = dmlcpu.InferenceSession(model)
    assert [partition.provider for partition in session.partitions()] == ["onnxruntime"]
    assert np.isfinite(session.run(None, feeds)[0]).all()


def test_no_number_is_none_behind_a_mask(random_numbers: np.random.Generator) -> None:
    """What is 0 is what all keys are hidden from, not what is no number."""
    model, feeds = Case(mask=addends).model(random_numbers)
    feeds["query"][0, 1, 2, 3] = np.nan
    [result] = dmlcpu.InferenceSession(model).run(None, feeds)
    assert np.isnan(result[0, 1, 2]).all()
    assert np.isnan(result).sum() == result.shape[-1]


@pytest.mark.parametrize("attributes", [(("scale", 0.0),), (("scale", -1.0),)])
def test_scales_that_are_none(random_numbers: np.random.Generator, attributes: Any) -> None:
    """Other runtimes say what they are, or what is wrong with them."""
    model, _ = Case(attributes=attributes).model(random_numbers)
    assert "dmlcpu" not in {partition.provider for partition in dmlcpu.InferenceSession(model).partitions()}


def test_masks_of_fewer_keys_are_not_repeated(random_numbers: np.random.Generator) -> None:
    model, feeds = Case(mask=lambda random, queries, keys: np.zeros((queries, 1), np.float32)).model(random_numbers)
    with pytest.raises(dmlcpu.InvalidModelError):
        dmlcpu.InferenceSession(model).run(None, feeds)


def test_no_new_keys(random_numbers: np.random.Generator) -> None:
    model, feeds = Case(queries=2, keys=0, past=3).model(random_numbers)
    with pytest.raises(dmlcpu.InvalidModelError, match="Attention"):
        dmlcpu.InferenceSession(model).run(None, feeds)
