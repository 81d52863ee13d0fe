"""Refuses a PyTensor that is too old, in words; without it the first name that is not there would be the message. Imported first."""
import re

import pytensor

if [int(n) for n in re.findall(r"\d+", pytensor.__version__)[:2]] < [3, 3]:
    raise ImportError(f"weft.pytensor needs PyTensor 3.3 or later; this is {pytensor.__version__}: pip install -U pytensor")
