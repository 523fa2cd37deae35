"""Sessions and their inputs, from the arguments of a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import dmlcpu
from dmlcpu.cli.images import PixelScaling, read_image
from dmlcpu.descriptions import NodeArg
from dmlcpu.errors import BindingError, DmlError
from dmlcpu.onnx.input_shapes import complete_shapes, fits, shape_told

if TYPE_CHECKING:
    from dmlcpu.onnx.session import InferenceSession

__all__ = [
    "chosen_device",
    "chosen_values",
    "complete_feeds",
    "fixed_shapes",
    "opened_session",
    "random_array",
    "read_feeds",
    "require_all",
    "require_tensors",
]


def opened_session(model: Path, isa: str, threads: int) -> InferenceSession:
    """Open a model on a device of an instruction set ("" for the best) and a number of threads (0 for all)."""
    return dmlcpu.InferenceSession(model, device=chosen_device(isa, threads))


def chosen_device(isa: str, threads: int) -> dmlcpu.Device:
    """Return a device of an instruction set ("" for the best) and a number of threads (0 for all).

    Raises:
        DmlError: One of them cannot be had; it may be an environment variable that asks for it.
    """
    try:
        return dmlcpu.Device(isa=isa or None, num_threads=threads or None)
    except DmlError:
        raise
    except ValueError as error:
        raise DmlError(str(error)) from None


def fixed_shapes(
    inputs: Sequence[NodeArg],
    given: Sequence[str] | None,
    batch: int = 1,
    feeds: Mapping[str, NDArray[Any]] | None = None,
) -> dict[str, tuple[int, ...]]:
    """Return a shape for each input: what ``--shape`` says, else the batch where the first length is free, and 1.

    Lengths that the model gives one name are as long.

    Args:
        inputs: Of a model.
        given: What ``--shape`` says.
        batch: What ``--batch`` says.
        feeds: What ``--input`` says: shapes that fit count before all else, others are left to a run to refuse.

    Raises:
        BindingError: An input is unknown, or its shape in the model is another.
        DmlError: An option cannot be read.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for option in given or ():
        name, text = _named(option, inputs, "--shape")
        try:
            shapes[name] = tuple(int(length) for length in text.split(","))
        except ValueError:
            raise DmlError(f"--shape {option}: expected lengths with commas between them") from None
    # What has no axes, and what may have any, are told alike: the session knows which it is.
    declared = {value.name: value.shape or None for value in inputs}
    for name, array in (feeds or {}).items():
        shapes.pop(name, None)
        if fits(array.shape, declared[name]):  # else a run refuses it, and tells the type as well
            shapes[name] = array.shape
    shapes = complete_shapes(declared, shapes, batch)
    if batch != 1 and all(shape[:1] != (batch,) for shape in shapes.values()):
        left = " that --shape does not give" if given else ""
        raise DmlError(f"--batch {batch}: no input of the model has a free first length{left}")
    return shapes


def chosen_values(session: InferenceSession, given: Sequence[str] | None) -> dict[str, int]:
    """Return what ``--value`` says of inputs that decide which branches run.

    Raises:
        BindingError: It is said of another input.
        DmlError: An option cannot be read.
    """
    inputs = [value for value in session.get_inputs() if value.name in session.deciding_inputs]
    values = {}
    for option in given or ():
        if not inputs:
            raise BindingError(f"--value {option}: no input of the model decides which branch of an If runs")
        name, text = _named(option, inputs, "--value")
        try:
            values[name] = int(text)
        except ValueError:
            raise DmlError(f"--value {option}: expected a number, 0 or 1 of a condition") from None
    return values


def _named(option: str, inputs: Sequence[NodeArg], kind: str = "") -> tuple[str, str]:
    """Split NAME=VALUE, of an option or without one; the name may be left out where there is one input."""
    names = [value.name for value in inputs]
    for name in names:  # a name, and a path, may hold a "=" itself
        if option.startswith(f"{name}="):
            return name, option[len(name) + 1 :]
    if len(names) == 1 and "=" not in option:
        return names[0], option
    told = f"{kind} {option}".lstrip()
    if not names:
        raise BindingError(f"{told}: the model has no inputs")
    if kind == "--value" or "=" not in option:
        raise BindingError(f"{told}: expected NAME=..., with a name of {', '.join(names)}")
    raise BindingError(f"{told}: the model has no input {option.partition('=')[0]!r}; its inputs: {', '.join(names)}")


def _dtype(value: NodeArg) -> np.dtype[Any] | None:
    """Return the type of an input's elements, or None where numpy has none of a fixed size, as of strings."""
    from dmlcpu.onnx.type_names import tensor_dtype  # here: it imports onnx, which a session has imported

    dtype = tensor_dtype(value.type)
    return None if dtype is None or dtype.kind == "O" else dtype


def read_feeds(
    inputs: Sequence[NodeArg], given: Sequence[str] | None, files: Sequence[str] | None, scaling: PixelScaling
) -> dict[str, NDArray[Any]]:
    """Return the arrays of ``--input``, and of what is given without it, by name.

    Raises:
        BindingError: An input is unknown, or no image.
        DmlError: A file is neither an array nor an image, or pixels are scaled and none is an image.
        OSError: A file cannot be read.
    """
    feeds = {}
    has_images = False
    named = [_named(option, inputs, "--input") for option in given or ()]
    for name, text in (*named, *(_named(option, inputs) for option in files or ())):
        if name in feeds:
            raise BindingError(f"input {name!r} is given twice", name)
        [value] = [value for value in inputs if value.name == name]
        path = Path(text)
        if path.suffix == ".npy":
            feeds[name] = _read_array(path)
        elif path.suffix == ".npz":
            feeds[name] = _read_from_archive(path, name)
        elif path.suffix == ".pb":
            feeds[name] = _read_tensor(path)
        else:
            has_images = True
            dtype = _dtype(value)
            if dtype is None:
                raise BindingError(f"input {name!r}: images become uint8, int8 or floats, not {value.type}", name)
            feeds[name] = read_image(path, name, value.shape, dtype, scaling)
    if scaling != PixelScaling() and not has_images:
        raise DmlError("--scale, --mean and --std are of images, and none is given")
    return feeds


