from tests.unit.scheduling.clusters import a_gang, a_node, evicted, plan_for, policy

from pumice.instant import parse_instant
from pumice.scheduling.core.arguments import Args
from pumice.scheduling.core.plugin import Plugin

NOON = parse_instant("2026-01-01T12:00:00Z")


def wishing(*suffixes, as_guard=False):
    """A plugin that wants those pods evicted, or as a guard wants them kept."""

    class Wishing(Plugin):
        args_type = Args

        def __init__(self, args, option):
            pass

        def open(self, session):
            if as_guard:
                session.on.shuffled.guard(
                    lambda victims: [task for task in victims if not task.name.endswith(suffixes)]
                )
            else:
                session.on.shuffled(lambda running: [task for task in running if task.name.endswith(suffixes)])

    return Wishing


def shuffle(*tiers, **plugins):
    """The pods evicted; tiers list names of plugins given as keywords."""
    listed = [{"plugins": [{"name": name} for name in tier.split()]} for tier in tiers]
    chosen = policy("shuffle", "gang")
    options = tuple(
        type(chosen.options[0])(plugin["name"], number, {}, {})
        for number, tier in enumerate(listed)
        for plugin in tier["plugins"]
    )
    chosen = type(chosen)(chosen.actions, options)
    objects = [a_node(cpu="9"), a_gang("g", 4, min_member=3, running=["n1"] * 3)]
    return plan_for(*objects, policy=chosen, extra_plugins=plugins)


def test_wishes_of_one_tier_are_put_together_and_each_pod_goes_once():
    decisions = shuffle("a b", a=wishing("0", "1"), b=wishing("1", "2"))
    assert evicted(decisions) == ["g-w-0", "g-w-1", "g-w-2"]


def test_the_first_tier_that_wishes_for_anything_decides():
    assert evicted(shuffle("a", "b", a=wishing("0"), b=wishing("1"))) == ["g-w-0"]
    assert evicted(shuffle("a", "b", a=wishing("nobody"), b=wishing("1"))) == ["g-w-1"]


def test_a_guard_of_any_tier_keeps_its_own():
    decisions = shuffle("a", "guard", a=wishing("0", "1"), guard=wishing("1", as_guard=True))
    assert evicted(decisions) == ["g-w-0"]


def test_only_pods_that_run_are_offered():
    assert evicted(shuffle("a", a=wishing("3"))) == []


def test_an_eviction_says_why_and_is_nobodys_claim():
    decisions = shuffle("a", a=wishing("0"))
    (eviction,) = decisions.evictions
    assert (eviction.rule, eviction.claimant) == ("shuffle", "")
    assert eviction.cause.text == "gang default/g falls below its minimum: 2 of 3 members stay"
    assert decisions.claims == ()


def test_nobody_is_evicted_where_nobody_wishes_it():
    assert evicted(shuffle("guard", guard=wishing("1", as_guard=True))) == []


def test_system_pods_are_nobodys_victims_here_either():
    critical = {"spec": {"priorityClassName": "system-node-critical"}}
    night = {"name": "tdm", "arguments": {"tdm.revocable-zone.night": "22:00-06:00"}}
    node = a_node(labels={"volcano.sh/revocable-zone": "night"})
    objects = [node, a_gang("g", 1, running=["n1"]), a_gang("system", 1, running=["n1"], **critical)]
    assert evicted(plan_for(*objects, policy=policy("shuffle", [night]), now=NOON)) == ["g-w-0", "system-w-0"]
    assert evicted(plan_for(*objects, policy=policy("shuffle", "conformance", [night]), now=NOON)) == ["g-w-0"]
