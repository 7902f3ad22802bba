"""Every file here is one cluster, one policy and what one cycle must decide.

description: one sentence
policy: the policy file
now: optional, an instant; without it the newest creation time
loads: optional, node -> {cpuPercent, memoryPercent, measuredAt, period}
objects: Kubernetes objects
expect: {binds or bindCount, pipelined, evictions, podGroups: {key: {phase, reasons: parts of texts}}}
"""

from pathlib import Path

import msgspec
import pytest

from pumice import instant
from pumice.api import changes, decoding, kinds
from pumice.cli import offline
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.scheduling.core import builtin, cycle
from pumice.scheduling.core.ports import ExtenderFailed, NodeLoad, Ports
from pumice.yamltext import load_all

SCENARIOS = sorted(Path(__file__).parent.glob("*.yaml"))
EXPECTATIONS = {"binds", "bindCount", "pipelined", "evictions", "podGroups"}


def decided(scenario, source):
    policy = builtin.parse(msgspec.json.encode(scenario["policy"]), source)
    cluster = Cluster()
    intake = Intake(cluster)
    for thing in scenario["objects"]:
        kind = kinds.by_kind(thing["apiVersion"], thing["kind"])
        assert kind is not None, f"{source}: {thing['apiVersion']} {thing['kind']} is no kind that we know"
        intake.apply(changes.Upserted(decoding.decode_value(kind.struct, thing)))
    newest = max(thing["metadata"].get("creationTimestamp", "1970-01-01T00:00:00Z") for thing in scenario["objects"])
    now = instant.parse_instant(scenario.get("now", newest))
    loads = {
        node: NodeLoad(
            cpu_percent=load["cpuPercent"],
            memory_percent=load["memoryPercent"],
            measured_at=instant.parse_instant(load["measuredAt"]),
            period=load.get("period", "10m"),
        )
        for node, load in scenario.get("loads", {}).items()
    }
    answers = scenario.get("extender")
    ports = Ports(loads=loads, extender=None if answers is None else lambda verb, _: answered(answers, verb))
    return offline.as_data(cycle.plan(cluster.snapshot(), policy, now=now, ports=ports))


def answered(answers, verb):
    if verb not in answers:
        raise ExtenderFailed(f"no answer to {verb}")
    return answers[verb]


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_cycle_decides_what_the_scenario_says(path):
    (scenario,) = load_all(path.read_bytes(), source=path.name)
    expect = scenario["expect"]
    assert scenario["description"]
    assert expect.keys() <= EXPECTATIONS, f"{path.name}: unknown expectations {expect.keys() - EXPECTATIONS}"
    assert {"binds", "bindCount"} & expect.keys(), f"{path.name}: say what is bound, if only nothing"
    got = decided(scenario, path.name)
    if "bindCount" in expect:
        assert len(got["binds"]) == expect["bindCount"]
    if "binds" in expect:
        assert got["binds"] == expect["binds"]
    assert got["pipelined"] == expect.get("pipelined", {})
    assert sorted(got["evictions"]) == sorted(expect.get("evictions", []))
    for key, group in expect.get("podGroups", {}).items():
        assert group.get("phase", got["podGroups"][key]["phase"]) == got["podGroups"][key]["phase"], key
        texts = [offline.reason_text(reason) for reason in got["podGroups"][key]["reasons"]]
        for part in group.get("reasons", []):
            assert any(part in text for text in texts), (part, texts)
