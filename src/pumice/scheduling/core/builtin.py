"""The policy that holds when no file is given, written out in the format of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.scheduling import actions, plugins
from pumice.scheduling.core import policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.scheduling.core.plugin import Plugin

NO_PLUGINS: Mapping[str, type[Plugin]] = {}

# What decides between nodes, the strongest first: what a pod says it prefers (2,000 points and more), GPUs in use on the node
# and closeness to the gang (1,000 each: one GPU of eight is worth 125, more than all that load can say), pods without GPUs
# away from nodes with some (175), then load. binpack and nodeorder's spreading of cpu and memory hold each other in balance.
# Closeness: pods with GPUs go to hyper nodes whose GPUs are in use, whatever their CPUs say, and 300 of those points are for any use at all: a
# hyper node that is whole stays so for the gang that needs it.
# fragmentation (1,000 at most, 500 for one GPU that is lost) says which GPUs: packing by cpu works against packing GPUs, and cards that pods
# share have no other score here; deviceshare only hands them out, the fullest first.

# reservation stands in the first tier: a gang whose patience is over is admitted although the cluster is full (overcommit), because only
# pods that exist can have a reservation.

# pdb: an eviction that a budget refuses would be planned again and again.

TEXT = """\
actions: "enqueue, allocate, preempt, reclaim, lend, backfill"
breakDeadlocks: true
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
  - name: pdb
  - name: eviction
  - name: reservation
    arguments: {patience: 5m}
- plugins:
  - name: overcommit
  - name: user-limits
  - name: fairshare
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
    arguments: {nodeaffinity.weight: 20, podaffinity.weight: 20, tainttoleration.weight: 30}
  - name: binpack
  - name: resource-strategy-fit
    arguments:
      resources:
        nvidia.com/gpu: {type: MostAllocated}
        amd.com/gpu: {type: MostAllocated}
        nvidia.com/mig-*: {type: MostAllocated}
      sra: {enable: true, resources: "nvidia.com/gpu,amd.com/gpu,volcano.sh/vgpu-number,nvidia.com/mig-*", weight: 7}
  - name: deviceshare
    arguments: {deviceshare.VGPUEnable: true, deviceshare.SchedulePolicy: binpack}
  - name: fragmentation
  - name: network-topology-aware
    arguments:
      weight: 10
      hypernode.binpack.resources: "nvidia.com/gpu,amd.com/gpu,volcano.sh/vgpu-memory"
      hypernode.binpack.resources.nvidia.com/gpu: 100
      hypernode.binpack.resources.amd.com/gpu: 100
      hypernode.binpack.resources.volcano.sh/vgpu-memory: 100
      hypernode.binpack.normal-pod.in-use: 0.3
"""


def parse(text: str | bytes, source: str, extra: Mapping[str, type[Plugin]] = NO_PLUGINS) -> policy.Policy:
    """A policy that may use every action and plugin that comes with Pumice, and those of `extra`."""
    parsed = policy.parse(text, source=source, actions=list(actions.NAMES), plugins=[*plugins.NAMES, *extra])
    actions.check(parsed)
    return parsed
