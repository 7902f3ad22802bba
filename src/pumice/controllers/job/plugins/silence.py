"""What most plugins have in common: they make nothing but changes to pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.api.batch import Job
    from pumice.controllers.operations import Operation


class MakesNothing:
    """A plugin without objects of its own."""

    is_recorded = True

    def objects(self, job: Job) -> Sequence[Operation]:
        del job
        return ()

    def refresh(self, job: Job) -> Sequence[Operation]:
        del job
        return ()

    def cleanup(self, job: Job) -> Sequence[Operation]:
        del job
        return ()
