"""Options of the measurements: a wrong name and a missing library are told in a line, without a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dmlcpu
from bench.__main__ import application
from bench.choices import installed_versions


@pytest.mark.parametrize(
    ("command", "option", "expected"),
    [
        ("conv", "--peers", "onnxruntime, openvino, onednn"),
        ("conv", "--types", "u8s8"),
        ("conv", "--layouts", "NCHW, NHWC"),
        ("matmul", "--networks", "bert_base, bert_large"),
        ("matmul", "--results", "codes, sums, floats"),
        ("matmul", "--types", "u8s8"),
        ("matmul", "--peers", "onnxruntime"),
        ("elementwise", "--operators", "quantize"),
        ("elementwise", "--layouts", "contiguous"),
        ("elementwise", "--peers", "onnxruntime, torch"),
        ("models", "--networks", "resnet50"),
        ("models", "--forms", "qdq_u8s8"),
        ("models", "--peers", "onnxruntime"),
    ],
)
def test_a_name_that_is_none_is_told_with_those_that_are(command: str, option: str, expected: str) -> None:
    result = CliRunner().invoke(application, [command, option, "berty"])
    assert result.exit_code == 2
    told = " ".join(result.stderr.replace("│", " ").split())
    assert f"Invalid value for {option}: got 'berty', expected some of " in told
    assert expected in told


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("conv --shapes nope", "Invalid value for --shapes: no shapes named 'nope'; there are "),
        ("conv --isa foo", "Invalid value for --isa: got 'foo', expected some of scalar"),
        ("conv --threads 0", "Invalid value: num_threads"),
        ("conv --batch 0", "Invalid value for '--batch'"),
        ("conv --repeats 0", "Invalid value for '--repeats'"),
        ("matmul --isa foo", "Invalid value: isa='foo'"),
        ("matmul --repeats 0", "Invalid value for '--repeats'"),
        ("elementwise --threads 2000", "Invalid value: num_threads"),
        ("elementwise --repeats 0", "Invalid value for '--repeats'"),
        ("models --isa foo", "Invalid value: isa='foo'"),
        ("models --batch 0", "Invalid value for '--batch'"),
        ("models --repeats 0", "Invalid value for '--repeats'"),
        ("texts --layers 0", "Invalid value for '--layers'"),
        ("texts --words 70", "Invalid value for --words: got 70, expected at least 71"),
        ("texts --isa foo", "Invalid value: isa='foo'"),
        ("dispatch --threads 0", "Invalid value: num_threads"),
        ("isas --threads 0", "Invalid value: num_threads"),
    ],
)
def test_a_value_that_cannot_be_is_told(arguments: str, expected: str) -> None:
    result = CliRunner().invoke(application, arguments.split())
    assert result.exit_code == 2
    assert expected in " ".join(result.stderr.replace("│", " ").split())


def test_measuring_nothing_fails(tmp_path: Path) -> None:
    result = CliRunner().invoke(application, ["models", "--networks", "", "--peers", "", "--json", str(tmp_path / "f")])
    assert result.exit_code == 1
    assert result.stdout.endswith("\nnothing was measured\n")


@pytest.mark.parametrize("returned", [0, 3])
def test_several_instruction_sets_have_files_of_their_own(monkeypatch: pytest.MonkeyPatch, returned: int) -> None:
    commands = []

    def run(command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        commands.append(command[1:])
        return subprocess.CompletedProcess(command, returned)

    arguments = ["conv", "--isa", "scalar,avx2", "--json", "a/f.json", "--plot=f", "--only", "3x3"]
    monkeypatch.setattr(dmlcpu, "available_isas", lambda: ("scalar", "avx2"))
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    assert CliRunner().invoke(application, arguments).exit_code == returned
    expected = [
        ["-m", "bench", "conv", "--only", "3x3", f"--isa={isa}", f"--json=a/f-{isa}.json", f"--plot=f-{isa}"]
        for isa in ("scalar", "avx2")
    ]
    assert commands == (expected[:1] if returned else expected)


def test_a_library_that_is_not_installed_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    def version(name: str) -> str:
        if name == "absent":
            raise ModuleNotFoundError("No module named 'absent'")
        return "1.0"

    assert installed_versions(["absent", "present"], version) == {"present": "1.0"}
    assert capsys.readouterr().out == "absent is left out: No module named 'absent'\n"
