"""Which kinds are served right now: the built-in ones, and those that CustomResourceDefinitions add and take away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.local.apiserver import structures

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.local.apiserver.crds import CustomVersion
    from pumice.local.apiserver.structures import Resource

# Kinds whose objects are stored here but that no controller of this server acts upon.
UNRECONCILED = frozenset(
    {
        "replicationcontrollers",
        "deployments.apps",
        "replicasets.apps",
        "daemonsets.apps",
        "statefulsets.apps",
        "jobs.batch",
        "cronjobs.batch",
        "horizontalpodautoscalers.autoscaling",
        "ingresses.networking.k8s.io",
        "networkpolicies.networking.k8s.io",
        "limitranges",
    }
)

# A real server leaves alpha versions out unless it is told otherwise.
ALPHA = frozenset({"scheduling.k8s.io/v1alpha2"})


class Registry:
    """Every served resource by group, version and plural; `generation` rises when that changes."""

    def __init__(self, *, alpha: frozenset[str] = frozenset()) -> None:
        self.generation = 0
        self._resources: dict[tuple[str, str, str], Resource] = {}
        self._customs: dict[tuple[str, str, str], CustomVersion] = {}
        self._by_kind: dict[tuple[str, str, str], Resource] = {}
        for resource in structures.built_in_resources():
            if resource.api_version not in ALPHA or resource.api_version in alpha:
                self._add(resource)

    def _add(self, resource: Resource) -> None:
        self._resources[resource.group, resource.version, resource.plural] = resource
        self._by_kind[resource.group, resource.version, resource.kind] = resource

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._resources.get((group, version, plural))

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        group, _, version = api_version.rpartition("/")
        return self._by_kind.get((group, version, kind))

    def of_collection(self, collection: str) -> Resource:
        """The resource as which a collection's objects are stored."""
        return next(resource for resource in self._resources.values() if resource.collection == collection)

    def custom(self, resource: Resource) -> CustomVersion | None:
        return self._customs.get((resource.group, resource.version, resource.plural))

    def all(self) -> Iterable[Resource]:
        return self._resources.values()

    def serve(self, customs: Iterable[CustomVersion]) -> None:
        for custom in customs:
            self._add(custom.resource)
            key = (custom.resource.group, custom.resource.version, custom.resource.plural)
            self._customs[key] = custom
        self.generation += 1

    def withdraw(self, group: str, plural: str) -> None:
        for key in [key for key in self._customs if key[0] == group and key[2] == plural]:
            resource = self._resources.pop(key)
            del self._customs[key]
            self._by_kind.pop((resource.group, resource.version, resource.kind), None)
        self.generation += 1

    def group_versions(self) -> dict[str, list[str]]:
        """Versions of each group, preferred first: as kubectl orders them, stable before beta before alpha."""
        found: dict[str, set[str]] = {}
        for resource in self._resources.values():
            found.setdefault(resource.group, set()).add(resource.version)
        return {group: sorted(versions, key=version_rank, reverse=True) for group, versions in found.items()}


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Kubernetes' order of versions: v2 > v1 > v1beta2 > v1beta1 > v1alpha1 > anything else."""
    major, _, rest = version.removeprefix("v").partition("beta")
    if not version.startswith("v"):
        return (0, 0, 0, version)
    if rest.isdigit() and major.isdigit():
        return (2, int(major), int(rest), "")
    major, _, rest = version.removeprefix("v").partition("alpha")
    if rest.isdigit() and major.isdigit():
        return (1, int(major), int(rest), "")
    return (3, int(major), 0, "") if major.isdigit() else (0, 0, 0, version)
