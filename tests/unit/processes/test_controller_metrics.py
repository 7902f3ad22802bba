"""What the controllers' numbers say of Jobs: each end once, each restart with its cause, and what it cost."""

import json
import types

import pytest

from pumice.api import decoding, names
from pumice.api.batch import Job
from pumice.api.changes import Deleted, Upserted
from pumice.api.flow import JobFlow
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.clock import VirtualClock
from pumice.controllers.cache import Cache
from pumice.processes.controller_metrics import JobObserver
from pumice.telemetry.meters import Meters


class Informers:
    """Stands for the watches: the test itself brings the news."""

    def __init__(self):
        self.receivers = {}

    def of(self, struct):
        informers = self

        class Informer:
            def subscribe(self, receive):
                informers.receivers[struct] = receive

        return Informer()

    def bring(self, struct, body, news=Upserted):
        self.receivers[struct]([news(decoding.decode_value(struct, body))])


@pytest.fixture
def world():
    informers = Informers()
    known = Cache(informers, VirtualClock())
    for struct in (Job, Pod, PodGroup):
        known.of(struct)
    meters = Meters()
    observer = JobObserver(meters, known)
    observer.start()
    return informers, observer, meters


def a_job(version, phase, *, reason="", lost=0, counted=False, name="train"):
    controlled = {names.PROGRESS: json.dumps({"lostS": lost})} if lost else {}
    state = {"phase": phase, "reason": reason}
    tasks = {"taskStatusCount": {"worker": {"phase": {"Pending": 1}}}} if counted else {}
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": "u1",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-03-01T12:00:00Z",
        },
        "spec": {"queue": "research"},
        "status": {"state": state, "controlledResources": controlled, **tasks},
    }


CARRIER = types.SimpleNamespace(writes={"create Pod": 3})
DRIVER = types.SimpleNamespace(name="job", plans=7, retries={"stale": 2, "error": 1}, waiting=4)


def said(world):
    _, observer, meters = world
    observer.tell(CARRIER, [DRIVER])
    lines = [line for line in meters.text().decode().splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_an_end_is_counted_once_and_forgotten_with_the_job(world):
    informers = world[0]
    informers.bring(Job, a_job(1, "Running"))
    informers.bring(Job, a_job(2, "Completed"))
    informers.bring(Job, a_job(3, "Completed"))
    series = 'volcano_job_completed_phase_count{job_name="team/train",queue_name="research"}'
    assert said(world)[series] == 1
    informers.bring(Job, a_job(4, "Completed"), Deleted)
    assert series not in said(world)


def test_what_was_over_before_the_process_began_is_no_news(world):
    world[0].bring(Job, a_job(1, "Failed"))
    assert not [series for series in said(world) if series.startswith("volcano_job_failed_phase_count")]
    assert said(world)['pumice_jobs{phase="Failed",queue="research"}'] == 1


def test_restarts_are_counted_by_their_cause_with_the_run_time_that_they_cost(world):
    informers = world[0]
    informers.bring(Job, a_job(1, "Running"))
    informers.bring(Job, a_job(2, "Restarting", reason="PodEvicted", lost=3600))
    informers.bring(Job, a_job(3, "Running", lost=3600))
    informers.bring(Job, a_job(4, "Restarting", reason="PodEvicted", lost=3700))
    found = said(world)
    assert found['pumice_job_restarts_total{queue="research",reason="PodEvicted"}'] == 2
    assert found['pumice_job_lost_seconds_total{queue="research"}'] == 3700


def test_the_first_pods_latency_is_observed_once(world):
    informers = world[0]
    informers.bring(Job, a_job(1, "Pending"))
    owner = {"kind": "Job", "name": "train", "uid": "u1", "controller": True}
    metadata = {"name": "p", "namespace": "team", "uid": "p1", "resourceVersion": "2", "ownerReferences": [owner]}
    informers.bring(Pod, {"metadata": {**metadata, "creationTimestamp": "2026-03-01T12:00:02Z"}})
    informers.bring(Job, a_job(3, "Pending", counted=True))
    informers.bring(Job, a_job(4, "Running", counted=True))
    found = said(world)
    assert found["volcano_controller_job_to_pod_creation_latency_milliseconds_count"] == 1
    assert found["volcano_controller_job_to_pod_creation_latency_milliseconds_sum"] == 2000


def test_gangs_are_counted_by_queue_and_phase(world):
    group = {
        "metadata": {"name": "g", "namespace": "team", "uid": "g1"},
        "spec": {"queue": "research"},
        "status": {"phase": "Inqueue"},
    }
    world[0].bring(PodGroup, group)
    assert said(world)['volcano_queue_pod_group_inqueue_count{queue_name="research"}'] == 1


def test_writes_and_plans_are_counted_however_often_somebody_asks(world):
    said(world)
    found = said(world)
    assert found['pumice_controller_writes_total{operation="create Pod"}'] == 3
    assert found['pumice_controller_plans_total{controller="job"}'] == 7
    assert found['pumice_controller_retries_total{controller="job",reason="stale"}'] == 2
    assert found['pumice_controller_retries_total{controller="job",reason="error"}'] == 1


def test_what_waits_and_what_is_known_is_told_as_it_is(world):
    world[0].bring(Job, a_job(1, "Running"))
    assert said(world)['pumice_controller_waiting{controller="job"}'] == 4
    assert said(world)['pumice_controller_known{kind="Job"}'] == 1
    world[0].bring(Job, a_job(2, "Running"), Deleted)
    assert said(world)['pumice_controller_known{kind="Job"}'] == 0


def test_looks_are_timed_by_controller(world):
    world[1].looked("job", 0.25)
    assert said(world)['pumice_controller_seconds_sum{controller="job"}'] == 0.25


def a_flow(version, phase):
    metadata = {"name": "f", "namespace": "team", "uid": "f1", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"flows": []}, "status": {"state": {"phase": phase}}}


@pytest.mark.parametrize(("phase", "word"), [("Succeed", "succeed"), ("Failed", "failed")])
def test_ends_of_flows_are_counted_by_namespace_and_stay_counted(world, phase, word):
    informers = world[0]
    series = f'volcano_jobflow_{word}_phase_count{{jobflow_namespace="team"}}'
    informers.bring(JobFlow, a_flow(1, "Running"))
    assert series not in said(world)
    informers.bring(JobFlow, a_flow(2, phase))
    informers.bring(JobFlow, a_flow(3, phase))
    informers.bring(JobFlow, a_flow(4, phase), Deleted)
    assert said(world)[series] == 1


def test_a_flow_that_was_over_before_the_process_began_is_no_news(world):
    world[0].bring(JobFlow, a_flow(1, "Succeed"))
    assert not [series for series in said(world) if series.startswith("volcano_jobflow_succeed")]
