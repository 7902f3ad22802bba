"""Which group a pod belongs to: one answer for the scheduler, the controllers, admission and the command line.

The first of these counts: the PodGroup that an annotation names, the group of Kubernetes' own that its spec names, and the PodGroup
that is made for pods that name none. An empty name is no name.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pumice.api import names
from pumice.api.pods import Pod
from pumice.api.scheduling import implied_group


class Group(NamedTuple):
    """A group of the pod's own namespace, whatever a tenant writes."""

    name: str
    is_native: bool = False  # of scheduling.k8s.io
    is_implied: bool = False  # made for its workload or for the pod itself; there may be none yet


def named_group(annotations: Mapping[str, str]) -> str:
    """The PodGroup that annotations name, in either spelling; empty for none."""
    return annotations.get(names.GROUP_NAME) or annotations.get(names.VOLCANO_GROUP_NAME) or ""


def group_of(pod: Pod) -> Group:
    """The pod's group, as the pod says or implies it."""
    if named := named_group(pod.metadata.annotations):
        return Group(named)
    native = pod.spec.scheduling_group
    if native is not None and native.pod_group_name:
        return Group(native.pod_group_name, is_native=True)
    return Group(implied_group(pod.metadata), is_implied=True)
