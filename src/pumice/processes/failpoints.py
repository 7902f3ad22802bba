"""Fail points: named steps at which a crash test kills this process, exactly there and exactly then.

`PUMICE_FAIL_POINT=binding:3` is a kill -9 when the step `binding` is reached for the third time. Nothing else happens here, and
without the variable nothing at all.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from pumice.errors import BadInput
from pumice.runtime import no_fail_point

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

VARIABLE = "PUMICE_FAIL_POINT"
STEPS = ("assumed", "binding", "bound", "dispatched", "evicting", "status")


def from_environment(environment: Mapping[str, str] = os.environ) -> Callable[[str], None]:
    """The function that dispatch calls at each step."""
    wanted = environment.get(VARIABLE, "")
    if not wanted:
        return no_fail_point
    step, _, number = wanted.partition(":")
    if step not in STEPS or not (number or "1").isdigit():
        raise BadInput(f"{VARIABLE}={wanted}: expected one of {', '.join(STEPS)}, and a number after a colon")
    left = int(number or "1")

    def fail_point(reached: str) -> None:
        nonlocal left
        if reached == step:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return fail_point
