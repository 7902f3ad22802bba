import json

import pytest

from pumice import errors as roots
from pumice.kube import errors
from pumice.kube.transport import Request

REQUEST = Request("POST", "/api/v1/namespaces/a/pods/p/binding")


def answered(code, reason="", message="said so", headers=None, **more):
    body = json.dumps({"kind": "Status", "code": code, "reason": reason, "message": message} | more).encode()
    return errors.from_answer(REQUEST, code, headers or {}, body)


@pytest.mark.parametrize(
    ("code", "reason", "leaf", "root"),
    [
        (400, "BadRequest", errors.Invalid, roots.BadInput),
        (401, "Unauthorized", errors.Refused, roots.Refused),
        (403, "Forbidden", errors.Refused, roots.Refused),
        (404, "NotFound", errors.NotFound, roots.NotFound),
        (409, "AlreadyExists", errors.AlreadyExists, roots.Conflict),
        (409, "Conflict", errors.Conflict, roots.Conflict),
        (410, "Expired", errors.Expired, roots.PumiceError),
        (413, "RequestEntityTooLarge", errors.Invalid, roots.BadInput),
        (422, "Invalid", errors.Invalid, roots.BadInput),
        (429, "TooManyRequests", errors.TooManyRequests, roots.Conflict),
        (500, "InternalError", errors.ServerError, roots.PumiceError),
        (504, "Timeout", errors.ServerError, roots.PumiceError),
        (405, "MethodNotAllowed", errors.StatusError, roots.PumiceError),
    ],
)
def test_each_answer_is_the_error_that_somebody_catches_for_it(code, reason, leaf, root):
    error = answered(code, reason)
    assert type(error) is leaf
    assert isinstance(error, root)
    assert isinstance(error, errors.KubeError)
    assert (error.code, error.reason, error.message) == (code, reason, "said so")


def test_a_message_has_subject_cause_and_next_step():
    error = answered(409, "Conflict", 'pod "p" is already assigned to node "n"')
    assert str(error) == (
        'pod "p" is already assigned to node "n" (POST /api/v1/namespaces/a/pods/p/binding: 409 Conflict); '
        "read it again and repeat the change"
    )


RIGHTS = "check this user's rights with `kubectl auth can-i --list`, or log in again"
RULES = "correct the object, or ask an administrator about the rule: more permissions would not help"


@pytest.mark.parametrize(
    ("code", "message", "advice"),
    [
        (401, "Unauthorized", RIGHTS),
        (403, "", RIGHTS),
        (
            403,
            'pods is forbidden: User "joe" cannot create resource "pods" in API group "" in the namespace "a"',
            RIGHTS,
        ),
        (403, 'pods "p" is forbidden: exceeded quota: gpus, requested: pods=1, used: pods=8, limited: pods=8', RULES),
        (403, 'admission webhook "rules.example.com" denied the request: no', RULES),
        (403, "ValidatingAdmissionPolicy 'x' with binding 'y' denied request: no", RULES),
        (403, 'pods "p" is forbidden: violates PodSecurity "restricted:latest": hostNetwork', RULES),
    ],
)
def test_only_a_want_of_rights_is_advised_to_look_at_rights(code, message, advice):
    assert str(answered(code, "Forbidden", message)).endswith(f"; {advice}")


@pytest.mark.parametrize("webhook", ["jobs.pumice.dev", "/jobs/validate"])
def test_a_denial_of_ours_has_its_own_next_step(webhook):
    error = answered(403, "Forbidden", f'admission webhook "{webhook}" denied the request: spec.x: 5: no; lower it')
    assert error.plain == "spec.x: 5: no; lower it"


def test_of_an_object_that_is_not_there_nobody_is_sent_to_look_for_its_kind():
    missing = answered(404, "NotFound", 'queues "a" not found', details={"name": "a", "kind": "queues"})
    assert missing.plain == 'queues "a" not found; check the name and the namespace'
    assert answered(404, "NotFound", "no such resource").plain.endswith("that its CRD is installed")


def test_details_name_the_fields_at_fault():
    error = answered(
        422,
        "Invalid",
        details={"name": "p", "causes": [{"reason": "FieldValueInvalid", "field": "spec.x", "message": "no"}]},
    )
    assert [(cause.field, cause.message) for cause in error.details.causes] == [("spec.x", "no")]


def test_when_to_come_back_is_read_from_the_header_and_else_from_the_details():
    assert answered(429, headers={"retry-after": "3"}, details={"retryAfterSeconds": 9}).retry_after == 3
    assert answered(429, details={"retryAfterSeconds": 9}).retry_after == 9
    assert answered(429).retry_after is None
    assert answered(503, headers={"retry-after": "Sun, 15 Nov 2026 12:00:00 GMT"}).retry_after is None


def test_a_proxys_page_is_cut_and_its_code_is_what_counts():
    error = errors.from_answer(REQUEST, 502, {}, b"<html>" + b"x" * 100_000)
    assert isinstance(error, errors.ServerError)
    assert len(str(error)) < errors.MESSAGE_CHARS_MAX + 200


def test_bytes_that_are_no_text_are_no_problem():
    error = errors.from_answer(REQUEST, 500, {}, b"\xff\xfe{")
    assert error.code == 500


def test_an_answer_without_any_words_still_says_something():
    assert str(errors.from_answer(REQUEST, 503, {}, b"")).startswith("the API server answered 503 without a reason")


def test_the_code_of_the_answer_wins_over_that_in_its_body():
    assert errors.from_answer(REQUEST, 404, {}, b'{"code":200,"message":"odd"}').code == 404


def test_the_words_of_a_program_behind_the_servers_proxy_are_kept():
    error = errors.from_answer(REQUEST, 400, {}, b'{"error": "policy of the question: no actions"}')
    assert (error.code, error.reason, error.message) == (400, "", "policy of the question: no actions")
    assert errors.from_answer(REQUEST, 400, {}, b'{"error": {"deep": 1}}').message == ""
