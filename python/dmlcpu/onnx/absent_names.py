"""What onnxruntime and DirectML call otherwise, or dmlcpu has not, and what takes its place: told who asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["INSTEAD", "OF_DIRECTML", "absent_attribute"]

_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "`run` takes numpy and DLPack arrays, and returns new arrays": (
        "IOBinding",
        "OrtAllocatorType",
        "OrtDevice",
        "OrtMemType",
        "OrtMemoryInfo",
        "OrtValue",
        "SessionIOBinding",
        "SparseTensor",
        "copy_tensors",
        "create_ortvalue_from_shape_and_type",
        "get_input_epdevices",
        "get_input_memory_infos",
        "get_output_memory_infos",
        "io_binding",
        "run_with_iobinding",
        "run_with_ort_values",
        "run_with_ortvaluevector",
    ),
    "`session.profile(path, feeds)` writes a trace": ("end_profiling", "get_profiling_start_time_ns"),
    "dmlcpu runs what it can, and `session.partitions()` tells who runs what": (
        "OrtEpDevice",
        "add_provider",
        "add_provider_for_devices",
        "clear_ep_context_data_read_func",
        "disable_fallback",
        "enable_fallback",
        "get_ep_devices",
        "get_provider_graph_assignment_info",
        "get_tuning_results",
        "preload_dlls",
        "register_execution_provider_library",
        "set_ep_context_data_read_func",
        "set_ep_dynamic_options",
        "set_provider_selection_policy",
        "set_provider_selection_policy_delegate",
        "set_providers",
        "set_tuning_results",
        "unregister_execution_provider_library",
    ),
    "a session opens the model as its file is": (
        "LoraAdapter",
        "ModelCompiler",
        "add_active_adapter",
        "add_external_initializers",
        "add_external_initializers_from_files_in_memory",
        "release_captured_graph",
        "set_load_cancellation_flag",
    ),
    "initializers are those of the file: replace one by onnx's `load`, `numpy_helper.from_array` and `save`": (
        "add_initializer",
    ),
    "custom operators are not supported: express them by ONNX's operators, or as functions of the model": (
        "register_custom_ops_library",
    ),
    "nothing is ever sent to anybody": ("enable_telemetry_events",),
    "`SessionOptions.intra_op_num_threads`, or the environment variable `DMLCPU_NUM_THREADS`": (
        "set_global_thread_pool_sizes",
    ),
    "the environment variable `DMLCPU_VERBOSE` prints plans; nothing else is logged": (
        "set_default_logger_callback",
        "set_default_logger_verbosity",
    ),
    "`dmlcpu.__version__`, `dmlcpu.info()`": ("get_build_info", "get_version_string"),
    "results do not depend on chance, but for operators of chance that onnxruntime runs": ("set_seed",),
    "keep onnxruntime for quantizing: sessions open what it writes": ("datasets", "quantization", "tools"),
    "nothing takes its place: use the names of the package itself": ("capi",),
}

INSTEAD: Final[Mapping[str, str]] = {name: place for place, names in _PLACES.items() for name in names}
"""What to use, by the name that onnxruntime has for what is not here."""

OF_DIRECTML: Final[Mapping[str, str]] = {
    "DMLCreateDevice": "`Device(feature_level)`",
    "DMLCreateDevice1": "`Device(feature_level)`",
    "IDMLDevice": "`Device`",
    "IDMLOperator": "`Operator`, made by `device.create_operator(desc)`",
    "IDMLCompiledOperator": "`CompiledOperator`, made by `device.compile_operator(operator)`",
    "IDMLOperatorInitializer": "`compiled.initialize(...)`, once, where inputs are flagged OWNED_BY_DML",
    "IDMLBindingTable": "the keywords of `initialize` and `dispatch`, which take arrays",
    "IDMLCommandRecorder": "`compiled.dispatch(...)`, which has run when it returns",
    "DML_BUFFER_TENSOR_DESC": "`TensorDesc(data_type, sizes)`",
    "DML_TENSOR_DESC": "`TensorDesc(data_type, sizes)`",
    "DML_TENSOR_DATA_TYPE": "`TensorDataType`",
    "DML_OPERATOR_DESC": "`OperatorDesc`, whose classes are the operators",
    "DML_FEATURE_LEVEL": "`FeatureLevel`",
    "DML_GRAPH_DESC": "`GraphDesc`, for `device.compile_graph(desc)`",
    "DMLX": "`GraphBuilder` and `input_tensor`: functions called on expressions add operators",
}
"""What things are here, by DirectML's names for them."""


def absent_attribute(owner: str, name: str, holder: Any) -> AttributeError:
    """Return the error of asking for an attribute that is not there.

    Args:
        owner: Who was asked, for the message.
        name: The attribute.
        holder: The object that was asked.
    """
    told = ""
    if place := INSTEAD.get(name):
        told = f"; onnxruntime's is not here: {place.replace('`', '')}"
    elif place := OF_DIRECTML.get(name):
        told = f"; DirectML's is here: {place.replace('`', '')}"
    return AttributeError(f"{owner} has no attribute {name!r}{told}", name=name, obj=holder)
