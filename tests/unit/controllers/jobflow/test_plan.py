"""Which Jobs of a flow start when, from the flow and its Jobs alone."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.controllers.jobflow.flows import a_flow, a_job, a_part, a_pod, jobs, templates

from pumice import instant
from pumice.api import names
from pumice.api.batch import Job
from pumice.api.decoding import decode_value
from pumice.api.flow import (
    FlowCondition,
    FlowProbe,
    HttpGetProbe,
    HttpHeader,
    JobFlowState,
    JobFlowStatus,
    TaskStatusProbe,
    TcpSocketProbe,
)
from pumice.controllers.jobflow.plan import View, plan
from pumice.controllers.jobflow.probes import Question
from pumice.controllers.operations import Create, Delete, Emit, Patch
from pumice.local.apiserver.patches.plain import apply_merge_patch

NOW = instant.parse_instant("2026-03-28T12:00:00Z")


def created(view):
    return [each.body["metadata"]["name"] for each in plan(view, NOW).plan if isinstance(each, Create)]


def written(view):
    """The status that the plan makes, or None."""
    for each in plan(view, NOW).plan:
        if isinstance(each, Patch):
            return patched(view.flow, each)
    return None


def patched(flow, patch):
    before = msgspec.to_builtins(flow.status, enc_hook=dict)
    return apply_merge_patch(before, msgspec.json.decode(msgspec.json.encode(patch.body["status"])))


def phase(view):
    status = written(view)
    return (status or {}).get("state", {}).get("phase", view.flow.status.state.phase)


def warnings(view):
    return [each.message for each in plan(view, NOW).plan if isinstance(each, Emit) and each.type == "Warning"]


DIAMOND = (a_part("a"), a_part("b", "a"), a_part("c", "a"), a_part("d", "b", "c"))
FOUR = templates("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("done", "wanted"),
    [
        ({}, ["f-a"]),
        ({"a": "Pending"}, []),
        ({"a": "Running"}, []),
        ({"a": "Completing"}, []),
        ({"a": "Restarting"}, []),
        ({"a": "Aborted"}, []),
        ({"a": "Completed"}, ["f-b", "f-c"]),
        ({"a": "Completed", "b": "Completed", "c": "Running"}, []),
        ({"a": "Completed", "b": "Running"}, ["f-c"]),
        ({"a": "Completed", "b": "Completed", "c": "Completed"}, ["f-d"]),
        ({"a": "Completed", "b": "Failed"}, []),
        ({"a": "Terminated"}, []),
    ],
)
def test_a_job_starts_when_all_that_it_waits_for_has_completed(done, wanted):
    assert created(View(a_flow(*DIAMOND), FOUR, jobs(**done))) == wanted


def test_a_job_is_its_template_with_its_origin_and_its_owner():
    (create,) = [each for each in plan(View(a_flow(a_part("a")), FOUR), NOW).plan if isinstance(each, Create)]
    assert create.body["spec"] == {"minAvailable": 1, "queue": "research", "unheard": ["of"]}
    metadata = create.body["metadata"]
    origin = {names.CREATED_BY_JOB_TEMPLATE: "team.a", names.CREATED_BY_JOB_FLOW: "team.f"}
    assert (metadata["labels"], metadata["annotations"]) == (origin, origin)
    assert metadata["ownerReferences"][0]["uid"] == "u-flow"


def test_how_long_the_jobs_of_a_template_may_run_stands_on_the_template():
    times = {names.TIME_LIMIT: "2h", names.TIME_LIMIT_SIGNAL: "SIGUSR1", names.RUNNING_ESTIMATE: "1h"}
    template = replace(FOUR["a"], metadata=replace(FOUR["a"].metadata, annotations={**times, "example.org/mine": "1"}))
    (create,) = [
        each for each in plan(View(a_flow(a_part("a")), {"a": template}), NOW).plan if isinstance(each, Create)
    ]
    origin = {names.CREATED_BY_JOB_TEMPLATE: "team.a", names.CREATED_BY_JOB_FLOW: "team.f"}
    assert create.body["metadata"]["annotations"] == {**times, **origin}


def test_an_origin_that_is_too_long_for_a_label_is_an_annotation_only():
    flow = a_flow(a_part("a"), name="f" * 60)
    (create,) = [each for each in plan(View(flow, FOUR), NOW).plan if isinstance(each, Create)]
    assert list(create.body["metadata"]["labels"]) == [names.CREATED_BY_JOB_TEMPLATE]
    assert set(create.body["metadata"]["annotations"]) == {names.CREATED_BY_JOB_TEMPLATE, names.CREATED_BY_JOB_FLOW}


def test_a_flows_changes_are_laid_over_its_template():
    flow = a_flow(a_part("a", patch={"minAvailable": 4, "queue": "default", "maxRetry": 3}))
    (create,) = [each for each in plan(View(flow, FOUR), NOW).plan if isinstance(each, Create)]
    assert create.body["spec"] == {"minAvailable": 4, "queue": "research", "unheard": ["of"]}


def test_without_its_template_a_job_waits_and_people_are_told():
    view = View(a_flow(a_part("a"), a_part("z")), FOUR)
    assert created(view) == ["f-a"]
    assert warnings(view) == ["there is no JobTemplate z: create it, and the job is started"]


def test_a_flow_that_is_made_before_all_of_its_templates_has_no_status_yet():
    """So that whoever made it may change it at once, without a conflict; once a job can start it has one."""
    flow = a_flow(a_part("z"), a_part("a", "z"))
    assert not [each for each in plan(View(flow, FOUR), NOW).plan if isinstance(each, Patch)]
    assert warnings(View(flow, FOUR)) == ["there is no JobTemplate z: create it, and the job is started"]
    ready = View(a_flow(a_part("a")), FOUR)
    assert [each for each in plan(ready, NOW).plan if isinstance(each, Patch)]


def test_of_two_parts_with_one_name_the_first_runs():
    assert created(View(a_flow(a_part("a"), a_part("a", "b")), FOUR)) == ["f-a"]


def test_rings_and_unknown_targets_are_told_of():
    view = View(a_flow(a_part("a", "b"), a_part("b", "a"), a_part("c", "z")), FOUR)
    assert created(view) == []
    ring, unknown = sorted(warnings(view), reverse=True)
    assert "these wait for one another: a -> b -> a" in ring
    assert unknown == "c waits for z, which is no part of the flow"


# ------------------------------------------------------------------------------------------------------------ phases


def flow_in(phase, *parts, **recorded):
    conditions = {f"f-{name}": FlowCondition(phase=each) for name, each in recorded.items()}
    return a_flow(*parts, status=JobFlowStatus(state=JobFlowState(phase), conditions=conditions))


@pytest.mark.parametrize(
    ("before", "done", "after"),
    [
        ("", {}, "Pending"),
        ("Pending", {"a": "Pending"}, "Pending"),
        ("Pending", {"a": "Running"}, "Running"),
        ("Pending", {"a": "Completed", "b": "Completed"}, "Running"),
        ("Pending", {"a": "Running", "b": "Failed"}, "Failed"),
        ("Pending", {"a": "Terminated"}, "Failed"),
        ("Running", {"a": "Completed", "b": "Running"}, "Running"),
        ("Running", {"a": "Completed", "b": "Aborted"}, "Running"),
        ("Running", {"a": "Completed", "b": "Completed"}, "Succeed"),
        ("Running", {"a": "Completed", "b": "Failed"}, "Failed"),
        ("Failed", {"a": "Completed", "b": "Completed"}, "Failed"),
        ("Succeed", {"a": "Failed"}, "Succeed"),
        ("Terminating", {"a": "Running"}, "Terminating"),
    ],
)
def test_the_phase_of_a_flow_follows_its_jobs(before, done, after):
    parts = (a_part("a"), a_part("b", "a"))
    flow = flow_in(before, *parts) if before else a_flow(*parts)
    assert phase(View(flow, FOUR, jobs(**done))) == after


@pytest.mark.parametrize("end", ["Failed", "Succeed", "Terminating"])
def test_a_flow_that_is_over_starts_nothing(end):
    assert created(View(flow_in(end, a_part("a")), FOUR)) == []


def test_a_failure_is_told_once_with_its_cause():
    parts = (a_part("a"), a_part("b"))
    assert warnings(View(flow_in("Running", *parts), FOUR, jobs(a="Failed", b="Running"))) == [
        "f-a did not complete: no further job is started"
    ]
    assert warnings(View(flow_in("Failed", *parts), FOUR, jobs(a="Failed", b="Running"))) == []


def test_jobs_are_listed_by_phase_and_kept_with_their_history():
    flow = a_flow(a_part("a"), a_part("b"), a_part("c"))
    done = {
        "f-a": a_job("f-a", "Running", counts={"w": {"Running": 2}}),
        "f-b": a_job("f-b", "Completed", duration="90s"),
        "f-c": a_job("f-c", "Restarting"),
    }
    status = written(View(flow, FOUR, done))
    assert (status["runningJobs"], status["completedJobs"], status["unKnowJobs"]) == (["f-a"], ["f-b"], ["f-c"])
    assert "pendingJobs" not in status
    assert status["conditions"]["f-a"] == {
        "phase": "Running",
        "createTime": "2026-03-28T12:00:00Z",
        "taskStatusCount": {"w": {"phase": {"Running": 2}}},
    }
    assert status["jobStatusList"][1] == {
        "name": "f-b",
        "state": "Completed",
        "startTimestamp": "2026-03-28T12:00:00Z",
        "endTimestamp": "2026-03-28T12:01:30Z",
        "runningHistories": [{"startTimestamp": "2026-03-28T12:00:00Z", "state": "Completed"}],
    }


def test_a_phase_that_ends_is_closed_in_the_history():
    flow = a_flow(a_part("a"))
    first = written(View(flow, FOUR, jobs(a="Pending")))
    later = a_flow(a_part("a"), status=decode_value(JobFlowStatus, first))
    (found,) = plan(View(later, FOUR, jobs(a="Running")), NOW + instant.MINUTE).plan
    (entry,) = patched(later, found)["jobStatusList"]
    assert entry["runningHistories"] == [
        {"startTimestamp": "2026-03-28T12:00:00Z", "endTimestamp": "2026-03-28T12:01:00Z", "state": "Pending"},
        {"startTimestamp": "2026-03-28T12:01:00Z", "state": "Running"},
    ]


def test_numbers_alone_may_wait_and_phases_may_not():
    first = written(View(a_flow(a_part("a")), FOUR, {"f-a": a_job("f-a", counts={"w": {"Running": 1}})}))
    flow = a_flow(a_part("a"), status=decode_value(JobFlowStatus, first))
    (numbers,) = plan(View(flow, FOUR, {"f-a": a_job("f-a", counts={"w": {"Running": 2}})}), NOW).plan
    assert numbers.hurry is False
    (phases,) = plan(View(flow, FOUR, {"f-a": a_job("f-a", "Completed", counts={"w": {"Running": 1}})}), NOW).plan
    assert phases.hurry is True


def test_a_completed_job_that_was_cleaned_up_does_not_run_again():
    flow = flow_in("Running", *DIAMOND, a="Completed", b="Completed", c="Running")
    assert created(View(flow, FOUR, jobs(c="Completed"))) == ["f-d"]


def test_a_job_that_somebody_deleted_before_its_end_is_made_again():
    flow = flow_in("Running", *DIAMOND, a="Running")
    assert created(View(flow, FOUR, {})) == ["f-a"]


def test_jobs_of_a_flow_that_succeeded_are_deleted_where_that_is_wanted():
    done = jobs(a="Completed", b="Completed")
    kept = a_flow(a_part("a"), a_part("b"), status=JobFlowStatus(state=JobFlowState("Succeed")))
    assert list(plan(View(kept, FOUR, done), NOW).plan) == []
    dropped = a_flow(a_part("a"), retain="delete", status=JobFlowStatus(state=JobFlowState("Succeed")))
    deletes = list(plan(View(dropped, FOUR, done), NOW).plan)
    assert [(type(each), each.kind, each.uid) for each in deletes] == [
        (Delete, Job, "u-f-a"),
        (Delete, Job, "u-f-b"),
    ]


def test_a_flow_that_is_going_starts_nothing():
    assert list(plan(View(a_flow(a_part("a"), deletion_timestamp="2026-03-28T12:00:00Z"), FOUR), NOW).plan) == []


# ------------------------------------------------------------------------------------------------------------ probes


def probing(probe, **answers):
    return a_flow(a_part("server"), a_part("client", "server", probe=probe))


SERVER = templates("server", "client")


def test_a_job_may_start_beside_one_whose_task_is_far_enough():
    probe = FlowProbe(task_status_list=(TaskStatusProbe(task_name="ps", phase="Running"),))

    def view(counts, phase="Running"):
        job = a_job("f-server", phase, tasks=[("ps", 2), ("worker", 1)], counts=counts)
        return View(probing(probe), SERVER, {"f-server": job})

    assert created(view({"ps": {"Pending": 2}})) == []
    assert created(view({"ps": {"Running": 1}, "worker": {"Running": 5}})) == []
    assert created(view({"ps": {"Running": 2}})) == ["f-client"]
    assert created(view({"ps": {"Running": 1, "Succeeded": 1}})) == ["f-client"]
    assert created(view({}, "Completed")) == ["f-client"]
    assert plan(view({"ps": {"Pending": 2}}), NOW).plan.again_at is None


HTTP = FlowProbe(
    http_get_list=(HttpGetProbe(task_name="ps", path="ready?x=1", port=8080, http_header=HttpHeader("X-Key", "v")),)
)
ASKED = Question("10.0.0.1", 8080, "/ready?x=1", ("X-Key", "v"))


def http_view(*pods, answers=None, probe=HTTP, replicas=1):
    job = a_job("f-server", tasks=[("ps", replicas)])
    return View(probing(probe), SERVER, {"f-server": job}, {"f-server": pods}, answers or {})


def test_what_a_probe_asks_is_asked_of_the_pods_of_its_task_until_all_agree():
    view = http_view(a_pod("s-0", "ps"), a_pod("s-1", "other", ip="10.0.0.9"))
    assert created(view) == []
    assert plan(view, NOW).questions == (ASKED,)
    assert created(http_view(a_pod("s-0", "ps"), answers={ASKED: False})) == []
    assert created(http_view(a_pod("s-0", "ps"), answers={ASKED: True})) == ["f-client"]
    assert plan(http_view(a_pod("s-0", "ps"), answers={ASKED: True}), NOW).questions == ()


def test_pods_that_are_not_there_yet_are_waited_for():
    for pods in ((), (a_pod("s-0", "ps", phase="Pending"),), (a_pod("s-0", "ps", ip=""),)):
        found = plan(http_view(*pods), NOW)
        assert (found.questions, found.plan.again_at) == ((), NOW + instant.SECOND)
    leaving = a_pod("s-0", "ps", deletion_timestamp="2026-03-28T12:00:00Z")
    assert created(http_view(leaving, answers={ASKED: True})) == []


def test_every_pod_of_the_task_must_agree():
    pods = (a_pod("s-0", "ps"), a_pod("s-1", "ps", ip="10.0.0.2"))
    second = Question("10.0.0.2", 8080, "/ready?x=1", ("X-Key", "v"))
    assert created(http_view(*pods, replicas=2, answers={ASKED: True})) == []
    assert created(http_view(*pods, replicas=2, answers={ASKED: True, second: True})) == ["f-client"]
    assert created(http_view(pods[0], replicas=2, answers={ASKED: True})) == []


def test_a_port_may_be_asked_for_a_listener():
    probe = FlowProbe(tcp_socket_list=(TcpSocketProbe(task_name="ps", port=22),))
    view = http_view(a_pod("s-0", "ps"), probe=probe)
    assert plan(view, NOW).questions == (Question("10.0.0.1", 22),)
    assert created(http_view(a_pod("s-0", "ps"), probe=probe, answers={Question("10.0.0.1", 22): True})) == ["f-client"]


def test_a_target_that_no_probe_concerns_must_complete():
    probe = FlowProbe(task_status_list=(TaskStatusProbe(task_name="ps", phase="Running"),))
    flow = a_flow(a_part("server"), a_part("prepare"), a_part("client", "server", "prepare", probe=probe))
    known = templates("server", "prepare", "client")
    server = a_job("f-server", tasks=[("ps", 1)], counts={"ps": {"Running": 1}})
    running = {"f-server": server, "f-prepare": a_job("f-prepare", tasks=[("main", 1)])}
    assert created(View(flow, known, running)) == []
    done = {"f-server": server, "f-prepare": a_job("f-prepare", "Completed", tasks=[("main", 1)])}
    assert created(View(flow, known, done)) == ["f-client"]


def test_a_probe_of_a_task_that_does_not_exist_is_told_of():
    probe = FlowProbe(task_status_list=(TaskStatusProbe(task_name="sp", phase="Running"),))
    assert warnings(http_view(probe=probe)) == [
        "client probes task sp, which none of its targets has: correct its name"
    ]


# -------------------------------------------------------------------------------------------------------- properties


@st.composite
def graphs(draw):
    """Parts that wait only for earlier ones."""
    size = draw(st.integers(1, 7))
    targets = [
        draw(st.lists(st.sampled_from(range(number)), unique=True, max_size=3)) if number else []
        for number in range(size)
    ]
    return [a_part(f"p{number}", *(f"p{each}" for each in waits)) for number, waits in enumerate(targets)]


@settings(deadline=None)
@given(parts=graphs(), choices=st.lists(st.integers(0, 100), min_size=30, max_size=30))
def test_jobs_end_in_any_order_and_none_starts_before_what_it_waits_for(parts, choices):
    flow, done = a_flow(*parts), {}
    known = templates(*(part.name for part in parts))
    for choice in choices:
        view = View(flow, known, done)
        status = written(view)
        for name in created(view):
            part = next(part for part in parts if f"f-{part.name}" == name)
            for target in part.depends_on.targets if part.depends_on else ():
                assert done[f"f-{target}"].status.state.phase == "Completed"
            assert name not in done
            done[name] = a_job(name)
        if status is not None:
            flow = a_flow(*parts, status=decode_value(JobFlowStatus, status))
        running = [name for name, job in done.items() if job.status.state.phase == "Running"]
        if running and choice % 3:
            ended = running[choice % len(running)]
            done[ended] = a_job(ended, "Completed")
    while flow.status.state.phase != "Succeed":
        for name in created(View(flow, known, done)):
            done[name] = a_job(name)
        done = {name: a_job(name, "Completed") for name in done}
        status = written(View(flow, known, done))
        assert status is not None, "the flow is stuck"
        flow = a_flow(*parts, status=decode_value(JobFlowStatus, status))
    assert len(done) == len(parts)
