"""What somebody who sees one namespace is told: nothing that names gangs of others, in sentences and in facts alike."""

import msgspec
import pytest

from pumice.api.disruptions import Party
from pumice.readmodel import model
from pumice.readmodel.selection import A_GANG_OF_OTHERS, Selection
from pumice.scheduling.core.codes import NAMES_ARE_GANGS, Code, Facts

RED = Selection(namespaces=frozenset({"red"}), nodes=False)
HEAD = {
    "version": 1,
    "leader": "me",
    "cycle": 1,
    "at": "2026-11-16T10:00:00Z",
    "policy": model.Policy("p", (), ()),
    "totals": model.Totals(1, {}, {}),
}


def a_gang(name, *reasons, namespace="red", **more):
    return model.Gang(f"{namespace}/{name}", namespace, name, "q", "Inqueue", model.Members(1), reasons=reasons, **more)


def a_reason(code, facts):
    return model.Reason(code.value, "plugin", code.text(facts), facts)


def seen(**parts):
    return RED.apply(model.State(**HEAD, **parts))


@pytest.mark.parametrize("code", Code)
def test_no_reason_names_a_gang_of_others(code):
    names = ("blue/secret", "red/mine") if code.value in NAMES_ARE_GANGS else ("one", "two")
    facts = Facts(
        gang="blue/secret", holders=("blue/secret", "red/mine"), names=names, text="{gang}", free=2, wanted=3,
        until="2026-11-16T11:00:00Z", former="2026-11-16T10:30:00Z", seconds=5,
    )  # fmt: skip
    [gang] = seen(gangs=(a_gang("mine", a_reason(code, facts)), a_gang("secret", namespace="blue"))).gangs
    assert "secret" not in msgspec.json.encode(gang).decode()
    assert f"gang {A_GANG_OF_OTHERS}" not in gang.reasons[0].reason


def test_gangs_of_the_same_reader_are_named():
    facts = Facts(queue="q", gang="red/first")
    [gang] = seen(gangs=(a_gang("mine", a_reason(Code.BEHIND, facts)),)).gangs
    assert gang.reasons[0].reason == "queue q starts its gangs in order, and red/first ahead of it does not fit yet"
    assert gang.reasons[0].facts is facts


def test_what_is_said_instead_is_a_sentence():
    facts = Facts(gang="blue/secret", until="2026-11-16T11:00:00Z")
    [gang] = seen(gangs=(a_gang("mine", a_reason(Code.WOULD_DELAY, facts)),)).gangs
    assert gang.reasons[0].reason.startswith("would delay a gang of others, for which room is reserved")
    assert gang.reasons[0].facts == Facts(until="2026-11-16T11:00:00Z")


def test_a_code_that_is_newer_than_the_reader_names_nobody_either():
    odd = model.Reason("Newer", "plugin", "waits behind blue/secret", Facts(gang="blue/secret"))
    [gang] = seen(gangs=(a_gang("mine", odd),)).gangs
    assert gang.reasons[0].reason == f"waits behind {A_GANG_OF_OTHERS}"
    assert "secret" not in str(gang)


def test_an_eviction_does_not_name_who_took_the_room():
    code = Code.VICTIM_OF_DEADLOCK
    facts = Facts(gang="red/mine", names=("blue/secret",), free=1, wanted=2, seconds=3)
    told = model.Eviction(
        1, HEAD["at"], "red/mine-0", "n1", "red/mine", "deadlock", "blue/secret", code.value, facts, code.text(facts)
    )
    [eviction] = seen(gangs=(a_gang("mine"),), evictions=(told,)).evictions
    assert "secret" not in str(eviction)
    assert "red/mine" in eviction.why


def test_an_eviction_for_others_tells_their_queue_priority_and_shares():
    gets = Party("blue/secret", "secret", "prod", "secret-user", 1000, "8", "16", "16", "u-1")
    told = model.Eviction(1, HEAD["at"], "red/mine-0", "n1", "red/mine", "reclaim", "blue/secret", room_for=gets)
    [eviction] = seen(gangs=(a_gang("mine"),), evictions=(told,)).evictions
    assert "secret" not in str(eviction)
    assert (eviction.claimant, eviction.room_for) == ("", Party("", "", "prod", "", 1000, "8", "16", "16", "u-1"))


def test_whose_surplus_it_is_is_not_told():
    facts = Facts(names=("blue/secret", "red/grown"), free=2, until="2026-11-16T11:00:00Z")
    [gang] = seen(gangs=(a_gang("mine", a_reason(Code.SURPLUS_AHEAD, facts)),)).gangs
    assert gang.reasons[0].reason.startswith("would start with the room of 2 that others, red/grown can spare")


def test_details_and_messages_of_pods_name_nobody_and_nodes_are_for_those_who_may_list_them():
    why = a_reason(Code.BEHIND, Facts(queue="q", gang="blue/secret"))
    forecast = model.Forecast("2026-11-16T10:00:00Z", nodes={"n1": 1})
    own = a_gang("mine", why, forecast=forecast)
    claims = tuple(model.Claim(gang, "", {}, {}) for gang in ("blue/secret", "red/mine"))
    detail = model.GangDetail(
        **HEAD, gang=own, pods=(model.Pod("mine-0", "Pending", message=why.reason),), claims=claims
    )
    told = RED.detail(detail)
    assert "secret" not in str(told)
    assert [each.gang for each in told.claims] == ["red/mine"]
    assert told.gang.forecast.nodes == {}
    assert Selection().detail(detail) is detail
