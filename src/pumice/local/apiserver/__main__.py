"""The embedded API server alone, in the foreground: `python -m pumice.local.apiserver FOLDER [--port P] [--durable]`.

It prints one line with its address when it is ready, and ends at SIGINT or SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from pumice.local.apiserver.serving import EmbeddedServer, Place


async def serve(place: Place) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with EmbeddedServer(place) as embedded:
        sys.stdout.write(f"{embedded.url} {embedded.kubeconfig}\n")
        sys.stdout.flush()
        await ended.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m pumice.local.apiserver", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--durable", action="store_true")
    given = parser.parse_args()
    asyncio.run(serve(Place(given.folder, port=given.port, durable=given.durable)))


if __name__ == "__main__":
    main()
