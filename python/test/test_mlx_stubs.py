"""The type stubs of weft.mlx.core are what tools/mlx_stubs.py prints, and type checkers read programs by them."""
import importlib.util
import pathlib
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("numpy")
import weft.mlx.core  # noqa: E402, F401
ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = '''
import weft.mlx.core as mx

def loss(w: mx.array, x: mx.array) -> mx.array:
    return mx.mean(mx.square(x @ w), axis=0, keepdims=True).sum()

w: mx.array = mx.random.normal((4, 2))
x = mx.array([[1.0, 2.0, 3.0, 4.0]], dtype=mx.float32)
y: mx.array = mx.softmax(x, axis=-1)[0, ::2] + 2 * x.reshape(2, 2).T[0]
shape = x.shape
n: int = shape[0] + x.ndim + x.size
step = mx.compile(mx.value_and_grad(loss))
value = step(w, x)
mx.eval(value, y)
a, b = mx.split(mx.arange(4), 2)
z: mx.array = mx.conv2d(mx.zeros((1, 8, 8, 1)), mx.zeros((1, 3, 3, 1)), stride=(2, 2), padding=1)
'''
WRONG = PROGRAM + '''
s: str = mx.add(x, 1)
mx.sum(x, keepdims="yes")
mx.no_such_function(x)
'''


def test_the_stubs_are_what_the_tool_prints():
    spec = importlib.util.spec_from_file_location("mlx_stubs", ROOT / "tools" / "mlx_stubs.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    said = (ROOT / "python" / "weft" / "mlx" / "core" / "__init__.pyi").read_text()
    assert said == "\n".join(tool.lines()) + "\n", "run tools/mlx_stubs.py"


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_type_checker_takes_programs_that_are_right_and_finds_what_is_wrong(checker, tmp_path):
    if importlib.util.find_spec(checker) is None and shutil.which(checker) is None:
        pytest.skip(f"{checker} is not installed")
    (tmp_path / "right.py").write_text(PROGRAM)
    (tmp_path / "wrong.py").write_text(WRONG)
    module = [sys.executable, "-m", checker] if importlib.util.find_spec(checker) else [checker]
    check = lambda name: subprocess.run([*module, name], cwd=tmp_path, capture_output=True, text=True)
    done = check("right.py")
    if "nodeenv" in done.stderr or "npm" in done.stderr:
        pytest.skip("pyright has no node")
    assert done.returncode == 0, done.stdout + done.stderr
    done = check("wrong.py")
    assert done.returncode != 0 and sum(" error" in line for line in done.stdout.splitlines()) >= 3, done.stdout
