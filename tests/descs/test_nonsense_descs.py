"""Descs of arbitrary nonsense are refused with a reason, and nothing of theirs runs."""

from __future__ import annotations

import itertools
from dataclasses import fields
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.enums import FeatureLevel, TensorDataType
from dmlcpu.errors import InvalidDescError, UnsupportedFeatureLevelError
from dmlcpu.feature_levels import OPERATORS
from dmlcpu.tensor import TensorDesc
from dmlcpu.validation import validate
from operator_samples import (
    VALID_DESCS,
    changed,
)


class Hostile:
    """Raises whatever is done with it."""

    def refuse(self, *_: object) -> Any:
        raise RuntimeError("hostile")

    __index__ = __int__ = __iter__ = __len__ = __eq__ = __hash__ = __bool__ = __repr__ = __str__ = refuse
    __lt__ = __gt__ = __le__ = __ge__ = __getitem__ = __contains__ = __and__ = __mul__ = refuse


NUMBERS = st.one_of(
    st.integers(-2, 9),
    st.sampled_from([15, 16, 24, 2**31, 2**32 - 1, 2**32, 2**63, 2**64, -(2**40), 10**30]),
    # Too long to be printed, by hypothesis too.
    st.builds(pow, st.just(10), st.just(5000)),
    st.integers(0, 2**33),
)
ODDITIES = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.complex_numbers(),
    st.builds(Hostile),
    st.builds(itertools.count),
    st.builds(iter, st.lists(NUMBERS, max_size=3)),
    st.sampled_from([np.uint8(3), np.float32(2), np.array(2), np.array([[1, 2]]), np.zeros(0), range(10**12), object]),
    st.builds(lambda: np.broadcast_to(np.int64(1), 10**9)),
    st.dictionaries(NUMBERS, NUMBERS, max_size=2),
    st.sets(NUMBERS, max_size=2),
)
SEQUENCES = st.lists(st.one_of(NUMBERS, NUMBERS, NUMBERS, ODDITIES), max_size=10)
ANYTHING = st.one_of(NUMBERS, ODDITIES, SEQUENCES, SEQUENCES.map(tuple))
DATA_TYPES = st.one_of(st.sampled_from(TensorDataType), st.sampled_from(TensorDataType), ANYTHING)
TENSORS: st.SearchStrategy[Any] = st.builds(
    TensorDesc,
    DATA_TYPES,
    st.one_of(SEQUENCES, ANYTHING),
    strides=st.one_of(st.none(), SEQUENCES, ANYTHING),
    flags=st.one_of(st.integers(-1, 2), ANYTHING),
    total_tensor_size_in_bytes=st.one_of(st.none(), ANYTHING),
    guaranteed_base_offset_alignment=st.one_of(st.just(0), ANYTHING),
)


def nearly(value: Any) -> st.SearchStrategy[Any]:
    """A tensor desc with one of its arguments replaced, or anything."""
    if not isinstance(value, TensorDesc):
        return st.one_of(ANYTHING, TENSORS)
    arguments = {field.name: getattr(value, field.name) for field in fields(value)}
    replaced = st.tuples(st.sampled_from(sorted(arguments)), ANYTHING).map(lambda change: arguments | dict([change]))
    return st.one_of(replaced.map(lambda changed_arguments: TensorDesc(**changed_arguments)), TENSORS, ANYTHING)


@st.composite
def nonsense_descs(draw: st.DrawFn) -> OperatorDesc:
    """A valid desc with some fields, often a few, seldom all, replaced by anything at all."""
    desc = draw(st.sampled_from(list(VALID_DESCS.values())))
    names = [field.name for field in fields(desc)]
    replaced = draw(st.one_of(st.lists(st.sampled_from(names), max_size=2), st.just(names)))
    return changed(desc, **{name: draw(nearly(getattr(desc, name))) for name in replaced})


@settings(max_examples=max(200, settings().max_examples))
@given(desc=nonsense_descs(), level=st.sampled_from(FeatureLevel))
def test_nonsense_is_refused_with_a_reason_and_never_anything_else(desc: OperatorDesc, level: FeatureLevel) -> None:
    refusal: InvalidDescError | UnsupportedFeatureLevelError
    try:
        validate(desc, level)
    except (InvalidDescError, UnsupportedFeatureLevelError) as error:
        refusal = error
    else:
        return
    names: list[str | None] = [field.name for field in OPERATORS[desc.operator_type].fields]
    assert refusal.operator is desc.operator_type
    assert refusal.field in (names if isinstance(refusal, InvalidDescError) else [None, *names])
    assert len(str(refusal)) < 400
