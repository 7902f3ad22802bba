"""One input under atheris, which looks for the ways that no input has taken yet: `python -m tests.fuzz NAME [-runs=100000] [-max_total_time=600]`.

Needs `pip install 'pumice[fuzz]'`. What it finds is written to a file whose name it prints; add it to test_found.py.
"""

import sys
import tempfile
from pathlib import Path

try:
    import atheris
except ModuleNotFoundError:
    sys.exit("atheris is not installed: pip install 'pumice[fuzz]'")

with atheris.instrument_imports(include=["pumice"]):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    name = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if name not in TARGETS:
        sys.exit(f"{name or 'no name'}: give one of {', '.join(TARGETS)}")
    target = TARGETS[name]

    def feed(data: bytes) -> None:
        try:
            target.feed(data)
        except target.may_raise:
            return

    with tempfile.TemporaryDirectory(
        prefix="pumice-fuzz-"
    ) as corpus:  # it begins with what is right, and keeps here what was new
        for number, seed in enumerate(target.seeds):
            (Path(corpus) / str(number)).write_bytes(seed)
        atheris.Setup([*sys.argv, corpus], feed)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
