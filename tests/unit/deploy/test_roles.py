"""What the scheduler may list and keep follows from what the built-in policy's plugins declare."""

import re
from pathlib import Path

from pumice import yamltext
from pumice.api import kinds, names
from pumice.processes.requirements import kinds_of
from pumice.scheduling import plugins
from pumice.scheduling.core import builtin
from pumice.scheduling.core.build_decisions import OWN_MEMORY
from pumice.scheduling.time import run_times

DEPLOY = Path(__file__).parents[3] / "deploy"
MANIFEST = DEPLOY / "pumice.yaml"
TEMPLATE = (DEPLOY / "helm" / "pumice" / "templates" / "rbac-scheduler.yaml").read_text()
POLICY = builtin.parse(builtin.TEXT, "built-in policy")
CLASSES = plugins.of_policy(POLICY, {})


def rules(kind, name):
    documents = [each for each in yamltext.load_all(MANIFEST.read_text(), source="plain") if each]
    (role,) = [each for each in documents if each["kind"] == kind and each["metadata"]["name"] == name]
    return role["rules"]


def test_the_scheduler_may_list_exactly_what_its_state_and_its_plugins_are_made_of():
    wanted = {(kinds.by_struct(struct).group, kinds.by_struct(struct).plural) for struct in kinds_of(POLICY, {})}
    granted = {
        (group, resource)
        for rule in rules("ClusterRole", "pumice-scheduler")
        if {"list", "watch"} <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert granted == wanted


def test_the_charts_policy_is_the_built_in_one():
    (values,) = yamltext.load_all((DEPLOY / "helm" / "pumice" / "values.yaml").read_text(), source="values")
    assert values["scheduler"]["policy"] == builtin.TEXT


def test_the_scheduler_may_keep_exactly_the_slots_that_are_persistent():
    own = (slot for slot, _ in OWN_MEMORY)
    slots = [*own, *(plugin.memory for plugin in CLASSES if plugin.memory is not None)]
    (named,) = [rule for rule in rules("Role", "pumice-scheduler-memory") if "update" in rule["verbs"]]
    assert named["resourceNames"] == [f"pumice-scheduler-memory-{slot.name}" for slot in slots if slot.persistent]


def test_the_scheduler_may_read_what_the_record_learned_only_where_the_policy_asks_for_estimates():
    rest = TEMPLATE.partition(f'{{{{- if contains "{run_times.ASKED_FOR_BY}" $policy }}}}\n')[2]
    ((rule,),) = yamltext.load_all(rest.partition("{{- end }}")[0], source="template")
    assert rule == {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [names.RECORDED_RUN_TIMES],
        "verbs": ["get"],
    }
    assert TEMPLATE.count(names.RECORDED_RUN_TIMES) == 1
    assert rule in rules("Role", "pumice-scheduler-memory"), "the built-in policy asks"


def test_the_chart_knows_what_plugins_beyond_the_built_in_policy_list_and_keep():
    granted = {kinds.by_struct(struct).plural for struct in kinds_of(POLICY, {})}
    for name, plugin in plugins.NAMES.items():
        for watch in plugin.watches:
            if (plural := kinds.by_struct(watch.kind).plural) not in granted:
                asked = TEMPLATE.partition(f'{{{{- if contains "{name}" .Values.scheduler.policy }}}}')[2]
                assert plural in asked.partition("{{- end }}")[0], f"{name} lists {plural}"
    (named,) = re.findall(r'range list ((?:"[\w-]+:[\w-]+" ?)+)}}', TEMPLATE)
    assert set(re.findall(r'"([\w-]+:[\w-]+)"', named)) == {
        f"{name}:{plugin.memory.name}"
        for name, plugin in plugins.NAMES.items()
        if plugin.memory is not None and plugin.memory.persistent
    }
