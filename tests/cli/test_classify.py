"""examples/classify.py: the scores of its network, the sample photograph, the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dmlcpu

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

import classify  # noqa: E402
import resnet8  # noqa: E402

# 24 images and the scores that DirectML's arithmetic gives them; data/README.md tells their source.
RECORD = np.load(Path(__file__).parents[1] / "data" / "resnet8_logits.npz")


def run_script(
    *arguments: object, script: str = "classify.py", python_path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    if python_path is not None:
        environment["PYTHONPATH"] = os.pathsep.join([str(python_path), *sys.path])
    command = [sys.executable, str(EXAMPLES / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)


@pytest.mark.parametrize("batch_size", [1, 24])
def test_logits_equal_the_record(isa: str, num_threads: int, batch_size: int) -> None:
    images, expected = RECORD["images"], RECORD["logits"]
    network = resnet8.ResNet8(dmlcpu.Device(isa=isa, num_threads=num_threads), batch_size)
    for start in range(0, len(images), batch_size):
        batch = slice(start, start + batch_size)
        np.testing.assert_array_equal(network.logits(images[batch]), expected[batch])


def test_photograph_is_read_as_the_record_has_it() -> None:
    np.testing.assert_array_equal(classify.read_photo(classify.SAMPLE_PHOTO), RECORD["images"][:1])


def test_photograph_is_a_cat() -> None:
    network = resnet8.ResNet8(dmlcpu.Device())
    (probabilities,) = network.probabilities(classify.read_photo(classify.SAMPLE_PHOTO))
    by_class = dict(zip(resnet8.CLASSES, probabilities.tolist(), strict=True))
    assert max(by_class, key=lambda name: by_class[name]) == "cat"
    assert by_class["cat"] == pytest.approx(0.706, abs=5e-4)
    assert by_class["frog"] == pytest.approx(0.281, abs=5e-4)
    assert sum(by_class.values()) == pytest.approx(1.0, abs=1e-6)


def class_rows(output: str) -> list[list[str]]:
    """Return the words of the lines that name a class, in order."""
    return [words for line in output.splitlines() if (words := line.split()) and words[0] in resnet8.CLASSES]


def test_script_prints_a_table() -> None:
    result = run_script(classify.SAMPLE_PHOTO)
    assert result.returncode == 0, result.stderr
    rows = class_rows(result.stdout)
    assert [row[:2] for row in rows[:2]] == [["cat", "0.706"], ["frog", "0.281"]]
    assert sorted(row[0] for row in rows) == sorted(resnet8.CLASSES)


def test_script_without_arguments_classifies_the_sample() -> None:
    assert class_rows(run_script().stdout) == class_rows(run_script(classify.SAMPLE_PHOTO).stdout)


def test_the_network_of_objects_is_a_program_too() -> None:
    result = run_script(script="resnet8.py")
    assert (result.returncode, result.stderr) == (0, "")
    layers = [line.split(maxsplit=2) for line in result.stdout.split("\n\n")[0].splitlines()]
    assert layers[0] == ["stem", "QUANTIZED_LINEAR_CONVOLUTION", "(1, 16, 32, 32)"]
    assert layers[-1] == ["logits", "QUANTIZED_LINEAR_CONVOLUTION", "(1, 10, 1, 1)"]
    assert class_rows(result.stdout) == class_rows(run_script().stdout)


def test_script_takes_several_photographs() -> None:
    result = run_script(classify.SAMPLE_PHOTO, classify.SAMPLE_PHOTO)
    assert [row[0] for row in class_rows(result.stdout)].count("cat") == 2


def test_script_refuses_files_that_are_no_photographs(tmp_path: Path) -> None:
    text_file = tmp_path / "notes.txt"
    text_file.write_text("not an image\n")
    truncated = tmp_path / "truncated.png"
    truncated.write_bytes(classify.SAMPLE_PHOTO.read_bytes()[:50_000])
    for path in (tmp_path / "missing.png", tmp_path, text_file, truncated):
        result = run_script(classify.SAMPLE_PHOTO, path)
        assert result.returncode == 2
        assert result.stdout == ""
        assert result.stderr.count("\n") == 1
        assert str(path) in result.stderr


@pytest.mark.parametrize("script", ["classify.py", "resnet8.py"])
def test_script_without_pillow_tells_how_to_install_it(tmp_path: Path, script: str) -> None:
    (tmp_path / "PIL.py").write_text("raise ModuleNotFoundError('No module named PIL')\n")
    result = run_script(script=script, python_path=tmp_path)
    assert result.returncode == 1
    told = "photographs are read with Pillow, which is not installed: pip install '.[examples]'\n"
    assert result.stderr == told
