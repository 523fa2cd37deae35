"""Arrays that commands read: of numpy's files, one or several, and of ONNX's tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from command_line import parsed, run, succeeded

X, Y = np.float32([[1, 2, 3, 4]]), np.float32([[5, 6, 7, 8]])


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return parsed(tmp_path / "sum.onnx", "float[1, 4] x, float[1, 4] y", "float[1, 4] z", "{ z = Add(x, y) }")


def sums(model: Path, *arguments: str) -> list[list[float]]:
    succeeded("run", model, *arguments, "--output", "z.npz")
    with np.load("z.npz") as archive:
        z: list[list[float]] = archive["z"].tolist()
    return z


def test_arrays_of_archives_are_chosen_by_the_name_of_the_input(model: Path) -> None:
    np.savez("both.npz", x=X, y=Y)
    assert sums(model, "x=both.npz", "y=both.npz") == (X + Y).tolist()


def test_the_only_array_of_an_archive_needs_no_name(model: Path) -> None:
    np.savez("one.npz", other=X)
    np.savez_compressed("two.npz", y=Y)
    assert sums(model, "x=one.npz", "--input", "y=two.npz") == (X + Y).tolist()


def test_what_one_run_writes_the_next_one_reads(model: Path) -> None:
    np.save("x.npy", X)
    assert sums(model, "x=x.npy", "y=x.npy") == (2 * X).tolist()
    assert sums(model, "x=z.npz", "y=x.npy") == (3 * X).tolist()


def test_tensors_as_onnx_has_the_data_of_its_tests(model: Path) -> None:
    for name, array in (("x", X), ("y", Y)):
        Path(f"{name}.pb").write_bytes(onnx.numpy_helper.from_array(array).SerializeToString())
    assert sums(model, "x=x.pb", "y=y.pb") == (X + Y).tolist()


def test_short_help_and_names_of_peers_with_spaces(model: Path) -> None:
    assert run("-h").stdout == run("--help").stdout
    assert run("bench", "-h").stdout == run("bench", "--help").stdout
    told = succeeded("bench", model, "--peers", " onnxruntime, onnxruntime,", "--duration", "0")
    assert [line.split()[0] for line in told.splitlines() if line[:11] == "onnxruntime"] == ["onnxruntime"] * 2


def test_bench_tells_what_differences_of_floats_are(tmp_path: Path) -> None:
    model = parsed(tmp_path / "sines.onnx", "float[64, 64] x", "float[64, 64] y", "{ s = Sin(x) y = Exp(s) }")
    told = succeeded("bench", model, "--peers", "onnxruntime", "--duration", "0")
    assert ("of max: as a part of the largest float." in told) == (" of max\n" in told)
    assert " of max\n" in told
