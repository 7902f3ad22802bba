"""What the view says of a gang is what the cycle decided, on whatever cluster."""

import collections

from hypothesis import given
from tests.properties.worlds import worlds
from tests.unit.scheduling.clusters import NOW, a_cluster

from pumice.cluster import amounts
from pumice.readmodel import build, changes, selection
from pumice.scheduling.core import builtin, cycle

POLICY = builtin.parse(builtin.TEXT, "built-in policy")


def publish(world, views, number=1):
    """What a cycle in this world was planned from, and what it decided; the views have it."""
    snapshot = a_cluster(*world.objects).snapshot()
    decisions = cycle.plan(snapshot, POLICY, now=NOW)
    views.publish(build.Cycle(number=number, at=NOW, snapshot=snapshot, decisions=decisions, policy=POLICY))
    return snapshot, decisions


@given(worlds())
def test_the_view_says_of_every_gang_what_was_decided(world):
    views = build.Views()
    snapshot, decisions = publish(world, views)
    state = views.state()
    assert [each.key for each in state.gangs] == list(decisions.gangs)
    bound = {bind.task.key: bind.node for commit in decisions.commits for bind in commit.binds}
    for key, report in decisions.gangs.items():
        detail, gang = views.gang(key), snapshot.gangs[key]
        told = [(each.plugin, each.reason, each.nodes, each.cure) for each in detail.gang.reasons]
        assert told == [(each.plugin, each.text, each.nodes, each.cure.value) for each in report.reasons[: len(told)]]
        assert (detail.gang.phase, detail.gang.position) == (report.phase, report.position)
        for pod, task in zip(detail.pods, gang.tasks, strict=True):
            assert pod.node == bound.get(task.key, task.node)
        fit = [(each.waiting, each.fit, each.may_take) for each in report.room]
        assert [(each.waiting, each.fit, each.may_take) for each in detail.room] == fit
    assert [each.gang for each in state.attempts] == [commit.gang for commit in decisions.commits]
    assert [each.pod for each in state.evictions] == [each.task.key for each in decisions.evictions]


@given(worlds())
def test_nodes_hold_what_their_pods_ask_for(world):
    views = build.Views()
    snapshot, decisions = publish(world, views)
    held = collections.defaultdict(list)
    for node, tasks in zip(snapshot.nodes.names, snapshot.nodes.tasks, strict=True):
        held[node] += [task.request.amounts for task in tasks]
    for commit in decisions.commits:
        for bind in commit.binds:
            held[bind.node].append(bind.task.request.amounts)
    for node in views.state().nodes:
        expected = amounts.sum_of(held[node.name])
        for name, value in amounts.read(node.used).items():
            assert value == expected.get(name, 0), (node.name, name)
    positions = collections.defaultdict(list)
    for gang in views.state().gangs:
        if gang.position:
            positions[gang.queue].append(gang.position)
    for line in positions.values():
        assert sorted(line) == list(range(1, len(line) + 1))


@given(worlds(), worlds())
def test_a_reader_of_changes_knows_what_a_reader_of_the_state_knows(first, second):
    """Whoever applies the lines of a stream has the whole state, in whatever order."""
    views, known, former = build.Views(), None, None
    for number, world in enumerate((first, second, first)):
        publish(world, views, number)
        state = views.state()
        known = changes.apply(known, changes.between(former, state), kept=build.ATTEMPTS_KEPT_MAX)
        former = state
        for part in ("nodes", "queues", "gangs", "claims"):
            told = {changes._name(each): each for each in getattr(state, part)}
            assert {changes._name(each): each for each in getattr(known, part)} == told
        assert (known.attempts, known.evictions) == (state.attempts, state.evictions)
        assert (known.cycle, known.totals, known.policy) == (state.cycle, state.totals, state.policy)


@given(worlds())
def test_who_sees_one_namespace_reads_no_name_of_another(world):
    views = build.Views()
    publish(world, views)
    state = views.state()
    for own in {each.namespace for each in state.gangs}:
        seen = selection.Selection(namespaces=frozenset({own})).apply(state)
        foreign = {each.key for each in state.gangs if each.namespace != own}
        assert {each.key for each in seen.gangs} == {each.key for each in state.gangs} - foreign
        named = {gang for node in seen.nodes for gang in (*node.gangs, *node.devices)}
        named |= {each.gang for each in (*seen.claims, *seen.attempts, *seen.evictions)}
        named |= {each.claimant for each in seen.evictions}
        assert not named & foreign
        assert [sum(node.gangs.values()) for node in seen.nodes] == [sum(node.gangs.values()) for node in state.nodes]
