"""The tutorial's last chapter, on the real API server: its commands as they stand on the page, with the reader's own kubeconfig."""

import json
import time

from tests.bodies.patience import PATIENCE_S
from tools.docs import shown
from tools.docs.record import FOLDER

from pumice import yamltext

TUTORIAL = FOLDER.parent / "tutorial.md"


def test_the_chapter_on_a_real_cluster_does_what_it_says(plane, crds, namespace, binaries, tmp_path):
    parts = list(shown.parts(TUTORIAL.read_text()))
    [manifest] = [part for part in parts if isinstance(part, shown.File) and part.name == "train.yaml"]
    [chapter] = [part for part in parts if isinstance(part, shown.NotRun) and "cluster of yours" in part.reason]
    with shown.Desk(tmp_path, programs=[binaries]) as desk:
        _own_kubeconfig(plane, namespace, tmp_path)
        desk.write(manifest)
        for process in ("scheduler", "controllers"):  # as the installation runs them
            desk.terminal(process).start(f"pumice {process} --no-leader-elect --listen 127.0.0.1:0")
        _the_queue_is_there(desk)
        printed = {}
        for command in chapter.commands:
            if "explain" in command:  # a reader types more slowly than controllers start
                _the_group_is_there(plane, namespace)
            printed[command] = desk.terminal(shown.MAIN).run(command)
    assert {command: code for command, (_, code) in printed.items() if code} == {}
    text = "\n".join(line for lines, _ in printed.values() for line in lines)
    assert "job.batch.volcano.sh/train created" in text
    assert f"Job:        {namespace}/train" in text
    assert "job.batch.volcano.sh/train condition met" in text
    running = plane.request("GET", f"/api/v1/namespaces/{namespace}/pods").body["items"]
    assert len(running) == 8


def _own_kubeconfig(plane, namespace, home):
    """The plane's kubeconfig where kubectl looks for a user's own, with the namespace that he works in."""
    [config] = yamltext.load_all(plane.kubeconfig.read_bytes(), source="kubeconfig")
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    target = home / ".home" / ".kube" / "config"
    target.parent.mkdir(parents=True)
    target.write_text(json.dumps(config))


def _the_group_is_there(plane, namespace):
    path = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups"
    deadline = time.monotonic() + PATIENCE_S
    while not plane.request("GET", path).body["items"]:
        assert time.monotonic() < deadline, "the controllers made no PodGroup"
        time.sleep(0.1)


def _the_queue_is_there(desk):
    """The controllers make the queue `default`; before that nothing can be admitted."""
    step = shown.Step("kubectl get queue default -o name", ("queue.scheduling.volcano.sh/default",), shown.MAIN, 0, 0)
    assert desk.run(step, PATIENCE_S) == list(step.shown)
