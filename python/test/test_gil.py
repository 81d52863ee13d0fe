"""Interpreters without the GIL (3.13t and later) turn it on for modules that do not say they can do without: weft's is one, so it need not
know of them. Here it is seen that it says nothing: neither by a slot, which only modules made in several phases have, nor by a call."""
import subprocess
import sys

from weft import _core


def test_the_module_does_not_say_that_it_can_do_without_the_gil():
    with open(_core.__file__, "rb") as file:
        code = file.read()
    assert b"PyModule_Create2" in code  # one phase: no slots
    assert b"PyModuleDef_Init" not in code and b"PyUnstable_Module_SetGIL" not in code


def test_the_gil_is_on_once_weft_is_imported():
    asked = "import sys, weft; print(getattr(sys, '_is_gil_enabled', lambda: True)())"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", asked], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr
