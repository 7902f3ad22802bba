import pytest

from pumice.api import decoding
from pumice.api.pods import Pod
from pumice.instant import SECOND, parse_instant
from pumice.local.nodes.containers import (
    ContainerRecord,
    Ended,
    PodReport,
    Role,
    Running,
    Waiting,
    back_off_s,
    phase_of,
    records_of,
    restarts,
)

NOON = parse_instant("2026-01-31T12:00:00Z")
FRESH = Waiting("ContainerCreating")
UP = Running(NOON)


def ended(code):
    return Ended(code, NOON, NOON + SECOND)


def record(role, state, last=None):
    return ContainerRecord("c", "image", role, state, last)


def init(state, last=None):
    return record(Role.INIT, state, last)


def sidecar(state, last=None):
    return record(Role.SIDECAR, state, last)


def main(state, last=None):
    return record(Role.MAIN, state, last)


@pytest.mark.parametrize(
    ("records", "policy", "phase"),
    [
        ([main(FRESH)], "Always", "Pending"),
        ([main(UP)], "Always", "Running"),
        ([main(UP), main(FRESH)], "Always", "Pending"),
        ([main(UP), main(ended(1))], "Never", "Running"),
        ([main(ended(0))], "Never", "Succeeded"),
        ([main(ended(0)), main(ended(3))], "Never", "Failed"),
        ([main(ended(0)), main(ended(0))], "OnFailure", "Succeeded"),
        ([main(ended(3))], "OnFailure", "Running"),
        ([main(ended(0))], "Always", "Running"),
        ([main(Waiting("CrashLoopBackOff"), ended(3))], "Always", "Running"),
        ([init(UP), main(FRESH)], "Never", "Pending"),
        ([init(ended(0)), main(FRESH)], "Never", "Pending"),
        ([init(ended(1)), main(FRESH)], "Never", "Failed"),
        ([init(ended(1)), main(FRESH)], "OnFailure", "Pending"),
        ([init(Waiting("CrashLoopBackOff"), ended(1)), main(FRESH)], "Always", "Pending"),
        ([sidecar(FRESH), main(FRESH)], "Never", "Pending"),
        ([sidecar(UP), main(UP)], "Never", "Running"),
        ([sidecar(UP), main(ended(0))], "Never", "Running"),
        ([sidecar(ended(143)), main(ended(0))], "Never", "Succeeded"),
        ([sidecar(Waiting("CrashLoopBackOff"), ended(1)), main(UP)], "Never", "Running"),
    ],
)
def test_a_phase_sums_up_the_containers(records, policy, phase):
    assert phase_of(records, policy) == phase


@pytest.mark.parametrize(
    ("records", "phase"),
    [
        ([main(ended(0))], "Succeeded"),
        ([main(ended(143))], "Failed"),
        ([main(FRESH)], "Failed"),
        ([init(ended(1)), main(FRESH)], "Failed"),
    ],
)
def test_a_pod_that_is_over_has_ended_whatever_its_restart_policy(records, phase):
    assert phase_of(records, "Always", is_over=True) == phase


@pytest.mark.parametrize(
    ("role", "policy", "code", "expected"),
    [
        (Role.MAIN, "Always", 0, True),
        (Role.MAIN, "OnFailure", 0, False),
        (Role.MAIN, "OnFailure", 1, True),
        (Role.MAIN, "Never", 1, False),
        (Role.INIT, "Always", 0, False),
        (Role.INIT, "Always", 1, True),
        (Role.INIT, "Never", 1, False),
        (Role.SIDECAR, "Never", 0, True),
    ],
)
def test_the_restart_policy_decides_whether_an_end_is_final(role, policy, code, expected):
    assert restarts(role, policy, code) is expected


def test_back_off_is_nothing_at_first_then_doubles_up_to_five_minutes():
    assert [back_off_s(ends) for ends in range(1, 9)] == [0, 10, 20, 40, 80, 160, 300, 300]
    assert back_off_s(10_000) == 300


