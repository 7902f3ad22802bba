"""All benchmarks, one JSON line each; those on the real API server only where it has been built (`make test-kube` does)."""

from __future__ import annotations

import subprocess
import sys

from tools.kube import build

HERE = ("bench.engine", "bench.memory", "bench.apiserver", "bench.cli", "bench.admission")
ON_KUBE = ("bench.live",)


def main() -> int:
    modules = list(HERE)
    try:
        build.require()
        modules += ON_KUBE
    except build.BuildError as error:
        sys.stderr.write(f"skipped {', '.join(ON_KUBE)}: {error}\n")
    return max(subprocess.run([sys.executable, "-m", module], check=False).returncode for module in modules)


if __name__ == "__main__":
    sys.exit(main())
