"""Options of the measurements: a wrong name and a missing library are told in a line, without a traceback."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

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


def test_a_library_that_is_not_installed_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    def version(name: str) -> str:
        if name == "absent":
            raise ModuleNotFoundError("No module named 'absent'")
        return "1.0"

    assert installed_versions(["absent", "present"], version) == {"present": "1.0"}
    assert capsys.readouterr().out == "absent is left out: No module named 'absent'\n"
