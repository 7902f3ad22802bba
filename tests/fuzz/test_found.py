"""What fuzzing has found, each as the smallest input that showed it."""

import pytest
from aiohttp import web
from tests.fuzz.targets import TARGETS

from pumice import yamltext
from pumice.api import decoding
from pumice.api.batch import Job
from pumice.api.pods import Pod
from pumice.errors import BadInput
from pumice.kube import errors, watch
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
