"""What a Job plugin is, and what keeps one from doing its work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pumice.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.api.batch import Job, Task
    from pumice.api.meta import Json
    from pumice.controllers.operations import Operation

VARIABLE_BYTES_MAX: Final = 2**17 - 1  # Linux starts no process with a longer variable
OBJECT_BYTES_MAX: Final = 2**20  # of a ConfigMap or a Secret: API servers refuse more


class JobPlugin:
    """Every method is pure. By default a plugin makes no objects, and only changes pods."""

    name: str
    is_recorded = True  # whether status.controlledResources names it

    def __init__(self, arguments: Sequence[str]) -> None:
        del arguments

    def objects(self, job: Job) -> Sequence[Operation]:
        """What has to be made before the first pod."""
        del job
        return ()

    def refresh(self, job: Job) -> Sequence[Operation]:
        """What has to change when the number of pods does."""
        del job
        return ()

    def cleanup(self, job: Job) -> Sequence[Operation]:
        """The end of what `objects` made."""
        del job
        return ()

    def on_pod(self, pod: Json, job: Job, task: Task, index: int) -> None:
        """Changes the pod that is being made, after all plugins before it in PLUGINS."""
        raise NotImplementedError


class PluginFault(BadInput):
    """The Job asks for something that the plugin cannot do; its pods are not made until that is mended."""


def check_length(what: str, text: str, most: int) -> str:
    """The text, unless there are so many pods that no pod could read it."""
    if len(text) > most:
        raise PluginFault(
            f"{what} would have {len(text)} bytes, at most {most}: the job has too many pods for it; lower replicas"
        )
    return text
