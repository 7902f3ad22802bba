"""An error in a plugin or on one gang: the others are served, no gang starts by half, and it is said."""

import pytest
from tests.unit.scheduling.clusters import a_gang, a_node, binds, plan_for, policy, report

from pumice.scheduling.core import builtin
from pumice.scheduling.core.arguments import Args
from pumice.scheduling.core.codes import Code
from pumice.scheduling.core.failures import GANGS_ASIDE_MAX
from pumice.scheduling.core.plugin import Plugin
from pumice.sdk import Reads

NODES = [a_node("n1", cpu="64"), a_node("n2", cpu="64")]


def failing(point, *, on="bad", essential=False):
    """A plugin that raises at one point: at pods or gangs whose name begins so, or (no point) as it opens."""

    def hook(*arguments):
        subject = arguments[0]
        name = getattr(subject, "key", "") or subject.example.key
        if name.partition("/")[2].startswith(on):
            raise KeyError(name)
        return [] if point == "filter" else 0.0 if point == "gang_order" else None

    class Failing(Plugin):
        args_type = Args

        def open(self, session):
            if not point:
                raise KeyError("opening")
            session.on.declare(Reads.EVERYTHING)
            getattr(session.on, point)(hook)

    Failing.essential = essential
    return Failing


def plan(*things, plugin, actions="enqueue, allocate, backfill"):
    text = f"{{actions: '{actions}', tiers: [{{plugins: [{{name: gang}}, {{name: predicates}}, {{name: failing}}]}}]}}"
    chosen = builtin.parse(text, "test", {"failing": plugin})
    return plan_for(NODES, *things, policy=chosen, extra_plugins={"failing": plugin})


@pytest.mark.parametrize("point", ["filter", "prefilter", "valid", "gang_order", "fixed_score"])
def test_the_gang_on_which_a_plugin_fails_is_set_aside_and_the_others_are_served(point):
    decisions = plan(a_gang("bad", 2), a_gang("good", 2), plugin=failing(point))
    assert sorted(binds(decisions)) == ["good-w-0", "good-w-1"]
    told = report(decisions, "bad")
    assert [reason.code for reason in told.reasons] == [Code.PLUGIN_FAILED]
    assert "plugin failing failed (KeyError: 'default/bad" in told.conditions[0].message
    (failure,) = decisions.failures
    assert (failure.plugin, failure.gang) == ("failing", "default/bad")
    assert "Traceback" in failure.trace


def test_no_gang_starts_by_half_where_a_plugin_fails_on_its_last_member():
    decisions = plan(a_gang("g", 2), a_gang("good", 1), plugin=failing("filter", on="g-w-1"))
    assert sorted(binds(decisions)) == ["good-w-0"]


def test_a_plugin_that_fails_as_it_opens_is_set_aside():
    decisions = plan(a_gang("good", 2), plugin=failing(""))
    assert len(binds(decisions)) == 2
    assert [(failure.plugin, failure.gang) for failure in decisions.failures] == [("failing", "")]


def test_a_plugin_that_fails_on_many_gangs_is_set_aside_itself():
    gangs = [a_gang(f"bad{number}", 1) for number in range(GANGS_ASIDE_MAX + 2)]
    decisions = plan(gangs, plugin=failing("filter"))
    assert len(binds(decisions)) == 2  # those on which it had not failed yet
    assert len(decisions.failures) == GANGS_ASIDE_MAX + 1


def test_without_a_plugin_that_protects_something_nothing_is_started():
    decisions = plan(a_gang("good", 2), plugin=failing("", essential=True))
    assert binds(decisions) == {}
    assert [reason.code for reason in report(decisions, "good").reasons] == [Code.PLUGIN_FAILED]


@pytest.mark.parametrize("point", ["learn", "next_change"])
def test_a_plugin_that_answers_nonsense_is_set_aside(point):
    class Talking(Plugin):
        def open(self, session):
            """Has nothing to say until the cycle closes."""

    setattr(Talking, point, lambda self, session: "tomorrow")
    decisions = plan(a_gang("good", 2), plugin=Talking)
    assert len(binds(decisions)) == 2
    assert [failure.plugin for failure in decisions.failures] == ["failing"]


def test_an_error_that_is_no_plugins_is_raised(monkeypatch):
    monkeypatch.setattr("pumice.scheduling.core.build_decisions.close", lambda session, **_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        plan_for(NODES, a_gang("good", 2), policy=policy("allocate", "gang"))
