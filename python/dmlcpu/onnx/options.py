"""The names that programs for onnxruntime use besides its sessions, so that they run with another import."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, fields
from enum import IntEnum
from functools import cache
from operator import index
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dmlcpu.onnx.absent_names import absent_attribute
from dmlcpu.onnx.models.dimension_overrides import DimensionOverrides
from dmlcpu.shown_values import counted, nearest

__all__ = [
    "ExecutionMode",
    "GraphOptimizationLevel",
    "RunOptions",
    "SessionOptions",
    "check_run_options",
    "checked_options",
    "checked_providers",
    "dimension_overrides",
    "disable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_device",
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


class _CheckedOptions:
    """What is shared by classes of options: only what is an option can be set, and only to a value of its type."""

    if not TYPE_CHECKING:  # to whom all names would be there

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError."""
            raise absent_attribute(type(self).__name__, name, self)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an option.

        Raises:
            AttributeError: There is no such option.
            TypeError: The value is of another type than the option's.
        """
        kind: Any = type(self)
        options = _types_of(kind)
        if name not in options:
            near = nearest(name, (known for known in options if known[0] != "_"))
            told = f"; the nearest is {near!r}" if near else ""
            # Without the object, of whose attributes Python would add the nearest once more.
            raise AttributeError(f"{type(self).__name__} has no option {name!r}{told}", name=name)
        super().__setattr__(name, value if name[0] == "_" else _typed(name, value, options[name]))


@cache
def _types_of(options: type[Any]) -> Mapping[str, type[Any]]:
    """Return the type of each option of a class, by its name."""
    return {option.name: type(option.default) for option in fields(options)}


def _typed(name: str, value: Any, wanted: type[Any]) -> Any:
    """Return the value of an option as one of its type."""
    if isinstance(value, wanted):
        return value
    if wanted is str and isinstance(value, PathLike):
        return fspath(value)
    if wanted is bool and isinstance(value, int | np.bool_) and value in (0, 1):
        return bool(value)
    if wanted is int:
        try:
            return index(value)
        except TypeError:
            pass
    if issubclass(wanted, IntEnum) and type(value).__name__ == wanted.__name__:  # onnxruntime's are not Python's
        try:
            return wanted(int(value))
        except (TypeError, ValueError):
            pass
    members = f", such as {wanted.__name__}.{next(reversed(wanted)).name}" if issubclass(wanted, IntEnum) else ""
    got = repr(value) if isinstance(value, int | float | str) else f"an object of type {type(value).__name__}"
    raise TypeError(f"{name}: got {got}, expected a value of type {wanted.__name__}{members}")


_NO_ENTRY: Final = "no entry {!r} has been added"


class _ForeignEntries:
    """Entries of onnxruntime's own options, which tell those alone that are asked for.

    Copies share the options, which cannot be copied; where they are unpickled there is none.
    """

    def __init__(self, options: Any = None) -> None:
        self._options = options

    def __getitem__(self, key: str) -> str:
        try:
            entry: str = self._options.get_session_config_entry(key)
        except Exception:  # whatever they raise of a key that they have not
            raise KeyError(_NO_ENTRY.format(key)) from None
        return entry

    def __deepcopy__(self, memo: object) -> _ForeignEntries:
        return self

    def __reduce__(self) -> tuple[type[_ForeignEntries], tuple[()]]:
        return type(self), ()


@dataclass
class SessionOptions(_CheckedOptions):
    """How a session runs; onnxruntime's names, and members of its enumerations. What is none of them cannot be set.

    Attributes:
        intra_op_num_threads: Threads of one operator; 0 or less for the device's default.
        inter_op_num_threads, graph_optimization_level, execution_mode, enable_cpu_mem_arena, enable_mem_pattern,
            enable_mem_reuse, enable_profiling, log_severity_level, log_verbosity_level, logid,
            optimized_model_filepath, profile_file_prefix, use_deterministic_compute, use_per_session_threads:
            Accepted, and without effect.

    Raises:
        AttributeError: What is set is no option.
        TypeError: It is set to a value of another type.

    >>> options = SessionOptions()
    >>> options.intra_op_num_threads = 2
    >>> options.intra_op_threads = 2
    Traceback (most recent call last):
    AttributeError: SessionOptions has no option 'intra_op_threads'; the nearest is 'intra_op_num_threads'
    """

    intra_op_num_threads: int = 0
    inter_op_num_threads: int = 0
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_profiling: bool = False
    log_severity_level: int = 2
    log_verbosity_level: int = 0
    logid: str = ""
    optimized_model_filepath: str = ""
    profile_file_prefix: str = "onnxruntime_profile_"
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True
    _entries: dict[str, str] = field(default_factory=dict, repr=False)
    _foreign_entries: _ForeignEntries = field(default_factory=_ForeignEntries, repr=False, compare=False)
    _lengths_by_name: dict[str, int] = field(default_factory=dict, repr=False)
    _lengths_by_denotation: dict[str, int] = field(default_factory=dict, repr=False)

    def add_free_dimension_override_by_name(self, name: str, length: int) -> None:
        """Give a length to the axes that a model has this name for. What was given first counts.

        Sessions that are opened from then on have it; a name that no axis has is without effect.

        Raises:
            TypeError: The name is no str, or the length no integer.
            ValueError: It is below 0.
        """
        name = _typed("name", name, str)
        self._lengths_by_name.setdefault(name, _length("add_free_dimension_override_by_name", length))

    def add_free_dimension_override_by_denotation(self, denotation: str, length: int) -> None:
        """Give a length to the free axes of inputs that a model denotes so, such as ``"DATA_BATCH"``.

        All axes have it that the model has the same name for. A session refuses it with ValueError where the model, or
        an override of that name, says another one.

        Raises:
            TypeError: The denotation is no str, or the length no integer.
            ValueError: It is below 0.
        """
        denotation = _typed("denotation", denotation, str)
        self._lengths_by_denotation.setdefault(denotation, _length("add_free_dimension_override_by_denotation", length))

    def has_providers(self) -> bool:
        """Return whether providers have been added to the options: they are an argument of sessions here."""
        return False

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry; none has an effect."""
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """Return an entry that was added.

        Raises:
            KeyError: No entry has this key.
        """
        return self._entries[key] if key in self._entries else self._foreign_entries[key]


