"""What sessions and their options tell of arguments that are nearly right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

import dmlcpu


def model_of(inputs: str, body: str, output: str) -> bytes:
    imports = '<ir_version: 8, opset_import: ["" : 17]>'
    model: bytes = onnx.parser.parse_model(f"{imports} g ({inputs}) => ({output}) {body}").SerializeToString()
    return model


NCHW = model_of("float[1, 3, 6, 5] x", "{ y = Relu(x) }", "float[1, 3, 6, 5] y")
NHWC = model_of("float[N, 6, 5, 3] x", "{ y = Relu(x) }", "float[N, 6, 5, 3] y")


@pytest.mark.parametrize(
    ("model", "shape", "told"),
    [
        (NCHW, (3, 6, 5), "; x[np.newaxis] adds the first axis"),
        (NHWC, (6, 5, 3), "; x[np.newaxis] adds the first axis"),
        (NCHW, (1, 6, 5, 3), "; x.transpose(0, 3, 1, 2) has the axes that are expected"),
        (NHWC, (2, 3, 6, 5), "; x.transpose(0, 2, 3, 1) has the axes that are expected"),
        (NCHW, (6, 5, 3), "; x[np.newaxis].transpose(0, 3, 1, 2) has the axes that are expected"),
        (NCHW, (1, 3, 5, 6), ""),
        (NCHW, (2, 3, 6, 5), ""),
        (NCHW, (6, 5), ""),
    ],
)
def test_axes_that_are_missing_or_elsewhere(model: bytes, shape: Sequence[int], told: str) -> None:
    session = dmlcpu.InferenceSession(model)
    x = np.zeros(shape, np.float32)
    with pytest.raises(dmlcpu.BindingError) as raised:
        session.run(None, {"x": x})
    assert str(raised.value).partition(";")[1:] == tuple(told.partition(";")[1:])
    if told:
        made = eval(told[2:].partition(" ")[0] if "transpose" not in told else told[2 : told.rindex(")") + 1])
        assert session.run(None, {"x": made})[0].shape == made.shape


def test_inputs_of_a_model_without_any() -> None:
    session = dmlcpu.InferenceSession(model_of("", "<float[2] c = {1, 2}> { y = Relu(c) }", "float[2] y"))
    with pytest.raises(dmlcpu.BindingError, match=r"^got input 'x', expected none: the model has no inputs$"):
        session.run(None, {"x": np.zeros(1)})


def test_shapes_of_one_axis_are_told_as_python_has_them() -> None:
    session = dmlcpu.InferenceSession(model_of("float[4] x", "{ y = Relu(x) }", "float[4] y"))
    with pytest.raises(dmlcpu.BindingError, match=r"got float32 of shape \(3,\), expected float32 of shape \(4,\)$"):
        session.run(None, {"x": np.zeros(3, np.float32)})


def test_a_number_of_threads_is_told_by_the_name_of_the_option() -> None:
    options = dmlcpu.SessionOptions()
    options.intra_op_num_threads = 100_000
    expected = r"^intra_op_num_threads=100000; expected a number of threads from 1 to 1024, or 0 for all processors$"
    with pytest.raises(ValueError, match=expected):
        dmlcpu.InferenceSession(NCHW, options)


def test_options_for_each_provider() -> None:
    providers = ["CPUExecutionProvider"]
    dmlcpu.InferenceSession(NCHW, providers=providers, provider_options=[{}])
    with pytest.raises(ValueError, match=r"^provider_options: got 2, expected one for each of 1 provider$"):
        dmlcpu.InferenceSession(NCHW, providers=providers, provider_options=[{}, {}])


def test_entries_that_have_not_been_added() -> None:
    with pytest.raises(KeyError, match=r"no entry 'other' has been added"):
        dmlcpu.SessionOptions().get_session_config_entry("other")
    with pytest.raises(KeyError, match=r"no entry 'other' has been added"):
        dmlcpu.RunOptions().get_run_config_entry("other")


def test_inputs_are_hashable() -> None:
    session = dmlcpu.InferenceSession(NCHW)
    assert len({*session.get_inputs(), *session.get_inputs(), *session.get_outputs()}) == 2


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("enable_telemetry_events", "nothing is ever sent to anybody"),
        ("set_seed", "results do not depend on chance, but for operators of chance that onnxruntime runs"),
    ],
)
def test_what_onnxruntime_has_besides(name: str, told: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(dmlcpu, name)
    assert str(raised.value) == f"module 'dmlcpu' has no attribute {name!r}; onnxruntime's is not here: {told}"
