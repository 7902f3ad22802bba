"""What a job's name has in common with those of its kind."""

import re

_DIGITS = re.compile(r"[0-9]+")


def stem(name: str) -> str:
    """The name without its digits: `train-17` and `train-18` are the same work."""
    return _DIGITS.sub("", name)
