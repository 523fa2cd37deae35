"""Options of sessions and runs: onnxruntime's names and types, and nothing else."""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest

import dmlcpu
from onnx_models import Builder

MODEL = Path(__file__).parents[1] / "data" / "models" / "keyword_spotting.qop.onnx"


def options_of(given: object) -> dict[str, Any]:
    """The public attributes that are no methods."""
    names = (name for name in dir(given) if name[0] != "_")
    return {name: value for name in names if not callable(value := getattr(given, name))}


def test_session_options_are_those_of_onnxruntime() -> None:
    theirs, ours = options_of(onnxruntime.SessionOptions()), options_of(dmlcpu.SessionOptions())
    del theirs["log_severity_level"], ours["log_severity_level"]  # it is -1 there in some versions, 2 in others
    assert {name: value if isinstance(value, str) else int(value) for name, value in ours.items()} == {
        name: value if isinstance(value, str) else int(value)
        for name, value in theirs.items()
        if name != "execution_order"  # an enumeration of its own, of orders that no native graph has
    }


def test_run_options_are_those_of_onnxruntime() -> None:
    options = dmlcpu.RunOptions()
    assert options_of(options) == options_of(onnxruntime.RunOptions())
    options.add_run_config_entry("key", "value")
    assert options.get_run_config_entry("key") == "value"
    with pytest.raises(AttributeError, match="RunOptions has no option 'tag'"):
        options.tag = "run"  # type: ignore[attr-defined]
    session = dmlcpu.InferenceSession(MODEL)
    feeds = {"input0": np.zeros((1, 50, 10, 1), np.float32)}
    for given in (options, onnxruntime.RunOptions()):
        assert len(session.run(None, feeds, given)) == len(session.run_async(None, feeds, run_options=given).result())
    for wrong in ("options", {"terminate": True}, dmlcpu.RunOptions, dmlcpu.SessionOptions()):
        message = rf"run_options: got an object of type {type(wrong).__name__}, expected None or RunOptions"
        for call in (session.run, session.run_async):
            with pytest.raises(TypeError, match=message):
                call(None, feeds, run_options=wrong)


def test_what_stands_in_for_names_that_are_not_here_is_told() -> None:
    session = dmlcpu.InferenceSession(MODEL)
    instead = "; onnxruntime's is not here: run takes numpy and DLPack arrays, and returns new arrays"
    for holder, name, message in (
        (session, "io_binding", f"InferenceSession has no attribute 'io_binding'{instead}"),
        (session, "scores", "InferenceSession has no attribute 'scores'"),
        (dmlcpu, "OrtValue", f"module 'dmlcpu' has no attribute 'OrtValue'{instead}"),
        (dmlcpu, "Ort", "module 'dmlcpu' has no attribute 'Ort'"),
        (
            dmlcpu.SessionOptions(),
            "add_initializer",
            "SessionOptions has no attribute 'add_initializer'; onnxruntime's is not here: "
            "initializers are those of the file: replace one by onnx's load, numpy_helper.from_array and save",
        ),
    ):
        with pytest.raises(AttributeError) as raised:
            getattr(holder, name)
        assert (str(raised.value), raised.value.name, raised.value.obj) == (message, name, holder)


def test_dmlcpu_in_the_place_of_onnxruntime_runs_no_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Builder()
    builder.output(builder.node("Atanh", [builder.input(np.float32, (3,))]), "float32")
    model = builder.build()
    assert [each.provider for each in dmlcpu.InferenceSession(model).partitions()] == ["onnxruntime"]
    monkeypatch.setitem(sys.modules, "onnxruntime", dmlcpu)
    with pytest.raises(dmlcpu.MissingRuntimeError, match=r"put dmlcpu in onnxruntime.s place"):
        dmlcpu.InferenceSession(model)


def test_providers_that_are_not_available_are_a_warning() -> None:
    expected = f"provider 'CUDA' is not available and ignored; available: {', '.join(dmlcpu.get_available_providers())}"
    with pytest.warns(UserWarning, match="CUDA") as warned:
        session = dmlcpu.InferenceSession(MODEL, providers=[("CUDA", {"device_id": 0}), "CPUExecutionProvider"])
    assert [str(warning.message) for warning in warned] == [expected]
    assert warned[0].filename == __file__
    for providers in (None, [], dmlcpu.get_all_providers(), ("CPUExecutionProvider",), "CPUExecutionProvider"):
        dmlcpu.InferenceSession(MODEL, providers=providers)  # a warning would be an error
    assert session.get_provider_options() == {name: {} for name in session.get_providers()}
    assert session.get_overridable_initializers() == []


