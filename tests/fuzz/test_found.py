"""What fuzzing has found, each as the smallest input that showed it."""

import json
import random

import pytest
from aiohttp import web
from tests.fuzz.targets import POD, TARGETS

from pumice import yamltext
from pumice.api import decoding
from pumice.api.batch import Job
from pumice.api.pods import Pod
from pumice.errors import BadInput, PumiceError
from pumice.kube import errors, kubeconfig, watch
from pumice.kube.transport import Request
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.webhooks import serving


def test_text_that_is_no_utf8_in_a_field_that_is_skipped_is_bad_input():
    with pytest.raises(BadInput, match="Job: not JSON"):
        decoding.decode(Job, b'{"spec": {"minAvailable": "x"}, "\xe1": 1}')


def test_json_that_is_nested_too_deeply_is_bad_input():
    with pytest.raises(BadInput, match="Pod: not JSON"):
        decoding.decode(Pod, b'{"x":' + b"[" * 100_000)


@pytest.mark.parametrize("line", [b'{"type": "ADDED\xff", "object": {}}', b'{"type": "ADDED", "x": ' + b"[" * 100_000])
def test_a_watch_line_that_cannot_be_read_ends_the_watch_and_not_the_process(line):
    with pytest.raises(errors.Malformed):
        watch.Decoder(Pod, "WATCH", lambda _: None).decode(line)


def test_a_whole_number_beyond_64_bits_is_the_same_in_json_and_in_yaml():
    (from_json,) = yamltext.load_all('{"a": 10000000000000000000000000000000000000000}', source="json")
    (from_yaml,) = yamltext.load_all("a: 10000000000000000000000000000000000000000", source="yaml")
    assert from_json == from_yaml == {"a": 1e40}
    assert isinstance(from_json["a"], float)


@pytest.mark.parametrize("request_", [b'{"uid": "u", "kind": {}, "operation": "CREATE"}', b'{"uid": "u", "kind": {"kind": "Job"}, "operation": "CREATE", "object": []}'])  # fmt: skip
def test_a_review_without_what_rules_read_is_a_bad_request(request_):
    review = b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": ' + request_ + b"}"
    with pytest.raises(web.HTTPBadRequest):
        TARGETS["admission"].feed(review)
    with pytest.raises(web.HTTPBadRequest):
        serving._decode(bytearray(review))


@pytest.mark.parametrize(("method", "path"), [("POST", "/pods/a"), ("PUT", "/pods"), ("PATCH", "/pods")])
async def test_objects_are_made_in_their_collection_and_changed_under_their_name(method, path):
    body = json.dumps(POD | {"metadata": {"name": "a"}}).encode()
    headers = {"content-type": "application/apply-patch+yaml" if method == "PATCH" else "application/json"}
    async with Server(Settings(chance=random.Random(0))) as server:
        request = Request(method, f"/api/v1/namespaces/default{path}", {"fieldManager": "me"}, headers, body)
        assert (await LocalTransport(server).call(request)).status == 405


async def test_an_empty_list_that_is_required_stays_and_the_object_can_be_written_back():
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n1"}, "spec": {"drivers": []}}
    async with Server(Settings(chance=random.Random(0))) as server:
        transport = LocalTransport(server)

        async def send(method, path, body):
            headers = {"content-type": "application/json"}
            return await transport.call(Request(method, path, {}, headers, json.dumps(body).encode()))

        made = await send("POST", "/apis/storage.k8s.io/v1/csinodes", body)
        again = await send("PUT", "/apis/storage.k8s.io/v1/csinodes/n1", json.loads(made.body))
        assert (made.status, again.status) == (201, 200)
        assert json.loads(again.body)["spec"] == {"drivers": []}


@pytest.mark.parametrize("text", [b'{"current-context": "h\xe5re"}', b'{"a":' + b"[" * 100_000])
def test_a_kubeconfig_that_looks_like_json_and_cannot_be_read_is_named(text, tmp_path):
    file = tmp_path / "config"
    file.write_bytes(text)
    with pytest.raises(PumiceError, match=str(file)):
        kubeconfig.read([file], must_exist=True)


def test_a_recording_whose_policy_names_an_action_that_nobody_knows_is_refused():
    [lines, *_] = TARGETS["frames"].seeds
    with pytest.raises(
        BadInput, match="the action alloim, which this program does not know; use the Pumice that wrote it"
    ):
        TARGETS["frames"].feed(lines.replace(b'"allocate"', b'"alloim"'))
