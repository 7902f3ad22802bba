"""Printers and templates, to the letter."""

import pytest

from pumice.api.batch import Job
from pumice.api.kinds import by_struct
from pumice.cli import tables, templates
from pumice.cli.printing import Form, Table
from pumice.cli.results import Query
from pumice.errors import BadInput
from pumice.instant import parse_instant

NOW = parse_instant("2026-11-15T12:00:00Z")

TRAIN = {
    "metadata": {
        "name": "train",
        "namespace": "default",
        "creationTimestamp": "2026-11-15T11:57:30Z",
        "labels": {"volcano.sh/job-type": "Torch"},
    },
    "spec": {
        "minAvailable": 3,
        "queue": "team-a",
        "schedulerName": "volcano",
        "tasks": [{"replicas": 1}, {"replicas": 2}],
    },
    "status": {"state": {"phase": "Running"}, "running": 2, "pending": 1, "retryCount": 4},
}
YOUNG = {"metadata": {"name": "a-much-longer-name", "namespace": "other", "creationTimestamp": "2026-11-15T11:59:59Z"}}


def table(form, *objects, columns=tables.JOB):
    return Table(Query(kind=by_struct(Job), columns=columns), form).text(objects, NOW)


def test_a_table_is_as_wide_as_its_cells_and_has_no_trailing_blanks():
    assert table(Form(), TRAIN, YOUNG) == (
        "NAME                 CREATION     PHASE     JOBTYPE   REPLICAS   MIN   PENDING   RUNNING   SUCCEEDED   FAILED   UNKNOWN   RETRYCOUNT   AGE\n"
        "train                2026-11-15   Running   Torch     3          3     1         2         0           0        0         4            2m30s\n"
        "a-much-longer-name   2026-11-15   <none>    Batch     0          0     0         0         0           0        0         0            1s\n"
    )


def test_wide_adds_columns_and_no_headers_takes_the_first_line():
    assert table(Form("wide", headers=False), TRAIN) == (
        "train   2026-11-15   Running   Torch   3     3     1     2     0     0     0     4     2m30s   team-a   volcano\n"
    )


def test_rows_that_come_later_keep_the_widths_and_get_no_second_head():
    watched = Table(Query(kind=by_struct(Job), columns=(tables.NAMESPACE, tables.NAME, tables.AGE)), Form())
    assert watched.text([TRAIN], NOW) == "NAMESPACE   NAME    AGE\ndefault     train   2m30s\n"
    assert watched.text([{"metadata": {"name": "x", "namespace": "y"}}], NOW) == "y           x       <unknown>\n"


def test_groups_are_counted_for_their_queue():
    groups = [
        {"spec": {"queue": "a"}, "status": {"phase": "Running"}},
        {"spec": {"queue": "a"}, "status": {"phase": "Running"}},
        {"spec": {"queue": "a"}},
        {"status": {"phase": "Inqueue"}},
    ]
    queue = {"metadata": {"name": "a"}, "spec": {"weight": 2, "parent": "root"}, "status": {"state": "Open"}}
    columns = tables.queue_columns(tables.count_phases(groups), lambda: "nvidia.com/gpu")
    assert table(Form(), queue, columns=columns) == (
        "NAME   WEIGHT   STATE   PARENT   RESOURCE         USED   DESERVED   LIMIT   LEFT   INQUEUE   PENDING   RUNNING   AGE\n"
        "a      2        Open    root     nvidia.com/gpu   -      -          -       -      0         1         2         <unknown>\n"
    )


@pytest.mark.parametrize(
    ("resource", "cells"),
    [
        ("nvidia.com/gpu", ["0", "5.33", "-", "16"]),  # no limit is none, and nothing used is nothing
        ("memory", ["1.5Gi", "-", "2Ti", "0"]),
    ],
)
def test_a_queue_shows_what_it_has_of_one_resource(resource, cells):
    share = {
        "used": {"memory": "1536Mi"},
        "deserved": {"nvidia.com/gpu": "5333m"},
        "limit": {"memory": "2Ti"},
        "left": {"nvidia.com/gpu": "16", "memory": "0"},
    }
    queue = {"metadata": {"name": "a"}, "share": share}
    columns = tables.queue_columns({}, lambda: resource)
    assert table(Form(headers=False), queue, columns=columns).split()[4:9] == [resource, *cells]


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.metadata.name}", "train"),
        (".metadata.name", "train"),
        ("{.spec.tasks[*].replicas}", "1 2"),
        ("name: {.metadata.name}!", "name: train!"),
        ('{range .spec.tasks[*]}{.replicas}{"\\n"}{end}done', "1\n2\ndone"),
        ("{.metadata.labels['volcano.sh/job-type']}", "Torch"),
        ("{.status.state}", '{"phase":"Running"}'),
        ("{.no.such.field}", ""),
        ("{'quoted \"text\"'}", 'quoted "text"'),
        ("{range .spec.tasks[*]}{@.replicas},{end}", "1,2,"),
    ],
)
def test_a_template_is_filled_as_kubectl_fills_it(template, text):
    assert templates.render(template, TRAIN) == text


@pytest.mark.parametrize(
    ("template", "cause"),
    [
        ("{.a", "jsonpath '{.a': a brace has no partner near '{.a'; close it"),
        ("{range .a}x", "jsonpath: {range ...} has no {end}; add it"),
        ("{end}", "jsonpath: {end} without {range ...}; remove it"),
        ("{..name}", "jsonpath: '..name' is not understood; there are .field"),
        (r'{"\q"}', r'jsonpath: "\q" is no quoted text'),
    ],
)
def test_a_template_that_cannot_be_right_says_why(template, cause):
    with pytest.raises(BadInput) as raised:
        templates.render(template, TRAIN)
    assert str(raised.value).startswith(cause)


@pytest.mark.parametrize("output", ["xml", "jsonpath", "json=x", "", "jsonpath="])
def test_a_form_that_does_not_exist_is_refused(output):
    with pytest.raises(BadInput, match=r"no such form; take table, wide, json, yaml, name or jsonpath=TEMPLATE"):
        Form.parse(output)
