import zoneinfo

import pytest
from tests.unit.scheduling.clusters import (
    a_gang,
    a_group,
    a_node,
    a_pod,
    a_priority_class,
    binds,
    evicted,
    plan_for,
    policy,
    report,
    session_for,
)

from pumice.instant import MINUTE, parse_instant
from pumice.scheduling.core.memory import EMPTY, Memory
from pumice.scheduling.core.policy import PolicyError
from pumice.scheduling.core.verdict import Cure
from pumice.scheduling.plugins.tdm import MEMORY, TdmMemory, is_within, minute_of_day, next_edge

PREEMPTABLE = {"volcano.sh/preemptable": "true"}


def at(clock, day="2026-01-15"):
    return parse_instant(f"{day}T{clock}:00Z")


def tdm(actions="allocate", *, zone=None, **windows):
    arguments = {f"tdm.revocable-zone.{name}": window for name, window in windows.items()}
    if zone:
        arguments["tdm.time-zone"] = zone
    return policy(actions, ["gang", {"name": "tdm", "arguments": arguments}])


def a_revocable_node(name="n1", zone="night", **node):
    return a_node(name, labels={"volcano.sh/revocable-zone": zone}, **node)


def is_open(window, clock, *, zone=None, day="2026-01-15"):
    """Whether a preemptable pod finds its way onto a node of the zone."""
    pod = a_pod("p", gang="g", annotations=PREEMPTABLE)
    chosen = tdm(night=window, zone=zone)
    return bool(binds(plan_for(a_revocable_node(), a_group("g"), pod, policy=chosen, now=at(clock, day))))


def refusals(decisions):
    """What tdm says about the nodes, and what would help."""
    return {reason.text: reason.cure for reason in report(decisions, "g").reasons if reason.plugin == "tdm"}


@pytest.mark.parametrize(
    ("window", "clock", "expected"),
    [
        ("10:00-12:00", "09:59", False),
        ("10:00-12:00", "10:00", True),
        ("10:00-12:00", "11:59", True),
        ("10:00-12:00", "12:00", False),
        ("22:00-06:00", "21:59", False),
        ("22:00-06:00", "23:59", True),
        ("22:00-06:00", "00:00", True),  # after midnight the same night goes on
        ("22:00-06:00", "05:59", True),
        ("22:00-06:00", "06:00", False),
        ("8:30-8:30", "03:00", True),  # all day
    ],
)
def test_a_window_is_open_from_its_start_to_its_end_over_midnight_if_need_be(window, clock, expected):
    assert is_open(window, clock) is expected


def test_windows_follow_the_clock_of_the_time_zone_that_is_written_down():
    assert is_open("22:00-06:00", "20:30") is False
    assert is_open("22:00-06:00", "21:30", zone="Europe/Berlin") is True
    # In summer Berlin is two hours ahead, in winter one.
    assert is_open("22:00-06:00", "20:30", zone="Europe/Berlin", day="2026-07-15") is True
    assert is_open("22:00-06:00", "20:30", zone="Europe/Berlin", day="2026-01-15") is False


def test_a_pod_that_may_not_be_preempted_stays_off_revocable_nodes():
    decisions = plan_for(a_revocable_node(), a_gang("g", 1), policy=tdm(night="00:00-00:00"), now=at("12:00"))
    assert binds(decisions) == {}
    assert refusals(decisions) == {"not allow to dispatch to revocable node": Cure.CHANGE}


def test_a_closed_zone_and_one_that_nobody_configured_say_so():
    decisions = plan_for(
        a_revocable_node("n1", "night"),
        a_revocable_node("n2", "noon"),
        a_group("g"),
        a_pod("p", gang="g", annotations=PREEMPTABLE),
        policy=tdm(night="22:00-6:00"),
        now=at("12:00"),
    )
    assert refusals(decisions) == {
        "current time beyond revocable zone night:22:00-06:00": Cure.WAITING,
        "revocable zone noon not support": Cure.CHANGE,
    }


def test_a_gang_that_waits_for_a_window_is_not_told_that_it_can_never_run():
    pod = a_pod("p", gang="g", annotations=PREEMPTABLE)
    decisions = plan_for(a_revocable_node(), a_group("g"), pod, policy=tdm(night="22:00-06:00"), now=at("12:00"))
    assert [reason.plugin for reason in report(decisions, "g").reasons] == ["tdm"]


