"""python -m weft: the version, the devices, what is kept in memory."""
import os
import sys

import weft
from weft import _core


def main():
    print(f"weft {weft.__version__}, Python {sys.version.split()[0]}, {os.path.dirname(_core.__file__)}")
    for k in range(weft.device_count()):
        print(f"device {k}: {'the CPU, ' + str(os.cpu_count()) + ' processors' if k == 0 else 'a GPU'}")
    print(f"memory: {weft.get_active_memory()} bytes used, {weft.get_cache_memory()} kept for reuse")
    print(_core.show([], "caches"), end="")


main()
