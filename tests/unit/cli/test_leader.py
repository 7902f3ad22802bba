"""Leaders that are asked through the API server: which words of theirs reach the person who asked."""

import json
import random

import pytest

from pumice.api import names
from pumice.cli.cluster_command import ClusterAccess
from pumice.cli.leader import Leader, Rejected, Unanswered
from pumice.clock import RealClock
from pumice.kube.client import Client
from pumice.kube.transport import Response

LEASES = [
    {"metadata": {"namespace": "pumice", "name": "l", "annotations": {names.VIEW_ADDRESS: f"pods/pumice/{pod}"}}}
    for pod in ("first", "second")
]
GONE = {"kind": "Status", "code": 404, "reason": "NotFound", "message": 'pods "first" not found'}


class Server:
    """An API server with two leases; behind its proxy pods answer as they are told to."""

    def __init__(self, **answers):
        self.answers, self.asked = answers, []

    async def call(self, request):
        if request.path.endswith("/leases"):
            return Response(200, {}, json.dumps({"items": LEASES}).encode())
        if request.path.endswith("/token"):
            return Response(201, {}, json.dumps({"status": {"token": "t"}}).encode())
        pod = request.path.split("/pods/")[1].partition("/")[0]
        self.asked.append(pod)
        status, body = self.answers[pod]
        return Response(status, {}, json.dumps(body).encode())

    async def close(self):
        pass


async def ask(server):
    clock = RealClock()
    client = Client(server, clock=clock, chance=random.Random(1))
    return await Leader(ClusterAccess(client, None, clock, "default")).ask(("/v1/what-if", {"policy": "x"}))


@pytest.mark.parametrize("status", [400, 404])
async def test_what_a_leader_rejects_is_told_in_its_own_words_and_asked_of_nobody_else(status):
    server = Server(first=(status, {"error": "policy of the question: no actions; write some"}))
    with pytest.raises(Rejected) as told:
        await ask(server)
    assert str(told.value) == "policy of the question: no actions; write some"
    assert server.asked == ["first"]


@pytest.mark.parametrize("first", [(404, GONE), (503, {"error": "another process leads: b; ask it"})])
async def test_where_a_pod_is_gone_or_does_not_lead_the_next_one_is_asked(first):
    server = Server(first=first, second=(200, {"starts": {}}))
    assert json.loads(await ask(server)) == {"starts": {}}
    assert server.asked == ["first", "second"]


async def test_where_none_answers_each_is_named_with_its_cause():
    with pytest.raises(Unanswered) as told:
        await ask(Server(first=(404, GONE), second=(503, {"error": "no cycle has been planned yet"})))
    assert 'pods/pumice/first: pods "first" not found' in str(told.value)
    assert "pods/pumice/second: no cycle has been planned yet" in str(told.value)
