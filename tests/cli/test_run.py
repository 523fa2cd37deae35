"""What the command ``run`` shows and writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dmlcpu
from command_line import KEYWORDS, MODELS, PHOTO, parsed, run, succeeded


@pytest.mark.parametrize("form", ["qdq", "qop"])
def test_run_writes_what_the_session_returns(random_numbers: np.random.Generator, tmp_path: Path, form: str) -> None:
    model = MODELS / f"keyword_spotting.{form}.onnx"
    feed = random_numbers.standard_normal((1, 50, 10, 1)).astype(np.float32)
    np.save(tmp_path / "x.npy", feed)
    session = dmlcpu.InferenceSession(model)
    [expected] = session.run(None, {"input0": feed})
    told = succeeded(
        "run", model, "--input", f"input0={tmp_path / 'x.npy'}", "--output", tmp_path / "y.npz", "--top", 3
    )
    assert told.splitlines()[-1] == f"{tmp_path / 'y.npz'} is written"
    with np.load(tmp_path / "y.npz") as archive:
        assert archive.files == ["output0"]
        np.testing.assert_array_equal(archive["output0"], expected)
    best = [line.split() for line in told.splitlines()[4:7]]
    order = np.argsort(-expected[0], kind="stable")[:3]
    assert best == [[str(index), f"{expected[0, index]:.4f}"] for index in order]


@pytest.mark.parametrize("name", ["o", "o.txt", "o.v1.npy"])
def test_run_writes_no_archive_of_another_ending(tmp_path: Path, name: str) -> None:
    """But as numpy's savez does."""
    told = succeeded("run", KEYWORDS, PHOTO, "--output", tmp_path / name)
    assert told.splitlines()[-1] == f"{tmp_path / name}.npz is written"
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.npz"]


def test_classes_are_those_of_one_row_of_scores(tmp_path: Path) -> None:
    """Who asks for them is told where there are none."""
    model = parsed(tmp_path / "model.onnx", "float[rows, 3] x", "float[rows, 3] y", "{ y = Neg(x) }")
    for rows, told in ((1, ""), (2, "--top 2: no output is a single row of scores\n")):
        np.save(tmp_path / "x.npy", np.arange(3 * rows, dtype=np.float32).reshape(rows, 3))
        shown = run("run", model, tmp_path / "x.npy", "--top", 2)
        assert (shown.exit_code, shown.stderr) == (0, told)
        assert ("class (y)" in shown.stdout) == (rows == 1)
        assert succeeded("run", model, tmp_path / "x.npy", "--top", 0).splitlines()[2:] == [""]
    assert len(succeeded("run", KEYWORDS, PHOTO).splitlines()) == 3 + 1 + 5 + 1
