"""Looks at a flow when it, its Jobs or its templates change, and when pods answer otherwise than before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api.batch import Job
from pumice.api.flow import JobFlow, JobTemplate
from pumice.api.kinds import is_of_kind
from pumice.api.pods import Pod
from pumice.controllers.driver import Controller, Wake, itself
from pumice.controllers.jobflow.plan import View, plan
from pumice.controllers.jobflow.prober import Network, Prober
from pumice.controllers.operations import NOTHING_TO_DO, Plan
from pumice.kube.informer import Key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.controllers.cache import Cache
    from pumice.controllers.jobflow.prober import Ask
    from pumice.instant import Instant

_BY_TEMPLATE = "template"


def controller(cache: Cache, ask: Ask | None = None) -> Controller:
    flows, templates, jobs, pods = cache.of(JobFlow), cache.of(JobTemplate), cache.of(Job), cache.of(Pod)
    flows.index(_BY_TEMPLATE, _templates_of)
    prober = Prober(ask or Network())

    def look(_: Cache, key: Key, now: Instant) -> Plan:
        flow = flows.get(*key)
        if flow is None:
            prober.want(key, ())
            return NOTHING_TO_DO
        children = {job.metadata.name: job for job in jobs.owned_by(flow.metadata.uid)}
        found = {part.name: templates.get(key.namespace, part.name) for part in flow.spec.flows}
        view = View(
            flow=flow,
            templates={name: template for name, template in found.items() if template is not None},
            jobs=children,
            pods={name: pods.owned_by(job.metadata.uid) for name, job in children.items()} if _probes(flow) else {},
            answers=prober.answers,
        )
        decided = plan(view, now)
        prober.want(key, decided.questions)
        return decided.plan

    def users(template: JobTemplate) -> Iterable[Key]:
        return [key for flow in flows.find(_BY_TEMPLATE, template.metadata.key) for key in itself(flow)]

    wakes = (Wake(JobFlow, itself), Wake(Job, _flow_of), Wake(JobTemplate, users))
    return Controller("jobflow", look, wakes, beside=prober.run)


def _probes(flow: JobFlow) -> bool:
    return any(part.depends_on is not None and part.depends_on.probe is not None for part in flow.spec.flows)


def _templates_of(flow: JobFlow) -> Iterable[str]:
    return {f"{flow.metadata.namespace}/{part.name}" for part in flow.spec.flows}


def _flow_of(job: Job) -> Iterable[Key]:
    owner = job.metadata.controller
    is_flow = owner is not None and is_of_kind(owner, JobFlow)
    return (Key(job.metadata.namespace, owner.name),) if owner is not None and is_flow else ()
