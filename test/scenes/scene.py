"""What the scenes in Python share: the back end they are asked to run on, what they say, and what they count as wrong."""
import os
import sys

backend = sys.argv[1] if len(sys.argv) > 1 else "x86"
wrong = 0


def start(elsewhere):
    os.environ["WEFT_JIT"] = "0" if backend == "vm" else "1"
    try:
        import numpy
    except ImportError:
        print("   python3 has no numpy")
        sys.exit(77)
    import weft
    if backend == "gpu":
        try:
            weft.set_device(1)
        except ValueError:
            sys.exit(77)
    print(f"   elsewhere: {elsewhere}")
    return numpy, weft


def expect(ok, what):
    global wrong
    if not ok:
        wrong += 1
        if wrong <= 12:
            print(f"   wrong: {str(what)[:200]}")


def end(here):
    print(f"   here:      {here}")
    sys.exit(wrong != 0)
