"""Run times that the record has learned, read once a minute from the ConfigMap in which the controllers leave them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api import names
from pumice.api.core import ConfigMap
from pumice.kube import errors
from pumice.scheduling.core.memory import UnreadableSlot
from pumice.scheduling.time import run_times

if TYPE_CHECKING:
    from collections.abc import Callable

    from pumice.clock import Clock
    from pumice.kube.client import Client
    from pumice.runtime import Log
    from pumice.scheduling.core.policy import Policy

READ_S = 60.0


class RecordedRuns:
    """`current` is replaced as a whole; None where there is no record, or nobody asks for estimates."""

    def __init__(
        self, client: Client, chosen: Callable[[], Policy], namespace: str | None, *, clock: Clock, log: Log
    ) -> None:
        self._client = client
        self._policy = chosen
        self._namespace = namespace
        self._clock = clock
        self._log = log
        self._version = ""
        self._failure = ""
        self.current: run_times.Remembered | None = None

    async def run(self) -> None:
        """Read until cancelled."""
        while self._namespace is not None:
            if self._policy().option(run_times.ASKED_FOR_BY) is not None:
                await self.read(self._namespace)
            await self._clock.sleep(READ_S)

    async def read(self, namespace: str) -> None:
        """Look once."""
        failure = ""
        try:
            found = (await self._client.get(ConfigMap, names.RECORDED_RUN_TIMES, namespace=namespace)).into(ConfigMap)
            if found.metadata.resource_version != self._version:
                self._version = found.metadata.resource_version
                self.current = run_times.SLOT.decode(found.data.get(names.MEMORY_KEY, ""))
        except errors.NotFound:
            self.current, self._version = None, ""
        except (errors.KubeError, UnreadableSlot) as error:  # what was learned before stays true
            failure = str(error)
        if failure and failure != self._failure:
            self._log("recorded_run_times_not_read", error=failure)
        self._failure = failure