def require_all(inputs: Sequence[NodeArg], feeds: Mapping[str, NDArray[Any]]) -> None:
    """Check that no input is missing.

    Raises:
        BindingError: One is; the message says how to give it.
    """
    for value in inputs:
        if value.name not in feeds:
            dtype = _dtype(value)
            elements = value.type if dtype is None else str(dtype)
            expected = f"{elements} of shape {shape_told(value.shape)}"
            message = f"got no input {value.name!r}, expected {expected}: --input {value.name}=FILE"
            raise BindingError(f"{message}, a .npy, .npz or .pb file or an image", value.name)


def require_tensors(outputs: Sequence[NodeArg]) -> None:
    """Check that outputs are arrays, which can be written and compared.

    Raises:
        DmlError: One is a sequence or a map.
    """
    for value in outputs:
        if not value.type.startswith("tensor("):
            raise DmlError(
                f"output {value.name!r}: got {value.type}, expected a tensor; a session in Python returns it"
            )


def _read_array(path: Path) -> NDArray[Any]:
    """Read a .npy file, and nothing else that numpy.load takes for one, such as an archive of several."""
    try:
        with path.open("rb") as file:
            return np.asarray(np.lib.format.read_array(file, allow_pickle=False))
    except (OSError, MemoryError):
        raise
    except Exception as error:  # of many types on damaged files
        raise DmlError(f"{path}: it cannot be read as a .npy file: {error}") from None


def _read_from_archive(path: Path, name: str) -> NDArray[Any]:
    """Read the array of an input's name from an .npz file, or the only one."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            names = [*archive.keys()]
            if name in names or len(names) == 1:
                return np.asarray(archive[name if name in names else names[0]])
    except (OSError, MemoryError):
        raise
    except Exception as error:  # of many types on damaged files
        raise DmlError(f"{path}: it cannot be read as an .npz file: {error}") from None
    raise DmlError(f"{path}: it has no array {name!r}; its arrays: {', '.join(names)}")


def _read_tensor(path: Path) -> NDArray[Any]:
    """Read a tensor as ONNX serializes it, such as the data of its tests."""
    import onnx

    data = path.read_bytes()
    try:
        return np.asarray(onnx.numpy_helper.to_array(onnx.TensorProto.FromString(data)))
    except MemoryError:
        raise
    except Exception as error:  # of many types on damaged files
        raise DmlError(f"{path}: it cannot be read as a tensor of ONNX: {error}") from None


def complete_feeds(
    session: InferenceSession,
    given: Mapping[str, NDArray[Any]] | None,
    shapes: Sequence[str] | None,
    values: Sequence[str] | None,
    generator: np.random.Generator,
    batch: int = 1,
) -> dict[str, NDArray[Any]]:
    """Return an array for each input: as it is given, else full of what ``--value`` says, else random.

    Args:
        session: Its inputs, and which of them decide what runs.
        given: What ``--input`` says; None of a command without it.
        shapes, batch: What ``--shape`` and ``--batch`` say.
        values: What ``--value`` says.
        generator: Of random elements.

    Raises:
        BindingError: An input is unknown or given twice, of another shape, or its type has no random elements.
        DmlError: An option cannot be read, or a value is none of the input's type.
    """
    fixed = fixed_shapes(session.get_inputs(), shapes, batch, given)
    feeds, chosen = dict(given or {}), chosen_values(session, values)
    for value in session.get_inputs():
        name, dtype = value.name, _dtype(value)
        if name in feeds and name in chosen:
            raise BindingError(f"input {name!r} is given twice", name)
        if name in chosen:
            feeds[name] = _full(name, fixed[name], chosen[name], dtype)
        elif name not in feeds:
            if dtype is None or dtype.kind not in "iubf":
                way = "" if given is None else f"; give one with --input {name}=FILE"
                raise BindingError(f"input {name!r}: no random {value.type}{way}", name)
            feeds[name] = random_array(dtype, fixed[name], generator)
    return feeds


def _full(name: str, shape: Sequence[int], number: int, dtype: np.dtype[Any] | None) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.full(shape, number, dtype)
        if (array == number).all():
            return array
    except OverflowError:
        pass
    raise DmlError(f"--value {name}={number}: expected one {dtype}")


def random_array(dtype: np.dtype[Any], shape: Sequence[int], generator: np.random.Generator) -> NDArray[Any]:
    """Return random integers, conditions or floats: all codes of 8 bits, floats around 0, and else 0 or 1, for indices.

    >>> int(random_array(np.dtype(np.int64), (2, 8), np.random.default_rng(1)).max())
    1
    """
    if dtype.kind in "iu" and dtype.itemsize == 1:
        limits = np.iinfo(dtype)
        return generator.integers(limits.min, limits.max + 1, shape, dtype)
    if dtype.kind in "iub":
        return generator.integers(0, 2, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)
