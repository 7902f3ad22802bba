"""What reviewed objects refer to, answered from informers: a moment old at worst.

Sums over all nodes and the tree of queues are kept and made anew only when something in them has changed: a review must not
take longer on a larger cluster.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

from pumice.api.core import Namespace, Node
from pumice.api.flow import JobFlow, JobTemplate
from pumice.api.priority import PriorityClass
from pumice.api.scheduling import ROOT_QUEUE, PodGroup, Queue
from pumice.api.validation import ClusterSize
from pumice.kube.informer import objects_in
from pumice.quantity import compare, parse_milli, parse_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pumice.api.meta import ResourceList
    from pumice.kube.informer import Informers, News


class InformerLookup:
    """The Lookup of api.validation. The caller runs the informers."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._queues = informers.of(Queue)
        self._templates = informers.of(JobTemplate)
        self._namespaces = informers.of(Namespace)
        self._classes = informers.of(PriorityClass)
        self._allocatable: dict[str, ResourceList] = {}
        self._size: ClusterSize | None = None
        self._children: dict[str, list[Queue]] | None = None
        informers.of(Node).subscribe(self._see_nodes)
        self._queues.subscribe(self._see_queues)

    def queue(self, name: str) -> Queue | None:
        return self._queues.get("", name)

    def queues(self) -> Iterable[Queue]:
        return tuple(self._queues.objects.values())  # in one step: a large review is judged beside the loop that writes

    def children(self, queue: str) -> Sequence[Queue]:
        children = self._children
        if children is None:
            children = collections.defaultdict(list)
            for each in self.queues():
                if each.metadata.name != ROOT_QUEUE:
                    children[each.spec.parent or ROOT_QUEUE].append(each)
            self._children = children
        return children.get(queue, ())

    def job_template(self, namespace: str, name: str) -> JobTemplate | None:
        return self._templates.get(namespace, name)

    def namespace_annotations(self, namespace: str) -> Mapping[str, str]:
        found = self._namespaces.get("", namespace)
        return found.metadata.annotations if found is not None else {}

    def priority_class(self, name: str) -> PriorityClass | None:
        return self._classes.get("", name)

    def pod_group(self, namespace: str, name: str) -> PodGroup | None:
        """Its informer begins with the first question: only queue rights ask."""
        return self._informers.of(PodGroup).get(namespace, name)

    def pod_groups(self) -> Iterable[PodGroup]:
        """All; only limits of submitted gangs ask, as above."""
        return tuple(self._informers.of(PodGroup).objects.values())

    def job_flows(self, namespace: str) -> Iterable[JobFlow]:
        """Of one namespace; only queue rights ask, as above."""
        flows = tuple(self._informers.of(JobFlow).objects.items())
        return (flow for key, flow in flows if key.namespace == namespace)

    def cluster_size(self) -> ClusterSize | None:
        size = self._size
        if size is None and self._allocatable:
            size = self._size = _size(tuple(self._allocatable.values()))
        return size

    # ------------------------------------------------------------------------------------------------- news

    def _see_queues(self, _: Sequence[News]) -> None:
        self._children = None

    def _see_nodes(self, news: Sequence[News]) -> None:
        """Heartbeats change a node, but not what it has."""
        for node, is_gone in objects_in(news, Node):
            name = node.metadata.name
            if is_gone:
                self._allocatable.pop(name, None)
                self._size = None
            elif self._allocatable.get(name) != node.status.allocatable:
                self._allocatable[name] = node.status.allocatable
                self._size = None


def _size(nodes: Iterable[ResourceList]) -> ClusterSize:
    total: dict[str, int] = {}
    largest: dict[str, str | int | float] = {}
    for allocatable in nodes:
        for name, quantity in allocatable.items():
            total[name] = total.get(name, 0) + _units(name, quantity)
            if name not in largest or compare(largest[name], quantity) < 0:
                largest[name] = quantity
    return ClusterSize(total=_quantities(total), largest_node=largest)


def _units(name: str, quantity: str | float) -> int:
    return parse_milli(quantity) if name == "cpu" else parse_value(quantity)


def _quantities(total: Mapping[str, int]) -> ResourceList:
    return {name: f"{value}m" if name == "cpu" else value for name, value in total.items()}
