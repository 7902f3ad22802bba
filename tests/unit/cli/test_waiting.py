"""Waiting over watches that break, with a server that a test scripts."""

import asyncio
import json
import random

import pytest
from tests.unit.kube.peers import LiveStream, Scripted, listed, ok, streaming

from pumice.api.batch import Job
from pumice.api.kinds import by_struct
from pumice.cli import fetching, waiting
from pumice.cli.cluster_command import ClusterAccess
from pumice.cli.results import Query
from pumice.clock import RealClock
from pumice.errors import Conflict
from pumice.kube.client import Client
from pumice.kube.connection import Connection

QUERY = Query(kind=by_struct(Job), columns=(), namespace="team", name="train")


def a_job(version, *, phase="Running", running=1):
    return {
        "metadata": {"name": "train", "namespace": "team", "uid": "u", "resourceVersion": str(version)},
        "spec": {"tasks": [{"replicas": 2}]},
        "status": {"state": {"phase": phase, "reason": "Because"}, "running": running},
    }


def event(kind, obj):
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def access_to(*answers):
    transport = Scripted(*answers)
    client = Client(transport, clock=RealClock(), chance=random.Random(0))
    return ClusterAccess(client, Connection(server="https://x"), RealClock(), "team"), transport


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(fetching, "AGAIN_S", 0.0)


async def test_what_is_so_already_is_not_waited_for():
    access, transport = access_to(listed(1, a_job(1, phase="Completed")))
    assert (await waiting.job_ends(access, a_job(1), None))["status"]["state"]["phase"] == "Completed"
    assert len(transport.calls) == 1


async def test_a_change_ends_the_waiting_and_closes_the_watch():
    stream = LiveStream(event("MODIFIED", a_job(2, phase="Completed")))
    access, _ = access_to(listed(1, a_job(1)), streaming(stream))
    await waiting.job_ends(access, a_job(1), None)
    assert stream.closed.is_set()


async def test_a_deletion_while_no_watch_was_open_is_noticed_in_the_next_list():
    broken = LiveStream()
    broken.break_off()
    access, _ = access_to(listed(1, a_job(1)), streaming(broken), listed(5))
    await waiting.until(access, QUERY, lambda found: not found)


async def test_a_job_that_somebody_deletes_is_no_success():
    stream = LiveStream(event("DELETED", a_job(2)))
    access, _ = access_to(listed(1, a_job(1)), streaming(stream))
    with pytest.raises(waiting.JobFailed, match="job team/train was deleted before it ended"):
        await waiting.job_ends(access, a_job(1), None)


async def test_a_bad_end_says_its_reason():
    access, _ = access_to(listed(1, a_job(1, phase="Aborted")))
    with pytest.raises(waiting.JobFailed, match="job team/train ended Aborted: Because; see `pumice job logs train`"):
        await waiting.job_ends(access, a_job(1), None)


async def test_too_long_is_too_long():
    stream = LiveStream()
    access, _ = access_to(listed(1, a_job(1)), streaming(stream))
    with pytest.raises(Conflict, match=r"job train: Running, 1 of 2 pods run: not over within 0\.05 s; it goes on"):
        await waiting.job_ends(access, a_job(1), 0.05)
    assert stream.closed.is_set()


async def test_who_is_interrupted_is_told_that_the_job_goes_on(capsys):
    stream, watching = LiveStream(), asyncio.Event()

    def watch(_request):
        watching.set()
        return streaming(stream)

    access, _ = access_to(listed(1, a_job(1)), watch)
    task = asyncio.create_task(waiting.job_ends(access, a_job(1), None))
    await watching.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert capsys.readouterr().err == "\npumice: job team/train goes on; `pumice job delete train` ends it\n"
    assert stream.closed.is_set()


async def test_a_deleted_job_is_gone_when_its_last_pod_is():
    pod = {"metadata": {"name": "p", "namespace": "team", "uid": "p", "resourceVersion": "3"}}
    ending = LiveStream(event("DELETED", pod))
    access, transport = access_to(ok({"metadata": {}, "items": []}), listed(3, pod), streaming(ending))
    await waiting.job_is_gone(access, "train", None)
    assert transport.calls[1].query == {"labelSelector": "volcano.sh/job-name=train"}


async def test_pods_that_do_not_go_in_time_are_counted():
    pod = {"metadata": {"name": "p", "namespace": "team", "uid": "p", "resourceVersion": "3"}}
    access, _ = access_to(ok({"metadata": {}, "items": []}), listed(3, pod), streaming(LiveStream()))
    with pytest.raises(Conflict, match=r"job team/train: 1 pod still there after 0\.05 s; see `pumice pod list -j"):
        await waiting.job_is_gone(access, "train", 0.05)
