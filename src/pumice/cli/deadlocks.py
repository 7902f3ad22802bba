"""`pumice deadlocks`: who holds something while it waits for more, for whom that would be enough, and when it has to give up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pumice.cli.cluster_command import ClusterAccess, asks
from pumice.cli.results import Live, Report

if TYPE_CHECKING:
    from pumice.api.flow import JobFlow
    from pumice.readmodel import model

AGAIN_S = 2.0
AGAIN_LISTED_S = 10.0  # a listing of the whole cluster costs more than a question to the leader


@click.command()
@asks(watch=True)
@click.option(
    "--policy",
    "policy_file",
    type=click.Path(dir_okay=False),
    help="Ask no scheduler: plan one cycle over a listing of the cluster with this policy file, and write nothing.",
)
async def deadlocks(access: ClusterAccess, policy_file: str | None) -> Live:
    """Show gangs that hold room or quota while they wait for more, and JobFlows whose parts wait for one another.

    BLOCKS are gangs that would start with what is held. GIVES UP is when the scheduler ends the deadlock, where the policy says
    `breakDeadlocks: true`, as the built-in one does: the gang that loses the least work leaves and waits for all of its room again.
    """
    from pumice.cli import sources

    states = sources.States(access, "gangs", policy_file)

    async def report() -> Report:
        state, source = await states.state()
        found = data(state, await _flows(access), source)
        return Report(lambda _: text(found), found)

    return Live(report, AGAIN_S if policy_file is None else AGAIN_LISTED_S)


async def _flows(access: ClusterAccess) -> list[JobFlow]:
    """All JobFlows that this user may see; none where the cluster has no such kind."""
    from pumice.api.flow import JobFlow
    from pumice.kube import errors

    for namespace in ("", access.namespace):
        try:
            return list((await access.client.list(JobFlow, namespace=namespace)).items)
        except errors.Refused:
            continue
        except errors.NotFound:
            break
    return []


def data(state: model.State, flows: list[JobFlow], source: str) -> dict[str, Any]:
    """What `-o json` prints."""
    return {
        "at": state.at,
        "source": source,
        "policy": state.policy.source,
        "gangs": [_gang(gang, why) for gang in state.gangs for why in gang.reasons if why.code in _codes()],
        "flows": [
            {"namespace": flow.metadata.namespace, "name": flow.metadata.name, "ring": ring}
            for flow in flows
            if (ring := _ring(flow))
        ],
    }


def _codes() -> set[str]:
    from pumice.scheduling.core.codes import DEADLOCKS

    return {code.value for code in DEADLOCKS}


def _gang(gang: model.Gang, why: model.Reason) -> dict[str, Any]:
    facts = why.facts
    return {
        "namespace": gang.namespace,
        "name": gang.name,
        "job": gang.job,
        "queue": gang.queue,
        "code": why.code,
        "reason": why.reason,
        "members": gang.members.running,
        "minimum": gang.members.minimum,
        "holds": {each.resource: each.held for each in facts.amounts},
        "blocks": list(facts.names),
        "waitsFor": facts.gang,
        "givesUpAt": facts.until if not facts.gang else "",
    }


def _ring(flow: JobFlow) -> list[str]:
    from pumice.api.flow import dependencies
    from pumice.api.validation.graphs import cycle

    return cycle(dependencies(flow.spec.flows))


def text(found: dict[str, Any]) -> str:
    from pumice.cli.printing import align

    parts = []
    if found["gangs"]:
        heads = ["GANG", "QUEUE", "HOLDS", "MEMBERS", "BLOCKS", "WAITS FOR", "GIVES UP"]
        parts.append(align([heads, *(_row(each) for each in found["gangs"])]))
        parts += [f"{each['namespace']}/{each['name']} {each['reason']}\n" for each in found["gangs"]]
    if found["flows"]:
        rows = [[f"{each['namespace']}/{each['name']}", " -> ".join(each["ring"])] for each in found["flows"]]
        parts.append(align([["JOBFLOW", "EACH WAITS FOR THE NEXT"], *rows]))
    return (
        "\n".join(parts).rstrip("\n")
        or "no deadlock: nobody holds anything that others could start with while it waits"
    )


def _row(each: dict[str, Any]) -> list[str]:
    held = ", ".join(f"{value} {name}" for name, value in each["holds"].items())
    return [
        f"{each['namespace']}/{each['job'] or each['name']}",
        each["queue"],
        held or "-",
        f"{each['members']} of {each['minimum']}",
        ", ".join(each["blocks"]) or "-",
        each["waitsFor"] or "room",
        each["givesUpAt"] or "-",
    ]
