"""The policy file: Volcano's format, and errors that say where and what to write instead."""

import pytest
from tests.unit.scheduling.clusters import a_gang, a_node, binds, plan_for

from pumice.errors import BadInput
from pumice.scheduling.core import builtin
from pumice.scheduling.core.policy import FLAGS, POLICY_BYTES_MAX, PolicyError

VOLCANO_DEFAULT = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""


def parse(text):
    return builtin.parse(text, "policy.yaml")


def refusal(text):
    with pytest.raises(PolicyError) as caught:
        parse(text)
    return str(caught.value)


def with_plugin(line):
    return f"actions: allocate\ntiers:\n- plugins:\n  - {line}\n"


# ------------------------------------------------------------------------------------------------------ reading


def test_volcanos_own_default_is_read():
    found = parse(VOLCANO_DEFAULT)
    assert found.actions == ("enqueue", "allocate", "backfill")
    assert [(option.name, option.tier) for option in found.options] == [
        ("priority", 0), ("gang", 0), ("conformance", 0),
        ("overcommit", 1), ("drf", 1), ("predicates", 1), ("proportion", 1), ("nodeorder", 1),
    ]  # fmt: skip
    assert found.source == "policy.yaml"


def test_blanks_around_actions_do_not_matter():
    assert parse('actions: " enqueue ,allocate,  backfill"\ntiers: []').actions == ("enqueue", "allocate", "backfill")


def test_what_holds_without_a_file_is_written_in_the_files_own_format():
    found = parse(builtin.TEXT)
    assert found.actions == ("enqueue", "allocate", "preempt", "reclaim", "lend", "backfill")
    assert [option.name for option in found.options] == [
        "priority", "gang", "conformance", "pdb", "eviction", "reservation",
        "overcommit", "user-limits", "fairshare", "drf", "predicates", "proportion", "nodeorder", "binpack",
        "resource-strategy-fit", "deviceshare", "fragmentation", "network-topology-aware",
    ]  # fmt: skip
    assert not found.option("gang").allows("enablePreemptable")
    assert not found.option("drf").allows("enablePreemptable")


def test_a_flag_that_is_not_mentioned_is_on_except_two():
    option = parse(with_plugin("name: gang")).option("gang")
    assert {flag for flag in FLAGS if not option.allows(flag)} == {"enableHierarchy", "enabledClusterOrder"}


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("spelling", [str, lambda flag: flag.replace("enabled", "enable"), str.lower])
def test_flags_count_in_every_spelling(flag, spelling):
    value = "false" if FLAGS[flag] else "true"
    option = parse(with_plugin(f"{{name: gang, {spelling(flag)}: {value}}}")).option("gang")
    assert option.flags == {flag: not FLAGS[flag]}
    assert option.allows(flag) is not FLAGS[flag]


def test_a_flag_turned_off_takes_the_plugins_say_away():
    with_gang = "actions: allocate\ntiers:\n- plugins:\n  - {name: gang}\n"
    without = "actions: allocate\ntiers:\n- plugins:\n  - {name: gang, enableJobReady: false}\n"
    world = [a_node("n1", cpu="1"), a_gang("g", 2)]
    assert binds(plan_for(*world, policy=parse(with_gang))) == {}
    assert binds(plan_for(*world, policy=parse(without))) == {"g-w-0": "n1"}


def test_arguments_and_configurations_are_kept_by_name():
    found = parse(
        "actions: preempt\n"
        "tiers:\n- plugins:\n  - name: binpack\n    arguments: {binpack.weight: 10}\n"
        "configurations:\n- name: preempt\n  arguments: {enableTopologyAwarePreemption: true}\n"
        "metrics: {type: prometheus, interval: 30s}\n"
    )
    assert found.option("binpack").arguments == {"binpack.weight": 10}
    assert found.configurations == {"preempt": {"enableTopologyAwarePreemption": True}}
    assert found.metrics == {"type": "prometheus", "interval": "30s"}


def test_of_two_configurations_of_an_action_the_first_counts():
    text = "actions: allocate\ntiers: []\nconfigurations:\n"
    for value in ("true", "false"):
        text += f"- name: allocate\n  arguments: {{predicateErrorCacheEnable: {value}}}\n"
    assert parse(text).configurations == {"allocate": {"predicateErrorCacheEnable": True}}


def test_a_tier_may_be_empty():
    assert parse("actions: allocate\ntiers:\n- plugins:\n- plugins: []\n- {}\n").options == ()