def test_records_stand_in_the_order_in_which_containers_start():
    spec = {
        "initContainers": [{"name": "fetch"}, {"name": "proxy", "restartPolicy": "Always"}],
        "containers": [{"name": "train", "image": "i"}],
    }
    records = records_of(decoding.decode_value(Pod, {"spec": spec}).spec)
    assert [(each.name, each.role) for each in records] == [
        ("fetch", Role.INIT),
        ("proxy", Role.SIDECAR),
        ("train", Role.MAIN),
    ]
    assert records[2].state == Waiting("PodInitializing")


def test_a_restarted_container_remembers_how_it_last_ended():
    record = main(FRESH)
    record.start(NOON)
    assert (record.restarts, record.is_ready) == (0, True)
    record.end(3, NOON + SECOND)
    record.wait("CrashLoopBackOff", "wait")
    assert record.last == Ended(3, NOON, NOON + SECOND)
    record.start(NOON + 2 * SECOND)
    status = record.as_json()
    assert status["restartCount"] == 1
    assert status["state"] == {"running": {"startedAt": "2026-01-31T12:00:02Z"}}
    assert status["lastState"]["terminated"] == {
        "exitCode": 3,
        "reason": "Error",
        "startedAt": "2026-01-31T12:00:00Z",
        "finishedAt": "2026-01-31T12:00:01Z",
    }


def report(*records, policy="Never", **facts):
    return PodReport(records=list(records), restart_policy=policy, host_ip="127.64.0.1", started_at=NOON, **facts)


def conditions(status):
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in status["conditions"]}


def test_a_running_pod_is_ready_and_initialized():
    told = report(main(UP), pod_ip="127.64.0.2", has_network=True, generation=4).as_json(NOON)
    assert told["phase"] == "Running"
    assert told["podIPs"] == [{"ip": "127.64.0.2"}]
    assert told["observedGeneration"] == 4
    assert set(conditions(told).values()) == {("True", None, None)}
    assert {each["observedGeneration"] for each in told["conditions"]} == {4}


def test_a_pod_that_waits_for_its_init_containers_says_which():
    told = conditions(report(init(UP), main(FRESH)).as_json(NOON))
    assert told["Initialized"] == ("False", "ContainersNotInitialized", "containers with incomplete status: [c]")
    assert told["Ready"] == ("False", "ContainersNotReady", "containers with unready status: [c]")


@pytest.mark.parametrize(("code", "reason"), [(0, "PodCompleted"), (1, "PodFailed")])
def test_a_pod_that_ended_is_not_ready_and_says_how_it_ended(code, reason):
    told = conditions(report(main(ended(code))).as_json(NOON))
    assert told["Ready"] == told["ContainersReady"] == ("False", reason, None)


def test_a_condition_keeps_its_time_until_its_status_changes():
    story = report(main(UP))
    story.adopt([("Ready", "True", "2026-01-31T11:00:00Z")])

    def since(now):
        return next(each["lastTransitionTime"] for each in story.as_json(now)["conditions"] if each["type"] == "Ready")

    assert since(NOON) == since(NOON + SECOND) == "2026-01-31T11:00:00Z"
    story.records[0].end(0, NOON)
    assert since(NOON + SECOND) == "2026-01-31T12:00:01Z"


def test_a_pod_that_is_declared_failed_has_failed_whatever_its_containers_say():
    told = report(main(UP), failed=True, reason="DeadlineExceeded", message="too long").as_json(NOON)
    assert (told["phase"], told["reason"], told["message"]) == ("Failed", "DeadlineExceeded", "too long")


@pytest.mark.parametrize(
    ("records", "before"), [([main(ended(0))], "Running"), ([init(ended(1)), main(FRESH)], "Pending")]
)
def test_the_end_of_a_pod_is_not_told_before_it_has_given_everything_back(records, before):
    story = report(*records, is_settled=False)
    assert story.phase == before
    story.is_settled = True
    assert story.phase in {"Succeeded", "Failed"}