def test_nobody_is_evicted_from_nodes_whose_window_is_closed_for_the_sake_of_others():
    full = a_gang("low", 4, running=["n1"] * 4, group={"phase": "Running"})
    urgent = a_gang("urgent", 1, annotations=PREEMPTABLE, group={"priority_class": "high"})
    chosen = policy(
        "preempt",
        [
            "priority",
            {"name": "tdm", "enablePreemptable": False, "arguments": {"tdm.revocable-zone.night": "22:00-06:00"}},
        ],
    )
    objects = [a_priority_class("high", 9), a_revocable_node(), full, urgent]
    assert evicted(plan_for(*objects, policy=chosen, now=at("12:00"))) == []
    assert evicted(plan_for(*objects, policy=chosen, now=at("23:00"))) == ["low-w-3"]


def test_preemptable_pods_prefer_revocable_nodes_and_ordinary_nodes_take_anybody():
    decisions = plan_for(
        a_node("a-plain"),
        a_revocable_node("b-revocable"),
        a_group("g", 2),
        a_pod("p", gang="g", annotations=PREEMPTABLE),
        a_pod("q", gang="g", annotations={"volcano.sh/revocable-zone": "*"}),
        a_gang("h", 1),
        policy=tdm(night="00:00-00:00"),
        now=at("12:00"),
    )
    assert binds(decisions) == {"p": "b-revocable", "q": "b-revocable", "h-w-0": "a-plain"}


# ----------------------------------------------------------------------------------------------- emptying nodes


def night_shift(size=3, notes=None, node="n1", **pods):
    group = {"phase": "Running", "annotations": notes or {}}
    pods = {"annotations": PREEMPTABLE, **pods}
    return a_gang("night-job", size, min_member=1, running=[node] * size, group=group, **pods)


def shuffle(*objects, clock, memory=EMPTY, **windows):
    return plan_for(*objects, policy=tdm("shuffle", **windows), now=at(clock), memory=memory)


def evicted_at(when):
    return Memory({"tdm": TdmMemory(when)})


def test_nodes_are_emptied_after_their_window_one_pod_of_a_gang_at_a_time():
    objects = [a_revocable_node(), night_shift()]
    assert evicted(shuffle(*objects, clock="05:00", night="22:00-06:00")) == []
    assert evicted(shuffle(*objects, clock="06:00", night="22:00-06:00")) == ["night-job-w-0"]


def test_a_disruption_budget_says_how_many_may_go_at_once():
    notes = {"volcano.sh/jdb-max-unavailable": "2"}
    objects = [a_revocable_node(), night_shift(notes=notes)]
    assert evicted(shuffle(*objects, clock="07:00", night="22:00-06:00")) == ["night-job-w-0", "night-job-w-1"]


def test_pods_on_ordinary_nodes_and_in_zones_that_nobody_configured_stay():
    objects = [a_node("n1"), a_revocable_node("n2", "noon"), night_shift(), a_gang("h", 1, running=["n2"])]
    assert evicted(shuffle(*objects, clock="07:00", night="22:00-06:00")) == []


def test_a_pod_that_is_not_preemptable_is_never_moved():
    objects = [a_revocable_node(), night_shift(annotations={"volcano.sh/preemptable": "false"})]
    assert evicted(shuffle(*objects, clock="07:00", night="22:00-06:00")) == []


def test_evictions_happen_at_most_once_in_a_period_and_only_they_start_it():
    busy = [a_revocable_node(), night_shift()]
    quiet = shuffle(a_revocable_node(), night_shift(0), clock="06:00", night="22:00-06:00")
    assert (evicted(quiet), quiet.memory.of(MEMORY)) == ([], TdmMemory(None))
    first = shuffle(*busy, clock="06:00", memory=quiet.memory, night="22:00-06:00")
    assert (evicted(first), first.memory.of(MEMORY)) == (["night-job-w-0"], TdmMemory(at("06:00")))
    too_soon = shuffle(*busy, clock="06:00", memory=evicted_at(at("06:00") - MINUTE + 1), night="22:00-06:00")
    assert (evicted(too_soon), too_soon.next_change) == ([], at("06:00") + 1)
    again = shuffle(*busy, clock="06:00", memory=evicted_at(at("06:00") - MINUTE), night="22:00-06:00")
    assert evicted(again) == ["night-job-w-0"]


def test_an_eviction_in_the_future_was_noted_by_a_clock_that_was_ahead_and_starts_no_period():
    memory = evicted_at(at("06:00") + 60 * MINUTE)
    decisions = shuffle(a_revocable_node(), night_shift(), clock="06:00", memory=memory, night="22:00-06:00")
    assert evicted(decisions) == ["night-job-w-0"]


# ----------------------------------------------------------------------------------------------- the clock


