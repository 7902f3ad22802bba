"""What must be true before the first pod of a gang is bound: volumes bound, devices reserved; for all members, or none is bound."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pumice.dispatch.devices import Devices
from pumice.dispatch.errors import PreparationFailed
from pumice.dispatch.volumes import Volumes
from pumice.errors import PumiceError
from pumice.scheduling.core.decisions import VolumeChoice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.kube.client import Client
    from pumice.runtime import Runtime
    from pumice.scheduling.core.decisions import Bind, Preparation

PREPARED_S_MAX = 600.0  # as kube-scheduler: making a volume takes minutes on some clouds


class Preparations:
    """Prepares gangs; belongs to one event loop."""

    def __init__(self, client: Client, runtime: Runtime) -> None:
        self._volumes = Volumes(client, runtime)
        self._devices = Devices(client, runtime)

    async def prepare(self, binds: Sequence[Bind]) -> None:
        """Returns once everything is in place; raises PreparationFailed where something cannot be."""
        try:
            async with asyncio.timeout(PREPARED_S_MAX), asyncio.TaskGroup() as group:
                for bind in binds:
                    for choice in bind.first:
                        group.create_task(self._one(choice, bind))
        except TimeoutError as error:
            raise PreparationFailed(f"volumes and devices were not ready within {PREPARED_S_MAX:.0f} s") from error
        except BaseExceptionGroup as failed:
            first = failed.exceptions[0]
            if isinstance(first, PumiceError):
                raise PreparationFailed(str(first)) from failed
            raise

    async def _one(self, choice: Preparation, bind: Bind) -> None:
        if isinstance(choice, VolumeChoice):
            await self._volumes.bind(choice)
        else:
            await self._devices.reserve(choice, bind.task)