def _length(argument: str, given: Any) -> int:
    if isinstance(given, bool | np.bool_):
        raise TypeError(f"{argument}: got {given}, expected a length")
    length: int = _typed(argument, given, int)
    if not 0 <= length < 1 << 63:
        raise ValueError(f"{argument}: got {length}, expected a length of 0 or more")
    return length


def dimension_overrides(options: SessionOptions) -> DimensionOverrides | None:
    """Return the lengths that options give, None if none."""
    if not (options._lengths_by_name or options._lengths_by_denotation):
        return None
    return DimensionOverrides({**options._lengths_by_name}, {**options._lengths_by_denotation})


def checked_options(options: SessionOptions | None) -> SessionOptions:
    """Return a copy of options, which what becomes of them later does not change; new ones for None.

    Of onnxruntime's own it is without the free lengths, which they do not tell, and asks them for entries.

    Raises:
        TypeError: They are neither None nor ``SessionOptions``, or one of another object's is of another type.
    """
    if options is None:
        return SessionOptions()
    threads = getattr(options, "intra_op_num_threads", None)
    if not isinstance(threads, int) or isinstance(options, type):
        raise TypeError(f"sess_options: got an object of type {type(options).__name__}, expected SessionOptions")
    if isinstance(options, SessionOptions):
        return deepcopy(options)
    own = SessionOptions()
    own._foreign_entries = _ForeignEntries(options)
    for entry in fields(SessionOptions):
        if entry.name[0] != "_" and hasattr(options, entry.name):
            value, wanted = getattr(options, entry.name), type(getattr(own, entry.name))
            if issubclass(wanted, IntEnum):  # onnxruntime's are not Python's
                with suppress(TypeError, ValueError):  # of what is no number either the option tells
                    value = wanted(int(value))
            if value is not None:
                setattr(own, entry.name, value)
    return own