# ------------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "policy policy.yaml: expected one YAML mapping with actions and tiers, found 0 documents"),
        ("- a\n", "policy policy.yaml: expected one YAML mapping"),
        ("tiers: []", 'policy policy.yaml: actions: expected one string such as "enqueue, allocate, backfill"'),
        ("actions: []\ntiers: []", "actions: expected one string"),
        ("actions: ''\ntiers: []", "actions: expected one string"),
        ("actions: alocate\ntiers: []", "actions: unknown action 'alocate'; did you mean allocate?"),
        ("actions: elect\ntiers: []", "actions: unknown action 'elect'; known are allocate, backfill, consolidate, enqueue,"),
        ("actions: 'allocate,'\ntiers: []", "actions: unknown action ''"),
        ("actions: allocate", "tiers: expected a list of tiers, each with plugins"),
        ("actions: allocate\ntiers: {}", "tiers: expected a list of tiers"),
        ("actions: allocate\ntiers: [x]", "tiers[0]: expected a mapping with a list of plugins"),
        ("actions: allocate\ntiers: [{plugins: x}]", "tiers[0]: expected a mapping with a list of plugins"),
        ("actions: allocate\ntiers: [{plugin: []}]", "tiers[0]: unknown key 'plugin'; did you mean plugins?"),
        ("actions: allocate\ntiers: []\ntier: []", "top level: unknown key 'tier'; did you mean tiers?"),
        ("actions: allocate\ntiers: []\nmetrics: x", "metrics: expected a mapping"),
        (with_plugin("gang"), "tiers[0].plugins[0]: expected a mapping with a name"),
        (with_plugin("name: gangs"), "tiers[0].plugins[0]: unknown plugin 'gangs'; did you mean gang?"),
        (with_plugin("{name: gang, enableJobRedy: true}"), "(gang): unknown key 'enableJobRedy'; did you mean enableJobReady?"),
        (with_plugin("{name: gang, enableJobReady: 'yes'}"), "(gang): enableJobReady: expected true or false, not 'yes'"),
        (
            with_plugin("{name: gang, enablePredicate: true, enabledPredicate: false}"),
            "enablePredicate is given twice, in two spellings; keep one",
        ),
        (with_plugin("{name: gang, arguments: [1]}"), "(gang): arguments: expected a mapping"),
        (
            "actions: allocate\ntiers:\n- plugins: [{name: gang}]\n- plugins: [{name: gang}]\n",
            "tiers: plugin gang is listed twice; keep the one whose tier you mean",
        ),
        (
            "actions: allocate\ntiers:\n- plugins: [{name: drf, enableHierarchy: true}, {name: proportion}]\n",
            "tiers[0]: proportion and drf with hierarchy enabled conflicts; move one to another tier",
        ),
        ("actions: allocate\ntiers: []\nconfigurations: x", "configurations: expected a list of actions with arguments"),
        ("actions: allocate\ntiers: []\nconfigurations: [x]", "configurations[0]: expected a mapping with the name of an action"),
        ("actions: allocate\ntiers: []\nconfigurations: [{name: prempt}]", "unknown action 'prempt'; did you mean preempt?"),
        (
            "actions: allocate\ntiers: []\nconfigurations: [{name: preempt, arguments: [1]}]",
            "configurations[0]: arguments: expected a mapping",
        ),
        (
            "actions: allocate\ntiers: []\nconfigurations: [{name: preempt, arguments: {topology: true}}]",
            "configurations: preempt: Object contains unknown field `topology`; correct that argument",
        ),
        (
            "actions: allocate\ntiers: []\nconfigurations: [{name: allocate, arguments: {predicateErrorCacheEnable: 7}}]",
            "configurations: allocate: Expected `bool`",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_the_place_and_the_likely_meaning(text, said):
    assert said in refusal(text)


def test_two_documents_are_not_one_policy():
    assert "found 2 documents" in refusal("actions: allocate\ntiers: []\n---\na: b\n")


def test_broken_yaml_names_the_file():
    with pytest.raises(BadInput, match=r"policy\.yaml"):
        parse("actions: [\n")


def test_a_file_that_cannot_be_a_policy_is_not_even_read():
    assert f"larger than {POLICY_BYTES_MAX} bytes" in refusal("#" * (POLICY_BYTES_MAX + 1))


# ------------------------------------------------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("{binpack.wieght: 1}", "plugin binpack: unknown argument 'binpack.wieght'; did you mean binpack.weight?"),
        ("{colour: 1}", "plugin binpack: unknown argument 'colour'; it takes binpack.cpu, binpack.memory,"),
        ("{binpack.weight: heavy}", "plugin binpack: Expected `int`, got `str` - at `$.binpack.weight`; correct that argument"),
        ("{binpack.weight: 1.5}", "plugin binpack: Expected `int`, got `float`"),
        (
            "{binpack.resources: a.io/x, binpack.resources.a.io/x: heavy}",
            "plugin binpack: binpack.resources.a.io/x: Expected `int`, got `str`; correct that argument",
        ),
    ],
)  # fmt: skip
def test_an_argument_that_cannot_be_meant_is_refused(arguments, said):
    chosen = parse(with_plugin(f"{{name: binpack, arguments: {arguments}}}"))
    with pytest.raises(PolicyError) as caught:
        plan_for(a_node(), policy=chosen)
    assert f"policy policy.yaml: {said}" in str(caught.value)


@pytest.mark.parametrize("weight", ["10", '"10"'])
def test_a_quoted_number_counts_as_what_it_says(weight):
    plan_for(a_node(), policy=parse(with_plugin(f"{{name: binpack, arguments: {{binpack.weight: {weight}}}}}")))


def test_arguments_that_volcanos_files_carry_and_nothing_reads_are_no_error():
    chosen = parse(with_plugin("{name: predicates, arguments: {predicate.CacheEnable: true}}"))
    assert binds(plan_for(a_node("n1"), a_gang("g", 1), policy=chosen)) == {"g-w-0": "n1"}


def test_a_plugin_without_arguments_takes_none():
    with pytest.raises(PolicyError, match="plugin gang: unknown argument 'x'; it takes none"):
        plan_for(a_node(), policy=parse(with_plugin("{name: gang, arguments: {x: 1}}")))
