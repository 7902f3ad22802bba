"""What a policy's plugins declare that they need, from wherever they come: kinds to watch, slots of memory, metrics, news."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice.api import core, native, pods, priority, scheduling, topology
from pumice.kube.discovery import served_kinds
from pumice.scheduling import plugins
from pumice.scheduling.core.build_decisions import OWN_MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pumice.api.meta import Struct
    from pumice.kube.client import Client
    from pumice.kube.informer import Informers, News
    from pumice.scheduling.core.memory import Slot
    from pumice.scheduling.core.plugin import Plugin
    from pumice.scheduling.core.policy import Policy
    from pumice.telemetry.catalogue import Metric

# What the cluster's state is made of, whichever plugins run; what plugins read beside it they declare themselves.
# Not every API server serves the last one; pods that need it wait there.
STATE_KINDS: tuple[type[Struct], ...] = (
    pods.Pod,
    core.Node,
    scheduling.PodGroup,
    scheduling.Queue,
    priority.PriorityClass,
    topology.HyperNode,
    native.NativePodGroup,
)


def kinds_of(policy: Policy, extra: Mapping[str, type[Plugin]]) -> list[type[Struct]]:
    """Everything that a cycle with this policy reads."""
    watches = [watch.kind for plugin in plugins.of_policy(policy, extra) for watch in plugin.watches]
    return list(dict.fromkeys([*STATE_KINDS, *watches]))


class Requirements:
    """Watches what is needed, each kind once. What a former policy's plugins have watched stays."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        receive: Callable[[Sequence[News]], None],
        extra: Mapping[str, type[Plugin]],
    ) -> None:
        self._client = client
        self._informers = informers
        self._receive = receive
        self._extra = extra
        self._watched: set[type[Struct]] = set()
        self.concerns: dict[
            type[Struct], list[Callable[[Any, Any], bool]]
        ] = {}  # the plugins' filters of news, by kind

    async def watch(self, kinds: Sequence[type[Struct]]) -> list[type[Struct]]:
        """Subscribes to those that the server serves, and returns them once all are listed."""
        wanted = [kind for kind in dict.fromkeys(kinds) if kind not in self._watched]
        served = await served_kinds(self._client, wanted)
        for kind in served:
            self._watched.add(kind)
            self._informers.of(kind).subscribe(self._receive)
        for kind in served:
            await self._informers.of(kind).synced.wait()
        return served

    async def meet(self, policy: Policy) -> None:
        """Returns once everything that the policy's plugins read has been listed."""
        watches = [watch for plugin in plugins.of_policy(policy, self._extra) for watch in plugin.watches]
        self.concerns = {}
        for watch in watches:
            self.concerns.setdefault(watch.kind, []).append(watch.concerns)
        await self.watch([watch.kind for watch in watches])

    def slots(self, policy: Policy) -> list[Slot[Any]]:
        own = [plugin.memory for plugin in plugins.of_policy(policy, self._extra)]
        return [*(slot for slot, _ in OWN_MEMORY), *(slot for slot in own if slot is not None)]

    def metrics(self, policy: Policy) -> list[Metric]:
        return [metric for plugin in plugins.of_policy(policy, self._extra) for metric in plugin.metrics]
