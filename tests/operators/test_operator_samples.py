"""Every operator has all that tests over all operators need, so that none of them passes it by."""

from __future__ import annotations

import importlib
import re

import numpy as np
import pytest

import dmlcpu
import reference
from bound_arrays import compiled
from conftest import SEED
from dispatching import operator_desc
from dmlcpu.enums import OperatorType
from dmlcpu.feature_levels import OPERATORS
from dmlcpu.schema import HIGHEST_FEATURE_LEVEL
from dmlcpu.validation import validate
from operator_samples import SAMPLES
from operator_samples.sample import OperatorSample

each_operator = pytest.mark.parametrize("operator", OperatorType, ids=lambda operator: operator.name)
each_sample = pytest.mark.parametrize("sample", SAMPLES.values(), ids=lambda sample: sample.operator.name)


@each_operator
def test_every_operator_has_a_table_and_a_sample(operator: OperatorType) -> None:
    assert operator in OPERATORS, f"{operator.name} has no table: add it to the file of its kind in feature_levels"
    assert operator in SAMPLES, f"{operator.name} has no sample: add it to the file of its kind in operator_samples"


@each_operator
def test_every_operator_is_public_and_has_a_reference(operator: OperatorType) -> None:
    """Of the names that DirectML's name gives them."""
    words = [word.title() for word in operator.name.split("_")]
    name = reference.function_name(operator.name)
    for public in ("".join(words) + "OperatorDesc", name):
        assert public in dmlcpu.__all__, f"{operator.name}: dmlcpu/__init__.py lacks {public}"
    module = importlib.import_module(f"reference.{name}")
    assert reference.output_fields(operator.name) == module.OUTPUTS
    assert callable(getattr(module, name))


@each_sample
def test_descs_are_accepted_from_the_documented_level_on(sample: OperatorSample) -> None:
    validate(sample.desc, sample.introduced)
    for desc in (sample.large, *sample.others):
        assert desc.operator_type is sample.operator
        validate(desc, HIGHEST_FEATURE_LEVEL)


@each_sample
def test_large_descs_are_worth_two_threads(sample: OperatorSample) -> None:
    told = compiled(dmlcpu.Device(num_threads=2), sample.large).describe()
    assert re.search(r"on 2 threads|^threads: (at most )?2 of 2\b", told, re.MULTILINE), told


@each_sample
@pytest.mark.parametrize("length", [1, 7])
def test_cases_are_of_the_operator_and_of_accepted_descs(sample: OperatorSample, length: int) -> None:
    cases = list(sample.cases(np.random.default_rng(SEED), length))
    assert len(cases) >= 4
    for case in cases:
        assert case.operator == sample.operator.name
        validate(operator_desc(case), HIGHEST_FEATURE_LEVEL)