@pytest.mark.parametrize(
    ("clock", "windows", "expected"),
    [
        ("12:00", {"night": "22:00-06:00"}, "22:00"),
        ("21:59", {"night": "22:00-06:00"}, "22:00"),
        ("05:59", {"night": "22:00-06:00"}, "06:00"),
        ("12:00", {"night": "22:00-06:00", "noon": "12:00-12:30"}, "12:30"),
    ],
)
def test_the_next_change_is_the_next_edge_of_a_window(clock, windows, expected):
    assert shuffle(a_revocable_node(), clock=clock, **windows).next_change == at(expected)


def test_an_edge_that_has_just_passed_is_a_day_away():
    assert shuffle(a_revocable_node(), clock="22:00", all="22:00-22:00").next_change == at("22:00") + 1440 * MINUTE


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "UTC"])
def test_no_zone_opens_or_closes_before_the_next_change(zone):
    """Over two days around each change of the clocks of 2026, minute by minute."""
    place, windows = zoneinfo.ZoneInfo(zone), [(135, 165), (60, 210)]
    for day in ("2026-03-28", "2026-04-04", "2026-10-03", "2026-10-24"):
        begin, known, due = parse_instant(f"{day}T00:00:00Z"), None, 0
        for now in range(begin, begin + 2 * 1440 * MINUTE, MINUTE):
            is_open = [is_within(minute_of_day(now, place), window) for window in windows]
            if is_open != known or now >= due:
                assert known is None or now >= due, (zone, now)
                known, due = is_open, next_edge(windows, now, place)


# ----------------------------------------------------------------------------------------------- preempting


def preempting(*objects):
    chosen = policy("preempt", [{"name": "tdm", "arguments": {"tdm.revocable-zone.night": "22:00-06:00"}}])
    return plan_for(a_priority_class("high", 9), *objects, policy=chosen, now=at("12:00"))


def test_a_pod_that_says_nothing_preempts_preemptable_ones_on_ordinary_nodes_within_budgets():
    budget = {"volcano.sh/jdb-min-available": "1"}
    full = [a_node(cpu="2"), a_gang("low", 2, running=["n1"] * 2, group={"phase": "Running", "annotations": budget})]
    urgent = a_gang("urgent", 1, group={"priority_class": "high"})
    assert evicted(preempting(*full, urgent)) == ["low-w-1"]
    urgent = a_gang("urgent", 2, group={"priority_class": "high"})
    assert evicted(preempting(*full, urgent)) == []


def test_a_pod_that_says_it_may_be_preempted_preempts_nobody():
    full = [a_node(cpu="2"), a_gang("low", 2, running=["n1"] * 2, group={"phase": "Running"})]
    for notes in (PREEMPTABLE, {"volcano.sh/revocable-zone": "*"}):
        modest = a_gang("modest", 1, annotations=notes, group={"priority_class": "high"})
        assert evicted(preempting(*full, modest)) == []


def test_revocable_nodes_are_not_emptied_for_others():
    session = session_for(
        a_revocable_node("n1"),
        a_gang("low", 1, running=["n1"], group={"phase": "Running"}),
        a_gang("urgent", 1),
        policy=tdm(night="00:00-00:00"),
    )
    (hook,) = [hook for hook in session.points.preemptable.hooks if hook.plugin == "tdm"]
    claimant, victim = session.gangs["default/urgent"].tasks[0], session.gangs["default/low"].tasks[0]
    assert hook.call.choose(claimant, [victim]) == []


def test_gangs_that_may_not_be_preempted_come_first_and_starve_while_anybody_waits():
    session = session_for(
        a_node(),
        a_gang("old", 1, group={"annotations": PREEMPTABLE}, created=1),
        a_gang("new", 1, created=2),
        policy=policy("allocate", "tdm"),
    )
    old, new = session.gangs["default/old"], session.gangs["default/new"]
    assert session.gang_before(new, old)
    assert (session.points.starving.holds(new), session.points.starving.holds(old)) == (True, False)


# ----------------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"tdm.revocable-zone.a": "25:00-06:00"}, r"tdm\.revocable-zone\.a: '25:00-06:00' is no window of the day"),
        ({"tdm.revocable-zone.a": "all night"}, r"write for example 22:00-06:00"),
        ({"tdm.time-zone": "Mars/Olympus"}, r"no time zone 'Mars/Olympus' here; write an IANA name"),
        ({"tdm.time-zone": "../../etc/passwd"}, r"write an IANA name"),
        ({"tdm.evict.period": "0s"}, r"tdm\.evict\.period: 0s is not longer than zero"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, complaint):
    with pytest.raises(PolicyError, match=complaint):
        plan_for(a_node(), policy=policy("allocate", [{"name": "tdm", "arguments": arguments}]))
