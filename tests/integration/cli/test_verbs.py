"""Every listing in every form, the flags of vcctl one by one, and JobFlows from their file to their end."""

import json
from pathlib import Path

import click
import pytest
import yaml
from tests.integration.cli.causes import a_job
from tests.integration.cli.terminals import CTRL_C, terminal

from pumice.api.batch import Job
from pumice.api.flow import JobFlow
from pumice.cli import aliases, main

FLOW = """\
apiVersion: flow.volcano.sh/v1alpha1
kind: JobTemplate
metadata: {name: step}
spec:
  minAvailable: 1
  tasks: [{name: w, replicas: 1, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}]
"""
JOB_FLOW = """\
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: chain}
spec:
  jobRetainPolicy: delete
  flows: [{name: step}]
"""


@pytest.fixture
def files(tmp_path):
    template, flow = tmp_path / "template.yaml", tmp_path / "flow.yaml"
    template.write_text(FLOW)
    flow.write_text(JOB_FLOW)
    return str(template), str(flow)


@pytest.fixture
def everything(client, pumice, until, files):
    """One of each kind: a running Job with its pod, a template, a flow; gone afterwards."""
    template, flow = files
    client("create", Job, a_job("train"), namespace="default")
    assert pumice("jobtemplate", "create", "-f", template).code == 0
    assert pumice("jobflow", "create", "-f", flow).code == 0
    until(Job, lambda job: job.get("status", {}).get("running") == 1, name="train")
    until(JobFlow, lambda flow: flow.get("status", {}).get("state", {}).get("phase") == "Running", name="chain")
    yield
    pumice("jobflow", "delete", "chain")
    pumice("jobtemplate", "delete", "step")


# What each listing has, as `-o name` says it.
LISTINGS = {
    ("job", "list"): "job.batch.volcano.sh/train",
    ("queue", "list"): "queue.scheduling.volcano.sh/default",
    ("pod", "list"): "pod/train-w-0",
    ("jobflow", "list"): "jobflow.flow.volcano.sh/chain",
    ("jobtemplate", "list"): "jobtemplate.flow.volcano.sh/step",
    ("nodes",): "node/node-0",
}


def test_every_listing_has_every_form(pumice, everything, cluster):
    for words, name in LISTINGS.items():
        plain = name.partition("/")[2]
        assert name in pumice(*words, "-o", "name").lines
        heads = pumice(*words).lines[0].split()
        assert heads[0] == "NAME"
        assert len(pumice(*words, "-o", "wide").lines[0].split()) >= len(heads)
        whole = json.loads(pumice(*words, "-o", "json").out)
        assert yaml.safe_load(pumice(*words, "-o", "yaml").out).keys() == whole.keys()
        path = "{.nodes[*].name}" if words == ("nodes",) else "{.items[*].metadata.name}"
        assert plain in pumice(*words, "-o", f"jsonpath={path}").out.split()
        chosen = pumice(*words, "--context", "pumice", "--kubeconfig", str(cluster.kubeconfig), "-o", "name")
        assert name in chosen.lines


def test_listings_of_all_namespaces_say_which(pumice, everything):
    for words in (("job", "list"), ("pod", "list"), ("jobflow", "list"), ("jobtemplate", "list")):
        head, *rows = pumice(*words, "-A").lines
        assert head.split()[0] == "NAMESPACE"
        assert {row.split()[0] for row in rows} == {"default"}
        assert pumice(*words, "-n", "kube-system", "-o", "name").out == ""
        assert len(pumice(*words, "-A", "--no-headers").lines) == len(rows)
    assert "default" in pumice("queue", "list", "-A").out


@pytest.mark.parametrize("words", [words for words in LISTINGS if words != ("nodes",)])
def test_every_listing_can_be_watched_until_ctrl_c(cluster, everything, words):
    with terminal(*words, "-w", "-o", "name", KUBECONFIG=str(cluster.kubeconfig)) as seen:
        seen.until(LISTINGS[words])
        seen.press(CTRL_C)
        assert seen.end() == 130


def test_a_flow_is_made_shown_described_and_deleted(pumice, everything, files):
    head, row = pumice("jobflow", "get", "-N", "chain", "-n", "default").lines
    assert (head.split(), row.split()[:2]) == (["NAME", "PHASE", "AGE"], ["chain", "Running"])
    described = yaml.safe_load(pumice("jobflow", "describe", "-N", "chain").out)
    assert described["spec"]["flows"] == [{"name": "step"}]
    assert "managedFields" not in described["metadata"]
    assert json.loads(pumice("jobflow", "describe", "chain", "-o", "json").out)["kind"] == "JobFlow"
    assert yaml.safe_load(pumice("jobtemplate", "describe", "--format", "yaml").out)["metadata"]["name"] == "step"
    assert pumice("jobtemplate", "get", "step", "-o", "name").out == "jobtemplate.flow.volcano.sh/step\n"
    template, flow = files
    assert pumice("jobflow", "delete", "-f", flow).out == "jobflow.flow.volcano.sh/chain deleted\n"
    assert pumice("jobtemplate", "delete", "-f", template).out == "jobtemplate.flow.volcano.sh/step deleted\n"
    assert pumice("jobflow", "get", "chain").code == 3


