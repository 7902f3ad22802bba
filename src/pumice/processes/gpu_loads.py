"""What pods use of their GPUs: as NVIDIA's DCGM exporter measures it and Prometheus keeps it, and as nodes of ours report it.

Where the policy's `metrics` map names a Prometheus it is asked three questions for all pods, each within a time and a size. Where nobody
exports such metrics there is no answer, and nothing is said of GPUs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import aiohttp

from pumice import instant
from pumice.cluster import amounts
from pumice.cluster.gpu_use import PodGpuUse, reported
from pumice.errors import PumiceError
from pumice.processes.load_settings import settings_of
from pumice.processes.loads import LOOK_S, SourceLog, ask_prometheus
from pumice.scheduling.core.gpu_use import gang_uses, gpus_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from pumice.clock import Clock
    from pumice.cluster.state import Snapshot
    from pumice.instant import Instant
    from pumice.processes.load_settings import Settings
    from pumice.processes.loads import Sample
    from pumice.runtime import Log
    from pumice.scheduling.core.gpu_use import GangGpuUse
    from pumice.scheduling.core.policy import Policy
    from pumice.telemetry.meters import Meters

INTERVAL_S_MIN = 30.0  # between two rounds of questions: what counts is the last ten minutes
STALE_S = 300.0  # measurements that are older count for nothing
ANEW = 15 * instant.SECOND  # how often gangs' use is put together from their pods'

# Prometheus renames the exporter's labels to exported_* unless it was told to honour them; then `pod` is the exporter's own. Partitions have no
# GPU_UTIL, but a profiling metric that is a fraction.
_BY = "by (namespace, pod, exported_namespace, exported_pod)"
_NOW = "(DCGM_FI_DEV_GPU_UTIL or 100 * DCGM_FI_PROF_GR_ENGINE_ACTIVE)"
_PEAK = "(max_over_time(DCGM_FI_DEV_GPU_UTIL[10m]) or 100 * max_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE[10m]))"
PERCENT_QUERY = f"avg {_BY} {_NOW}"
PEAK_QUERY = f"max {_BY} {_PEAK}"
MEMORY_QUERY = f"sum {_BY} (DCGM_FI_DEV_FB_USED)"  # MiB


class MeasuredGpus:
    """`current` is by the pods' keys; it is replaced as a whole, and never changed."""

    def __init__(self, chosen: Callable[[], Policy], *, clock: Clock, log: Log) -> None:
        self._policy = chosen
        self._clock = clock
        self._source = SourceLog(log, well="gpus_measured", ill="gpus_not_measured")
        self._measured_s = -math.inf
        self._current: Mapping[str, PodGpuUse] = {}

    @property
    def current(self) -> Mapping[str, PodGpuUse]:
        return self._current if self._clock.monotonic() - self._measured_s < STALE_S else {}

    async def run(self) -> None:
        """Ask again and again until cancelled, as long as the policy names a Prometheus."""
        asked_s = -math.inf
        while True:
            settings = settings_of(self._policy())
            if settings is None or settings.type != "prometheus":
                self._current = {}
            elif self._clock.monotonic() - asked_s >= max(settings.interval_s, INTERVAL_S_MIN):
                asked_s = self._clock.monotonic()
                await self.measure(settings)
            await self._clock.sleep(LOOK_S)

    async def measure(self, settings: Settings) -> None:
        """Ask once; what was known stays for a while where there is no answer."""
        try:
            peak = _by_pod(await ask_prometheus(settings, PEAK_QUERY))
            percent = _by_pod(await ask_prometheus(settings, PERCENT_QUERY)) if peak else {}
            memory = _by_pod(await ask_prometheus(settings, MEMORY_QUERY)) if peak else {}
        except (PumiceError, aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            self._source.failed(settings.address, error, known=len(self._current))
            return
        self._current = {
            pod: PodGpuUse(percent.get(pod, 0.0), highest, int(memory.get(pod, 0))) for pod, highest in peak.items()
        }
        self._measured_s = self._clock.monotonic()
        self._source.answered(pods=len(self._current))


def _by_pod(samples: list[Sample]) -> dict[str, float]:
    """By `namespace/pod`; GPUs that no pod has say nothing."""
    found = {}
    for sample in samples:
        labels = sample.metric
        namespace = labels.get("exported_namespace") or labels.get("namespace")
        pod = labels.get("exported_pod") or labels.get("pod")
        value = float(sample.value[1])
        if namespace and pod and math.isfinite(value):
            found[f"{namespace}/{pod}"] = max(0.0, value)
    return found


class GangGpus:
    """What gangs use, put together anew every so often; metrics tell who holds GPUs for nothing."""

    def __init__(self, measured: MeasuredGpus, meters: Meters, prices: Mapping[str, float]) -> None:
        self._measured = measured
        self._meters = meters
        self._prices = prices
        self._looked = -ANEW
        self._pods: AbstractSet[str] = frozenset()  # of whom there were measurements
        self._uses: Mapping[str, GangGpuUse] = {}

    def look(self, snapshot: Snapshot, now: Instant) -> Mapping[str, GangGpuUse]:
        measured = {**self._measured.current, **reported(snapshot.nodes.objects, now)}
        if not 0 <= now - self._looked < ANEW or measured.keys() != self._pods:
            self._looked, self._pods = now, measured.keys()
            self._uses = gang_uses(snapshot.gangs.values(), measured, now)
            self._count(snapshot)
        return self._uses

    def _count(self, snapshot: Snapshot) -> None:
        held: dict[tuple[str, ...], float] = {}
        for key, use in self._uses.items():
            if use.is_idle:
                gang = snapshot.gangs[key]
                for name, value in gpus_of(gang.occupied).items():
                    series = gang.spec.queue, name
                    held[series] = held.get(series, 0.0) + value / amounts.MILLI
        self._meters.replace("pumice_idle_gang_gpus", held.items())
        dollars = {
            series: value * self._prices[series[1]] for series, value in held.items() if series[1] in self._prices
        }
        self._meters.replace("pumice_idle_gang_dollars_per_hour", dollars.items())
