"""When a session lowers its model: once, if it can."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlcpu
from dmlcpu.onnx.planning import planned_model, templates
from onnx_models import Builder, coded


@pytest.mark.parametrize(
    ("shape", "shapes", "expected"),
    [
        (("batch", 3, "height", "width"), [(1, 3, 8, 8), (1, 3, 16, 24), (2, 3, 8, 8)], ["template"]),
        (("batch", "tokens"), [(2, 7), (2, 9), (3, 7)], ["template"]),
        (None, [(2, 7), (2, 9), (3, 7)], ["template"]),
        (("batch", 3), [(2, 3)], ["plan"]),
        (("batch", 3), [(2, 3), (5, 3), (7, 3)], ["plan", "template"]),
        ((2, 3), [(2, 3), (2, 3)], ["plan"]),
    ],
)
def test_when_a_model_is_lowered(
    shape: Any, shapes: list[tuple[int, ...]], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, for all images and texts; batches are one size in most sessions, and lowered for that one first."""
    lowered: list[str] = []

    def noted(word: str, function: Any) -> Any:
        return lambda *arguments: (lowered.append(word), function(*arguments))[1]

    monkeypatch.setattr(templates, "lowered_model", noted("template", templates.lowered_model))
    monkeypatch.setattr(planned_model, "make_plan", noted("plan", planned_model.make_plan))
    builder = Builder()
    x = coded(builder, builder.input("float32", shape))
    builder.output(coded(builder, builder.node("Sigmoid", [x])), "float32", shape)
    session = dmlcpu.InferenceSession(builder.build())
    for given in shapes:
        assert session.run(None, {"x": np.zeros(given, np.float32)})[0].shape == given
    assert lowered == expected
