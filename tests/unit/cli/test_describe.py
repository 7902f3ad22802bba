"""Events of a Job, its group and its pods as one story: what was said of several of them comes once."""

from pumice.cli import describe

WHY = "pod group is not ready, 3 Pending, 3 minAvailable; Pending: 3 Unschedulable. Origin reason is train-w-0: no room"


def an_event(kind, name, reason, message, minute):
    return {
        "metadata": {"name": f"{name}.{minute}"},
        "involvedObject": {"kind": kind, "namespace": "ml", "name": name},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": f"2026-11-15T11:{minute:02}:00Z",
    }


def story(*events):
    return [(each["reason"], each["about"], each["message"], each["lastTimestamp"][14:16]) for each in events]


def test_why_a_gang_waits_is_told_once_though_its_group_its_pods_and_its_job_say_it():
    events = [
        an_event("PodGroup", "train-1", "Unschedulable", f"3/3 tasks in gang unschedulable: {WHY}", 1),
        an_event("Pod", "train-w-0", "FailedScheduling", f"3/3 tasks in gang unschedulable: {WHY}", 1),
        an_event("Pod", "train-w-1", "FailedScheduling", f"3/3 tasks in gang unschedulable: {WHY}", 1),
        an_event(
            "Job",
            "train",
            "PodGroupPending",
            f"PodGroup ml:train unschedulable, reason: 2/3 tasks in gang unschedulable: {WHY}",
            2,
        ),
        an_event("Pod", "train-w-0", "Evicted", "made room", 3),
    ]
    assert story(*describe.merge(events)) == [
        ("Unschedulable", "podgroup/train-1, job/train, 2 pods", f"3/3 tasks in gang unschedulable: {WHY}", "02"),
        ("Evicted", "pod/train-w-0", "made room", "03"),
    ]


def test_another_reason_is_another_line():
    events = [
        an_event("PodGroup", "train-1", "Unschedulable", "queue q is closed", 1),
        an_event("Pod", "train-w-0", "FailedScheduling", WHY, 2),
    ]
    assert [each["about"] for each in describe.merge(events)] == ["podgroup/train-1", "pod/train-w-0"]