def test_arguments_of_onnxruntime_that_have_no_effect() -> None:
    for arguments in ({"disabled_optimizers": ["ConstantFolding"]}, {"enable_fallback": False}):
        onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"], **arguments)
        dmlcpu.InferenceSession(MODEL, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("providers", [5, [5], [()]])
def test_providers_are_a_sequence_of_names(providers: Any) -> None:
    with pytest.raises(TypeError, match=r"^providers: got an object of type .*, expected a"):
        dmlcpu.InferenceSession(MODEL, providers=providers)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("intra_op_threads", "intra_op_num_threads"), ("graph_optimisation_level", "graph_optimization_level")],
)
def test_what_is_no_option_cannot_be_set(name: str, nearest: str) -> None:
    with pytest.raises(AttributeError, match=f"no option '{name}'; the nearest is '{nearest}'"):
        setattr(dmlcpu.SessionOptions(), name, 1)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("graph_optimization_level", 99, "got 99, .* such as GraphOptimizationLevel.ORT_ENABLE_ALL"),
        ("graph_optimization_level", dmlcpu.ExecutionMode.ORT_PARALLEL, "expected a value of type Graph"),
        ("graph_optimization_level", onnxruntime.ExecutionMode.ORT_PARALLEL, "expected a value of type Graph"),
        ("execution_mode", "parallel", "got 'parallel', expected a value of type ExecutionMode"),
        ("intra_op_num_threads", "2", "got '2', expected a value of type int"),
        ("intra_op_num_threads", 2.0, "got 2.0, expected a value of type int"),
        ("enable_profiling", "no", "got 'no', expected a value of type bool"),
        ("logid", 5, "got 5, expected a value of type str"),
        ("logid", None, "an object of type NoneType"),
    ],
)
def test_options_have_types(name: str, value: object, message: str) -> None:
    options = dmlcpu.SessionOptions()
    before = getattr(options, name)
    with pytest.raises(TypeError, match=f"^{name}: .*{message}"):
        setattr(options, name, value)
    assert getattr(options, name) == before


def test_options_take_what_equals_a_value_of_their_type(tmp_path: Path) -> None:
    options = dmlcpu.SessionOptions(intra_op_num_threads=np.int64(2))  # type: ignore[arg-type]
    options.enable_profiling, options.enable_mem_pattern = np.bool_(True), False
    options.optimized_model_filepath = tmp_path  # type: ignore[assignment]
    options.graph_optimization_level = dmlcpu.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    assert options.execution_mode is dmlcpu.ExecutionMode.ORT_PARALLEL
    options.add_session_config_entry("key", "value")
    assert (options.intra_op_num_threads, options.enable_profiling, options.enable_mem_pattern) == (2, True, False)
    assert options.optimized_model_filepath == str(tmp_path)
    unpickled = pickle.loads(pickle.dumps(options))
    assert unpickled == options
    assert unpickled.get_session_config_entry("key") == "value"
    assert dmlcpu.InferenceSession(MODEL, options).device.num_threads == 2


@pytest.mark.parametrize("given", [dmlcpu.SessionOptions, onnxruntime.SessionOptions])
def test_options_that_are_set_later_are_none_of_the_session(given: type[dmlcpu.SessionOptions]) -> None:
    options, providers = given(), ["CPUExecutionProvider"]
    options.intra_op_num_threads = 2
    session = dmlcpu.InferenceSession(MODEL, options, providers)
    options.intra_op_num_threads = 1
    options.add_session_config_entry("key", "value")
    providers.append("Unheard")
    session.get_session_options().intra_op_num_threads = 1
    for opened in (session, pickle.loads(pickle.dumps(session)), copy.deepcopy(session)):  # without a warning
        own = opened.get_session_options()
        assert isinstance(own, dmlcpu.SessionOptions)
        assert (own.intra_op_num_threads, opened.device.num_threads) == (2, 2)
        if type(options) is dmlcpu.SessionOptions:
            with pytest.raises(KeyError):
                own.get_session_config_entry("key")


def test_entries_of_options_are_told() -> None:
    ours, theirs = dmlcpu.SessionOptions(), onnxruntime.SessionOptions()
    for options in (ours, theirs):
        options.add_session_config_entry("key", "value")
        session = dmlcpu.InferenceSession(MODEL, options)
        again = dmlcpu.InferenceSession(MODEL, session.get_session_options())
        for opened in (session, copy.deepcopy(session), again):
            own = opened.get_session_options()
            assert own.get_session_config_entry("key") == "value"
            for key in ("other", 5):
                with pytest.raises(KeyError):
                    own.get_session_config_entry(key)  # type: ignore[arg-type]
            own.add_session_config_entry("other", "of the copy")
            assert own.get_session_config_entry("other") == "of the copy"
    assert pickle.loads(pickle.dumps(session)).get_session_options() == session.get_session_options()


def test_options_of_other_objects_are_checked() -> None:
    given = SimpleNamespace(intra_op_num_threads=2, logid=None, execution_mode=1, log_severity_level=3)
    own = dmlcpu.InferenceSession(MODEL, given).get_session_options()  # type: ignore[arg-type]
    assert own == dmlcpu.SessionOptions(
        intra_op_num_threads=2, execution_mode=dmlcpu.ExecutionMode.ORT_PARALLEL, log_severity_level=3
    )
    for value, got in (("all", "'all'"), (4, "4"), ([], "an object of type list")):
        given.graph_optimization_level = value
        expected = f"^graph_optimization_level: got {got}, expected a value of type GraphOptimizationLevel"
        with pytest.raises(TypeError, match=expected):
            dmlcpu.InferenceSession(MODEL, given)  # type: ignore[arg-type]


