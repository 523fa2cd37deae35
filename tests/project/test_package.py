"""The package as a namespace: what its names give, with and without the extras."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dmlcpu


def in_new_process(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)


def test_every_public_name_is_there_and_listed() -> None:
    assert len(set(dmlcpu.__all__)) == len(dmlcpu.__all__)
    for name in dmlcpu.__all__:
        assert hasattr(dmlcpu, name)
        assert name in dir(dmlcpu)


def test_without_onnx_all_names_can_be_imported_and_a_session_says_what_is_missing() -> None:
    result = in_new_process(
        "import sys; sys.modules['onnx'] = None\n"
        "import dmlcpu\n"
        "from dmlcpu import *\n"
        "assert hasattr(dmlcpu, 'InferenceSession') and 'InferenceSession' in dir(dmlcpu)\n"
        "from dmlcpu import InferenceSession\n"
        "assert InferenceSession is dmlcpu.InferenceSession\n"
        "try:\n"
        "    InferenceSession('model.onnx', providers=['CPUExecutionProvider'])\n"
        "except ImportError as error:\n"
        "    print(error, '|', error.name)\n"
    )
    expected = "InferenceSession reads models with the package 'onnx': pip install 'dmlcpu[onnx]' | onnx\n"
    assert (result.stdout, result.stderr) == (expected, "")


def test_with_a_broken_onnx_all_names_can_be_imported_and_a_session_says_why(tmp_path: Path) -> None:
    (tmp_path / "onnx.py").write_text("raise ImportError('its library is of another version')\n")
    result = in_new_process(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import inspect, dmlcpu\n"
        "from dmlcpu import *\n"
        "assert InferenceSession is dmlcpu.InferenceSession is dict(inspect.getmembers(dmlcpu))['InferenceSession']\n"
        "try:\n"
        "    InferenceSession('model.onnx')\n"
        "except ImportError as error:\n"
        "    print(error, '|', error.name)\n"
    )
    told = "InferenceSession reads models with the package 'onnx', which cannot be imported: its library is of "
    assert (result.stdout, result.stderr) == (f"{told}another version | onnx\n", "")


def test_the_import_leaves_out_what_only_errors_and_versions_need() -> None:
    result = in_new_process(
        "import sys, numpy\n"
        "before = set(sys.modules)\n"
        "import dmlcpu\n"
        "print(sorted({'difflib', 'email', 'importlib.metadata', 'json', 'zipfile'} & (set(sys.modules) - before)))\n"
        "print(dmlcpu.__version__ == dmlcpu.info().version, '__version__' in vars(dmlcpu))\n"
    )
    assert (result.stdout, result.stderr) == ("[]\nTrue True\n", "")


def test_a_subinterpreter_is_refused_and_the_main_one_goes_on() -> None:
    """The module's import would wait there for ever."""
    result = in_new_process(
        "try:\n"
        "    import _interpreters as interpreters\n"
        "except ModuleNotFoundError:\n"
        "    import _xxsubinterpreters as interpreters\n"
        "code = '''try:\n"
        "    import dmlcpu\n"
        "except ImportError as error:\n"
        "    print(error, '|', error.name, flush=True)'''\n"
        "for _ in range(2):\n"
        "    interpreter = interpreters.create()\n"
        "    interpreters.run_string(interpreter, code)\n"
        "    interpreters.destroy(interpreter)\n"
        "    import dmlcpu, numpy\n"
        "    print(dmlcpu.quantize_linear(numpy.float32([7]), 1.0), flush=True)\n"
    )
    refused = (
        "dmlcpu cannot be imported in a subinterpreter: import it in the main one, or in a process of its own "
        "(mod_wsgi: WSGIApplicationGroup %{GLOBAL}) | dmlcpu\n"
    )
    assert (result.stdout, result.stderr) == (f"{refused}[7]\n" * 2, "")


def test_an_unknown_name_is_an_attribute_error_that_proposes_another() -> None:
    name = "quantise_linear"
    with pytest.raises(AttributeError, match=f"module 'dmlcpu' has no attribute '{name}'") as raised:
        getattr(dmlcpu, name)
    assert (raised.value.name, raised.value.obj) == (name, dmlcpu)
    assert "Did you mean: 'quantize_linear'?" in in_new_process(f"import dmlcpu; dmlcpu.{name}").stderr
    assert not hasattr(dmlcpu, "Session")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "dmlcpu.SessionOptions().intra_op_threads = 2",
            "SessionOptions has no option 'intra_op_threads'; the nearest is 'intra_op_num_threads'",
        ),
        (
            "desc = dmlcpu.TensorDesc(dmlcpu.TensorDataType.UINT8, (3,))\n"
            "dmlcpu.input_tensor(dmlcpu.GraphBuilder(dmlcpu.Device()), 0, desc).dess = desc",
            "cannot set 'dess': an expression does not change",
        ),
    ],
)
def test_python_adds_no_proposal_to_what_is_told_of_setting(code: str, message: str) -> None:
    result = in_new_process(f"import dmlcpu\n{code}")
    assert result.stderr.endswith(f"AttributeError: {message}\n"), result.stderr
