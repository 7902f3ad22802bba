"""`pumice prio` against a running scheduler: who is next and why, for people and programs."""

import json

from tests.integration.cli.causes import GPU, a_job

from pumice.api.batch import Job
from pumice.api.scheduling import PodGroup


def test_who_waits_is_shown_with_each_factor(pumice, client, until, emptied):
    client("create", Job, a_job("hopeful", replicas=1, resources={GPU: "99"}), namespace="default")
    until(PodGroup, lambda group: bool(group.get("status", {}).get("conditions")), name="", namespace="default")
    shown = pumice("prio", "hopeful")
    assert (shown.code, shown.err) == (0, "")
    assert "RANK" in shown.out
    assert "FAIR-SHARE" in shown.out
    data = json.loads(pumice("sprio", "-o", "json").out)
    (gang,) = data["gangs"]
    assert (data["source"], gang["job"], gang["user"], gang["position"]) == ("leader", "hopeful", "default", 1)
    assert gang["factors"]["fair-share"] == gang["rank"] == 1.0
    assert gang["factors"]["size"] == 1.0
    assert pumice("prio", "nobody").code == 3
    file_less = pumice("prio", "--queue", "elsewhere")
    assert file_less.out.strip() == "no gang waits"