def free_model() -> Builder:
    builder = Builder()
    x = builder.input("float32", ("batch", "length", None, 4))
    builder.output(builder.node("Relu", [x]), "float32", ("batch", "length", None, 4))
    return builder


def test_free_lengths_are_given_by_name(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(free_model().build())
    ours, theirs = dmlcpu.SessionOptions(), onnxruntime.SessionOptions()
    for options in (ours, theirs):
        options.add_free_dimension_override_by_name("batch", 2)
        options.add_free_dimension_override_by_name("batch", 3)  # which is too late
        options.add_free_dimension_override_by_name("nothing", 5)
    expected = onnxruntime.InferenceSession(path, theirs, providers=["CPUExecutionProvider"])
    session = dmlcpu.InferenceSession(path, ours)
    for opened in (session, pickle.loads(pickle.dumps(session))):
        for mine, other in (
            (opened.get_inputs(), expected.get_inputs()),
            (opened.get_outputs(), expected.get_outputs()),
        ):
            assert [value.shape[:2] for value in mine] == [value.shape[:2] for value in other] == [[2, "length"]]
        assert opened.run(None, {"x": np.ones((2, 3, 1, 4), np.float32)})[0].shape == (2, 3, 1, 4)
        with pytest.raises(dmlcpu.BindingError, match=r"expected float32 of shape \(2, length, \?, 4\)"):
            opened.run(None, {"x": np.ones((1, 3, 1, 4), np.float32)})
    assert dmlcpu.InferenceSession(path).get_inputs()[0].shape[:2] == ["batch", "length"]


def test_free_lengths_are_given_by_what_they_are_of() -> None:
    builder = free_model()
    axes = builder.inputs[0].type.tensor_type.shape.dim
    axes[0].denotation, axes[2].denotation = "DATA_BATCH", "DATA_FEATURE"
    options = dmlcpu.SessionOptions()
    options.add_free_dimension_override_by_denotation("data_batch", 2)  # as onnxruntime compares them
    options.add_free_dimension_override_by_denotation("", 9)
    options.add_free_dimension_override_by_name("", 9)
    options.add_free_dimension_override_by_denotation("DATA_FEATURE", 7)
    session = dmlcpu.InferenceSession(builder.build(), options)
    assert session.get_inputs()[0].shape == [2, "length", 7, 4]
    assert session.get_outputs()[0].shape[0] == 2
    options.add_free_dimension_override_by_name("length", 5)
    assert pickle.loads(pickle.dumps(session)).get_inputs()[0].shape == [2, "length", 7, 4]


@pytest.mark.parametrize(("axis", "what"), [(0, "batch, which is 3"), (3, "an axis of input 'x', which is 4")])
def test_lengths_that_contradict_others(axis: int, what: str) -> None:
    builder = free_model()
    builder.inputs[0].type.tensor_type.shape.dim[axis].denotation = "DATA_BATCH"
    options = dmlcpu.SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 2)
    options.add_free_dimension_override_by_name("batch", 3)
    with pytest.raises(ValueError, match=f"sess_options: got 2 as DATA_BATCH of {what}"):
        dmlcpu.InferenceSession(builder.build(), options)


def test_a_model_whose_lengths_are_all_given_is_planned_at_once() -> None:
    options = dmlcpu.SessionOptions()
    for name in ("batch", "length"):
        options.add_free_dimension_override_by_name(name, 2)
    builder = Builder()
    builder.output(builder.node("Relu", [builder.input("float32", ("batch", "length"))]), "float32")
    assert len(dmlcpu.InferenceSession(builder.build(), options)._plans.cache) == 1


def test_lengths_that_are_none() -> None:
    options = dmlcpu.SessionOptions()
    for add in (options.add_free_dimension_override_by_name, options.add_free_dimension_override_by_denotation):
        with pytest.raises(ValueError, match=f"{add.__name__}: got -1, expected a length of 0 or more"):
            add("batch", -1)
        with pytest.raises(TypeError, match=f"{add.__name__}: got '3', expected a value of type int"):
            add("batch", "3")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=f"{add.__name__}: got True, expected a length"):
            add("batch", True)
        with pytest.raises(TypeError, match="expected a value of type str"):
            add(3, 3)  # type: ignore[arg-type]
    assert options == dmlcpu.SessionOptions()


def test_providers_are_none_of_the_options() -> None:
    assert dmlcpu.SessionOptions().has_providers() == onnxruntime.SessionOptions().has_providers()


@pytest.mark.parametrize("version", [None, 0, 7])
def test_versions_of_models_are_those_that_onnxruntime_tells(version: int | None) -> None:
    proto = free_model().proto()
    proto.ClearField("model_version")
    if version is not None:
        proto.model_version = version
    model = proto.SerializeToString()
    theirs = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).get_modelmeta()
    assert dmlcpu.InferenceSession(model).get_modelmeta().version == theirs.version
