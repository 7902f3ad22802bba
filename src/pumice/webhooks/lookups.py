"""What reviewed objects refer to, answered from informers: a moment old at worst."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api.core import Namespace, Node
from pumice.api.flow import JobTemplate
from pumice.api.priority import PriorityClass
from pumice.api.scheduling import ROOT_QUEUE, Queue
from pumice.api.validation import ClusterSize
from pumice.quantity import compare, parse_milli, parse_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pumice.api.meta import ResourceList
    from pumice.kube.informer import Informers


class InformerLookup:
    """The Lookup of api.validation. Somebody else runs the informers."""

    def __init__(self, informers: Informers) -> None:
        self._queues = informers.of(Queue)
        self._templates = informers.of(JobTemplate)
        self._namespaces = informers.of(Namespace)
        self._classes = informers.of(PriorityClass)
        self._nodes = informers.of(Node)

    def queue(self, name: str) -> Queue | None:
        return self._queues.get("", name)

    def queues(self) -> Iterable[Queue]:
        return self._queues.objects.values()

    def children(self, queue: str) -> Sequence[Queue]:
        return [
            each
            for each in self.queues()
            if each.metadata.name != ROOT_QUEUE and (each.spec.parent or ROOT_QUEUE) == queue
        ]

    def job_template(self, namespace: str, name: str) -> JobTemplate | None:
        return self._templates.get(namespace, name)

    def namespace_annotations(self, namespace: str) -> Mapping[str, str]:
        found = self._namespaces.get("", namespace)
        return found.metadata.annotations if found is not None else {}

    def priority_class(self, name: str) -> PriorityClass | None:
        return self._classes.get("", name)

    def cluster_size(self) -> ClusterSize | None:
        nodes = self._nodes.objects.values()
        if not nodes:
            return None
        total: dict[str, int] = {}
        largest: dict[str, str | int | float] = {}
        for node in nodes:
            for name, quantity in node.status.allocatable.items():
                total[name] = total.get(name, 0) + _units(name, quantity)
                if name not in largest or compare(largest[name], quantity) < 0:
                    largest[name] = quantity
        return ClusterSize(total=_quantities(total), largest_node=largest)


def _units(name: str, quantity: str | float) -> int:
    return parse_milli(quantity) if name == "cpu" else parse_value(quantity)


def _quantities(total: Mapping[str, int]) -> ResourceList:
    return {name: f"{value}m" if name == "cpu" else value for name, value in total.items()}