@dataclass
class RunOptions(_CheckedOptions):
    """Options of one run, accepted for onnxruntime's sake: none has an effect. What is none of them cannot be set.

    Raises:
        AttributeError: What is set is no option.
        TypeError: It is set to a value of another type.

    >>> options = RunOptions()
    >>> options.log_severity_level = 3
    >>> options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    """

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False
    _entries: dict[str, str] = field(default_factory=dict, repr=False)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keep an entry; none has an effect."""
        self._entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """Return an entry that was added.

        Raises:
            KeyError: No entry has this key.
        """
        if key not in self._entries:
            raise KeyError(_NO_ENTRY.format(key))
        return self._entries[key]


def check_run_options(options: Any) -> None:
    """Check options of a run, dmlcpu's or onnxruntime's own.

    Raises:
        TypeError: They are none.
    """
    if isinstance(options, type) or not hasattr(options, "only_execute_path_to_fetches"):
        raise TypeError(f"run_options: got an object of type {type(options).__name__}, expected None or RunOptions")


def get_all_providers() -> list[str]:
    """Return the names of all that may run nodes, installed or not, dmlcpu first.

    >>> get_all_providers()
    ['DmlCpuExecutionProvider', 'CPUExecutionProvider']
    """
    return ["DmlCpuExecutionProvider", "CPUExecutionProvider"]


def checked_providers(
    providers: str | Sequence[Any] | None, provider_options: Sequence[Any] | None = None
) -> Sequence[Any] | None:
    """Return a copy of the providers that a session is given, each a name or a name and options; they choose nothing.

    One name alone is taken, too.

    Warns of names that are not known, as onnxruntime does. To be called by what a user calls.

    Raises:
        TypeError: They are no sequence of names.
        ValueError: There are not as many of their options.
    """
    if isinstance(providers, str):
        providers = [providers]
    if not (providers is None or isinstance(providers, Sequence)):
        raise TypeError(f"providers: got an object of type {type(providers).__name__}, expected a sequence of names")
    for provider in providers or ():
        name = provider[0] if isinstance(provider, tuple) and provider else provider
        if not isinstance(name, str):
            raise TypeError(f"providers: got an object of type {type(name).__name__}, expected a name")
        if name not in get_all_providers():
            warnings.warn(
                f"provider {name!r} is not available and ignored; available: {', '.join(get_available_providers())}",
                stacklevel=3,
            )
    if providers and provider_options and len(providers) != len(provider_options):
        count = counted(len(providers), "provider")
        raise ValueError(f"provider_options: got {len(provider_options)}, expected one for each of {count}")
    return None if providers is None else list(providers)


def get_available_providers() -> list[str]:
    """Return the names that ``InferenceSession.get_providers`` may return.

    >>> get_available_providers()[0]
    'DmlCpuExecutionProvider'
    """
    from dmlcpu.onnx.missing_package import has_onnxruntime  # here: who imports dmlcpu may not need what it imports

    foreign = ["CPUExecutionProvider"] if has_onnxruntime() else []
    return ["DmlCpuExecutionProvider", *foreign]


def get_device() -> str:
    """Return the kind of device that sessions run on.

    >>> get_device()
    'CPU'
    """
    return "CPU"


def disable_telemetry_events() -> None:
    """Do what programs ask of onnxruntime: nothing is ever sent to anybody.

    >>> disable_telemetry_events()
    """


def set_default_logger_severity(severity: int) -> None:
    """Accept a level for onnxruntime's sake: nothing is logged.

    >>> set_default_logger_severity(3)
    """
