"""Works and the systems that do them. `python -m peers` is what bench/compare runs in its environment."""
