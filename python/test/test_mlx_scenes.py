"""The four failures that weft was founded on, as programs for MLX, run as they are by python -m weft.mlx (make scenes has all forms)."""
import os
import pathlib
import subprocess
import sys

import pytest
import weft

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "test" / "scenes" / "mlx"
SCENES = ["lazy_weights", "nan_constants", "reversed", "scatter"]


def test_there_are_these_four():
    assert sorted(file.stem for file in FOLDER.glob("*.py")) == SCENES


@pytest.mark.parametrize("jit", ["0", "1"], ids=["vm", "machine code"])
@pytest.mark.parametrize("name", SCENES)
def test_a_program_for_mlx_is_right(name, jit):
    program = FOLDER / f"{name}.py"
    text = program.read_text()
    assert "import mlx.core as mx" in text and "weft" not in text
    env = {**os.environ, "WEFT_JIT": jit, "PYTHONPATH": str(pathlib.Path(weft.__file__).resolve().parents[1])}
    done = subprocess.run([sys.executable, "-B", "-m", "weft.mlx", str(program)], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout and not done.stderr
