"""Options about GPUs that `pumice up` and `pumice node` share: a number of fake ones, or `auto` for those of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from pumice.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from pumice.local.nodes.process.devices import Gpu
    from pumice.local.nodes.process.nvml import Nvml
    from pumice.runtime import Log

AUTO = "auto"
ALL = "all"
GPUS_MAX = 1_024  # of one node; a process node keeps a list of them


class Count(click.ParamType):  # type: ignore[type-arg]  # older versions know no arguments
    """A number, or one word that stands for as many as there are."""

    name = "count"

    def __init__(self, word: str) -> None:
        self._word = word

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        del param, ctx
        return f"NUMBER|{self._word}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value == self._word:
            return self._word
        return click.IntRange(0, GPUS_MAX).convert(value, param, ctx)


def shared_option(body: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--shared-gpus",
        type=Count(ALL),
        default=0,
        show_default=True,
        help="With --gpus auto: so many of the cards, from the last on, are shared by memory and cores (volcano.sh/vgpu-*) instead of given out whole.",
    )(body)


def find(shared: int | str, log: Log) -> tuple[Nvml, tuple[Gpu, ...]]:
    """The GPUs of this machine, and whom to ask what is used of them."""
    from pumice.local.nodes.process.devices import GPU
    from pumice.local.nodes.process.nvml import Nvml

    nvml = Nvml.open(log)
    gpus = nvml.gpus()
    if isinstance(shared, int) and shared > len(gpus):
        raise BadInput(f"--shared-gpus {shared}: this machine has {len(gpus)} GPUs; give at most that many, or `{ALL}`")
    if shared and any(gpu.resource != GPU for gpu in gpus):
        raise BadInput(
            "--shared-gpus: a card here is cut into partitions (MIG), which are given out whole; leave it out"
        )
    whole = 0 if shared == ALL else len(gpus) - int(shared)
    return nvml, tuple(msgspec.structs.replace(gpu, is_shared=number >= whole) for number, gpu in enumerate(gpus))


def check_shared(gpus: int | str, shared: int | str) -> None:
    if shared and gpus != AUTO:
        raise BadInput("--shared-gpus shares real GPUs; give --gpus auto with it")
