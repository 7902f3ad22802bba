"""The oracle says what Kubernetes' libraries say; here it is only checked that it asks the right ones."""

from __future__ import annotations

import json

import pytest
from tools.kube.oracle_client import OracleRefusal

A_NODE = {"metadata": {"name": "n1", "labels": {"zone": "a", "gpus": "8"}}}


def terms(*expressions):
    return {"nodeSelectorTerms": [{"matchExpressions": [e]} for e in expressions]}


@pytest.mark.parametrize(
    ("op", "fields", "answer"),
    [
        (
            "quantity",
            {"value": "1.5Gi"},
            {"string": "1536Mi", "dec": "1610612736.000000000", "value": 1610612736, "milliValue": 1610612736000},
        ),
        ("quantity", {"value": "1500u"}, {"string": "1500u", "dec": "0.001500", "value": 1, "milliValue": 2}),
        ("quantity_cmp", {"a": "1", "b": "1000m"}, {"cmp": 0}),
        ("quantity_cmp", {"a": "1G", "b": "1Gi"}, {"cmp": -1}),
        ("quantity_add", {"a": "1", "b": "500m"}, {"string": "1500m", "dec": "1.500", "value": 2, "milliValue": 1500}),
        (
            "label_selector",
            {"selector": "b in (y, x),!a", "labels": {"b": "x"}},
            {"match": True, "string": "!a,b in (x,y)"},
        ),
        (
            "label_selector_object",
            {"selector": {"matchLabels": {"a": "1"}}, "labels": {"a": "2"}},
            {"match": False, "string": "a=1"},
        ),
        ("field_selector", {"selector": "a==1,b!=2", "fields": {"a": "1"}}, {"match": True, "string": "a=1,b!=2"}),
        (
            "node_selector_term",
            {
                "selector": terms(
                    {"key": "zone", "operator": "In", "values": ["b"]},
                    {"key": "gpus", "operator": "Gt", "values": ["4"]},
                ),
                "node": A_NODE,
            },
            {"match": True},
        ),
        (
            "node_selector_term",
            {
                "selector": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
                    ]
                },
                "node": A_NODE,
            },
            {"match": False},
        ),
        ("duration", {"value": "1h30m"}, {"nanoseconds": 5_400_000_000_000, "string": "1h30m0s"}),
        (
            "time",
            {"value": "2026-01-02T03:04:05+01:00"},
            {"printed": "2026-01-02T02:04:05Z", "seconds": 1767319445, "nanoseconds": 0},
        ),
        (
            "time",
            {"value": "2026-01-02T03:04:05.500000Z", "micro": True},
            {"printed": "2026-01-02T03:04:05.500000Z", "seconds": 1767323045, "nanoseconds": 500_000_000},
        ),
        (
            # Half past two does not exist in Berlin on that day: robfig/cron leaves it out.
            "cron",
            {"spec": "30 2 * * *", "tz": "Europe/Berlin", "from": "2026-03-28T00:00:00Z", "n": 2},
            {"next": ["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"]},
        ),
        ("cron", {"spec": "0 0 30 2 *", "from": "2026-01-01T00:00:00Z", "n": 1}, {"next": []}),
        ("yaml", {"text": "a: yes\nb: 12:30:45\n"}, {"json": '{"a":true,"b":"12:30:45"}'}),
        (
            "json_merge_patch",
            {"document": {"a": 1, "b": {"c": 2, "d": 3}}, "patch": {"a": None, "b": {"c": 4}}},
            {"document": {"b": {"c": 4, "d": 3}}},
        ),
        (
            "strategic_merge_patch",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "document": {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}},
                "patch": {"spec": {"containers": [{"name": "b", "image": "2"}]}},
            },
            {"document": {"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "a", "image": "1"}]}}},
        ),
    ],
)
def test_every_operation_answers_as_its_library_does(oracle, op, fields, answer):
    said = oracle.ask(op, **fields)
    if op == "strategic_merge_patch":
        said["document"]["spec"]["containers"].sort(key=lambda c: c["name"], reverse=True)
    assert said == answer


@pytest.mark.parametrize(
    ("op", "fields", "reason"),
    [
        ("quantity", {"value": "1.5KiB"}, "must match the regular expression"),
        ("quantity_cmp", {"a": "1", "b": ""}, "^b: "),
        ("label_selector", {"selector": "a in"}, "found '' expected: '\\('"),
        ("label_selector_object", {"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}, "not a valid label selector operator"),
        ("field_selector", {"selector": "a"}, "invalid selector"),
        ("node_selector_term", {"selector": terms({"key": "a", "operator": "Gt", "values": ["x"]}), "node": A_NODE}, "must be an integer"),
        ("duration", {"value": "1 day"}, 'unknown unit " day"'),
        ("time", {"value": "yesterday"}, "cannot parse"),
        ("cron", {"spec": "61 * * * *", "from": "2026-01-01T00:00:00Z", "n": 1}, "above maximum"),
        ("cron", {"spec": "* * * * *", "tz": "Mars/Olympus", "from": "2026-01-01T00:00:00Z", "n": 1}, "unknown time zone"),
        ("yaml", {"text": "a: 1\na: 2", "strict": True}, 'key "a" already set in map'),
        ("strategic_merge_patch", {"apiVersion": "v1", "kind": "Nope", "document": {}, "patch": {}}, 'no kind "Nope"'),
        ("nonsense", {}, 'unknown op "nonsense"'),
    ],
)  # fmt: skip
def test_a_refusal_carries_the_librarys_own_words(oracle, op, fields, reason):
    with pytest.raises(OracleRefusal, match=reason):
        oracle.ask(op, **fields)


def test_a_batch_is_answered_in_order_and_goes_on_after_a_refusal(oracle):
    values = ["1", "bad", "2"]
    answers = oracle.ask_all({"op": "duration", "value": f"{v}s"} for v in values)
    assert [a.get("ok", {}).get("nanoseconds") for a in answers] == [1_000_000_000, None, 2_000_000_000]
    assert json.dumps(answers[1]) == '{"error": "time: invalid duration \\"bads\\""}'
