"""The names that programs for onnxruntime use besides its sessions, so that they run with another import."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import IntEnum

__all__ = [
    "ExecutionMode",
    "GraphOptimizationLevel",
    "SessionOptions",
    "checked_options",
    "get_available_providers",
    "get_device",
    "picklable_options",
    "set_default_logger_severity",
]


class GraphOptimizationLevel(IntEnum):
    """Accepted for onnxruntime's sake: no optimization changes a result, so all are always on."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Accepted for onnxruntime's sake: the operators of a model run one after the other."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


@dataclass
class SessionOptions:
    """How a session runs; onnxruntime's names.

    Attributes:
        intra_op_num_threads: Threads of one operator; 0 for the device's default.
        inter_op_num_threads, graph_optimization_level, execution_mode, enable_cpu_mem_arena, enable_mem_pattern,
            enable_profiling, log_severity_level, log_verbosity_level, logid, optimized_model_filepath: Accepted, and
            without effect.

    >>> options = SessionOptions()
    >>> options.intra_op_num_threads = 2
    """

    intra_op_num_threads: int = 0
    inter_op_num_threads: int = 0
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_profiling: bool = False
    log_severity_level: int = 2
    log_verbosity_level: int = 0
    logid: str = ""
    optimized_model_filepath: str = ""
    _entries: dict[str, str] = field(default_factory=dict, repr=False)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry; none has an effect."""
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """Return an entry that was added.

        Raises:
            KeyError: There is none.
        """
        return self._entries[key]


def checked_options(options: SessionOptions | None) -> SessionOptions:
    """Return options as they are given, onnxruntime's own too; new ones for None.

    Raises:
        TypeError: They are none.
    """
    if options is None:
        return SessionOptions()
    threads = getattr(options, "intra_op_num_threads", None)
    if not isinstance(threads, int) or isinstance(options, type):
        raise TypeError(f"sess_options: got an object of type {type(options).__name__}, expected SessionOptions")
    return options


def picklable_options(options: SessionOptions) -> SessionOptions:
    """Return options that pickle: onnxruntime's own do not. Entries that were added to those are left out."""
    if isinstance(options, SessionOptions):
        return options
    own = SessionOptions()
    for entry in fields(SessionOptions):
        if entry.name[0] != "_" and hasattr(options, entry.name):
            value = getattr(options, entry.name)
            default = getattr(own, entry.name)
            # onnxruntime's enumerations are not Python's.
            setattr(own, entry.name, type(default)(int(value)) if isinstance(default, IntEnum) else value)
    return own


def get_available_providers() -> list[str]:
    """Return the names that ``InferenceSession.get_providers`` may return.

    >>> get_available_providers()[0]
    'DmlCpuExecutionProvider'
    """
    from importlib.util import find_spec

    foreign = ["CPUExecutionProvider"] if find_spec("onnxruntime") is not None else []
    return ["DmlCpuExecutionProvider", *foreign]


def get_device() -> str:
    """Return the kind of device that sessions run on.

    >>> get_device()
    'CPU'
    """
    return "CPU"


def set_default_logger_severity(severity: int) -> None:
    """Accept a level for onnxruntime's sake: nothing is logged."""
