"""Questions about the last cycle that the engine has to plan for: what would start a gang, what a different cluster would do."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec

from pumice import digits
from pumice.errors import BadInput, NotFound, PumiceError
from pumice.processes import fork
from pumice.processes.access import Denied
from pumice.processes.policies import parse_policy
from pumice.processes.requirements import kinds_of
from pumice.scheduling.whatif import scenario, single_changes
from pumice.scheduling.whatif.suggestion import Kind, Suggestions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pumice.readmodel.build import Cycle
    from pumice.scheduling.core.policy import Policy
    from pumice.scheduling.time.forecast import World

AT_ONCE = 1  # each takes a core; others wait
WAITING_MAX = 16  # more are sent away
LIMIT_S = 60.0
ITEMS_MAX = 100  # of one parameter, separated by commas
POLICY_BYTES_MAX = 16 * 2**10  # it travels in an address: quoted, no longer than the server's line
PARAMETERS = ("add-nodes", "like", "drain", "queue", "without", "policy")


class Questions:
    """Plans for those who ask, one after the other, each in a child process."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def suggestions(self, cycle: Cycle, key: str, *, sees_all: bool) -> bytes:
        """Single changes that would start a gang; who may not list others' gangs is not told their names."""
        question, decisions = cycle.question, cycle.decisions
        if key not in decisions.gangs or key not in cycle.snapshot.gangs:
            raise Denied(404, f"no gang {key} was seen in the last cycle of this scheduler")
        body = await self._plan(lambda: msgspec.json.encode(single_changes.suggestions(question, decisions, key)))
        if sees_all:
            return body
        return msgspec.json.encode(own_only(msgspec.json.decode(body, type=Suggestions), key))

    async def what_if(self, cycle: Cycle, query: Mapping[str, str]) -> bytes:
        """What one cycle would do in a different cluster, and when those who wait would start there."""
        wanted, text, world = scenario_of(query), query.get("policy", ""), cycle.world
        assert world is not None, "a scheduler tells it with every cycle"
        if len(text.encode()) > POLICY_BYTES_MAX:
            step = "`pumice what-if --policy FILE` takes larger ones"
            raise Denied(400, f"the policy has {len(text.encode())} bytes, {POLICY_BYTES_MAX} at most; {step}")

        def answer() -> bytes:
            there = msgspec.structs.replace(wanted, policy=_policy(text, world)) if text else wanted
            return msgspec.json.encode(scenario.compare(world, there, cpu=time.process_time))

        return await self._plan(answer)

    async def _plan(self, question: Callable[[], bytes]) -> bytes:
        if self._waiting >= WAITING_MAX:
            raise Denied(503, f"{WAITING_MAX} questions wait already; ask again in a moment")
        self._waiting += 1
        try:
            async with self._turns:
                return await fork.answer(question, limit_s=LIMIT_S)
        except NotFound as error:
            raise Denied(404, str(error)) from error
        except BadInput as error:
            raise Denied(400, str(error)) from error
        except PumiceError as error:
            raise Denied(500, str(error)) from error
        finally:
            self._waiting -= 1


def scenario_of(query: Mapping[str, str]) -> scenario.Scenario:
    """What is asked for, from the parameters of a URL."""
    unknown = sorted(set(query) - set(PARAMETERS))
    if unknown:
        raise Denied(400, f"unknown parameter {unknown[0]!r}; there are {', '.join(PARAMETERS)}")
    lists = {name: tuple(filter(None, query.get(name, "").split(","))) for name in ("drain", "queue", "without")}
    for name, items in lists.items():
        if len(items) > ITEMS_MAX:
            raise Denied(400, f"{name}: {len(items)} items; {ITEMS_MAX} at most")
    count = digits.whole_number(query.get("add-nodes", "0"), most=scenario.NODES_ADDED_MAX)
    if count is None:
        raise Denied(400, f"add-nodes={query['add-nodes'][:64]}: expected a number up to {scenario.NODES_ADDED_MAX}")
    try:
        queues = tuple(scenario.queue_change(each) for each in lists["queue"])
    except BadInput as error:
        raise Denied(400, str(error)) from error
    return scenario.Scenario(count, query.get("like", ""), lists["drain"], queues, lists["without"])


def _policy(text: str, world: World) -> Policy:
    """The policy in the text, where a cycle under it needs no more than this process knows."""
    policy = parse_policy(text, "of the question", world.extra_plugins)
    if policy.option("extender") is not None:
        raise BadInput("policy of the question: plugin extender: no program is asked for a question; leave it out")
    known = set(kinds_of(world.policy, world.extra_plugins))
    missing = sorted(kind.__name__ for kind in set(kinds_of(policy, world.extra_plugins)) - known)
    if missing:
        step = "`pumice what-if --policy FILE` lists them itself"
        raise BadInput(
            f"policy of the question: its plugins read {', '.join(missing)}, which the scheduler does not follow; {step}"
        )
    return policy


def own_only(found: Suggestions, key: str) -> Suggestions:
    """Without what names gangs of other namespaces."""
    namespace = key.partition("/")[0]
    shown = []
    for each in found.found:
        if each.kind is Kind.GANG_ENDS and each.name.partition("/")[0] != namespace:
            continue
        victims: dict[str, int] = {}
        for gang, pods in each.victims.items():
            name = gang if gang.partition("/")[0] == namespace else "others"
            victims[name] = victims.get(name, 0) + pods
        shown.append(msgspec.structs.replace(each, victims=victims))
    return msgspec.structs.replace(found, found=tuple(shown))