def test_a_file_of_something_else_makes_nothing(pumice, files):
    template, flow = files
    refused = pumice("jobflow", "create", "-f", template)
    assert (refused.code, refused.err) == (
        2,
        f"pumice: {template}: expected a JobFlow of flow.volcano.sh/v1alpha1; correct apiVersion and kind\n",
    )
    Path(flow).write_text(Path(flow).read_text().replace("flows:", "flowz: []\n  flows:"))
    assert 'unknown field "spec.flowz"' in pumice("jobflow", "create", "-f", flow).err
    assert pumice("jobtemplate", "delete", "-f", flow).code == 2
    assert pumice("jobtemplate", "list", "-o", "name").out == ""


# ------------------------------------------------------------------------------------------------ vcctl's flags

EVERYWHERE = "-s --master -k --kubeconfig -v --vmodule --log-flush-frequency"
VCCTL = {
    "job run": "-N --name -n --namespace -i --image -m --min -r --replicas -R --requests -L --limits -S --scheduler "
    "-f --filename",
    "job list": "-n --namespace -q --queue -S --scheduler --all-namespaces --selector",
    "job view": "-n --namespace -N --name",
    "job suspend": "-n --namespace -N --name",
    "job resume": "-n --namespace -N --name",
    "job delete": "-n --namespace -N --name",
    "queue create": "-n --name -w --weight -S --state",
    "queue delete": "-n --name",
    "queue operate": "-n --name -a --action -w --weight",
    "queue list": "",
    "queue get": "-n --name",
    "jobflow create": "-f --file",
    "jobflow list": "-n --namespace --all-namespaces",
    "jobflow get": "-N --name -n --namespace",
    "jobflow delete": "-N --name -f --file -n --namespace",
    "jobflow describe": "-N --name -n --namespace -o --format",
    "jobtemplate create": "-f --file",
    "jobtemplate list": "-n --namespace",
    "jobtemplate get": "-N --name -n --namespace",
    "jobtemplate delete": "-N --name -f --file -n --namespace",
    "jobtemplate describe": "-N --name -n --namespace -o --format",
    "pod list": "-n --namespace -j --job -q --queue --all-namespaces",
    "version": "",
}
# The short commands have their letters swapped: -n is the name, -N the namespace.
SHORT = {
    "vsub": "-n --name -N --namespace -i --image -m --min -r --replicas -R --requests -L --limits -S --scheduler -c --command",
    "vjobs": "-n --name -N --namespace -S --scheduler --all-namespaces --selector",
    "vqueues": "-n --name",
    "vcancel": "-n --name -N --namespace",
    "vsuspend": "-n --name -N --namespace",
    "vresume": "-n --name -N --namespace",
}


def options(command):
    return {opt: parameter.name for parameter in command.params for opt in parameter.opts}


def found(words):
    command = main.pumice
    for word in words.split():
        command = command.get_command(click.Context(command), word)
    return command


@pytest.mark.parametrize(("words", "flags"), VCCTL.items())
def test_vcctls_flags_are_all_known(words, flags):
    known = options(found(words))
    assert [flag for flag in f"{flags} {EVERYWHERE}".split() if flag not in known] == []
    if "-N" in flags.split():
        assert (known["-N"], known["-n"]) == ("name_flag", "namespace")


@pytest.mark.parametrize(("name", "flags"), SHORT.items())
def test_the_short_commands_flags_are_all_known_and_swapped(name, flags):
    known = options(aliases.COMMANDS[name])
    assert [flag for flag in f"{flags} {EVERYWHERE}".split() if flag not in known] == []
    assert known["-n"] == "name_flag"
    assert known.get("-N", "namespace") == "namespace"


def test_logging_flags_are_taken_and_change_nothing(pumice):
    result = pumice("queue", "list", "-v", "4", "--vmodule", "a=2", "--log-flush-frequency", "5s", "-o", "name")
    assert result.code == 0
    assert "queue.scheduling.volcano.sh/default" in result.lines


def test_what_the_server_warns_of_is_shown_as_kubectl_does(pumice, emptied, tmp_path):
    job = a_job("warned")
    job["spec"]["maxRetry"] = 0
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    made = pumice("job", "run", "-f", str(tmp_path / "job.yaml"))
    assert made.code == 0
    assert "Warning: spec.maxRetry: 0 is replaced by 3; write 1 to allow no restart\n" in made.err
    assert "Warning" not in made.out
