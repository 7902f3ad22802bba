"""What must be true before the first pod of a gang is bound: volumes bound, devices reserved; for all members, or none is bound.

everything is written --> volumes are waited for --> binds
  `-- something failed, or a bind did: what was written is given back, once all writes have ended
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pumice.dispatch.devices import Devices
from pumice.dispatch.errors import PreparationFailed
from pumice.dispatch.volumes import Volumes
from pumice.errors import PumiceError
from pumice.scheduling.core.decisions import DeviceChoice, VolumeChoice

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence
    from typing import Any

    from pumice.api import changes
    from pumice.cluster.state import Cluster
    from pumice.kube.client import Client
    from pumice.runtime import Runtime
    from pumice.scheduling.core.decisions import Bind

PREPARED_S_MAX = 600.0  # as kube-scheduler: making a volume takes minutes on some clouds


class Preparations:
    """Prepares gangs; belongs to one event loop."""

    def __init__(
        self, client: Client, cluster: Cluster, learn: Callable[[changes.Change], None], runtime: Runtime
    ) -> None:
        self._volumes = Volumes(client, runtime)
        self._devices = Devices(client, cluster, learn, runtime)

    async def prepare(self, binds: Sequence[Bind]) -> None:
        """Returns once everything is in place; raises PreparationFailed where something cannot be, and nothing is on its way any more."""
        volumes = _volumes(binds)
        await _all(
            [
                *(self._volumes.ask(choice) for choice in volumes),
                *(self._devices.reserve(choice, bind.task) for bind in binds for choice in _devices(bind)),
            ]
        )
        try:
            async with asyncio.timeout(PREPARED_S_MAX), asyncio.TaskGroup() as group:
                for choice in volumes:
                    group.create_task(self._volumes.until_bound(choice))
        except TimeoutError as error:
            raise PreparationFailed(f"volumes were not ready within {PREPARED_S_MAX:.0f} s") from error
        except BaseExceptionGroup as failed:
            _fail(failed.exceptions)

    async def give_back(self, binds: Sequence[Bind]) -> None:
        """What was written for pods that are not bound; returns once it is known that nothing of theirs is left."""
        await _all(
            [
                *(self._volumes.give_back(choice) for choice in _volumes(binds)),
                *(self._devices.give_back(each.claim, {bind.task.uid}) for bind in binds for each in _devices(bind)),
            ]
        )


def _volumes(binds: Sequence[Bind]) -> list[VolumeChoice]:
    """Each once: pods may share a claim."""
    return list(dict.fromkeys(each for bind in binds for each in bind.first if isinstance(each, VolumeChoice)))


def _devices(bind: Bind) -> list[DeviceChoice]:
    return [each for each in bind.first if isinstance(each, DeviceChoice)]


async def _all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Each to its end, whatever becomes of the others: a write that is cancelled may still take effect."""
    outcomes = await asyncio.gather(*works, return_exceptions=True)
    _fail([each for each in outcomes if each is not None])


def _fail(failures: Sequence[BaseException]) -> None:
    """Raise what says why, if there is anything; a bug goes first."""
    for each in sorted(failures, key=lambda each: isinstance(each, PumiceError)):
        if not isinstance(each, PumiceError):
            raise each
        raise PreparationFailed(str(each)) from each
