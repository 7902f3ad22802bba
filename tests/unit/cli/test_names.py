"""The names that programs read in what listings print. A name that goes, or means something else, breaks them: it stays."""

import json

import click
import msgspec
from tests.unit.scheduling.clusters import a_cluster, plan_for, policy
from tools.docs import listings

from pumice.api.batch import Job
from pumice.api.flow import Flow, FlowDependency, JobFlow, JobFlowSpec
from pumice.api.meta import ObjectMeta
from pumice.api.scheduling import Queue
from pumice.cli import deadlocks, forecast, history, migration, prio, replay, room, slurm_tables, usage
from pumice.cli.main import pumice, run
from pumice.flight.replay import Played
from pumice.readmodel import model
from pumice.record import chargeback
from pumice.record.model import ForecastRecord, GangRow
from pumice.scheduling.core.decisions import Stranded
from pumice.scheduling.core.memory import EMPTY
from pumice.scheduling.time import accuracy
from pumice.scheduling.whatif import outcome

NAMES = {
    usage.Usage: "resource total used free source at namespace policy queues users jobs others",
    usage.QueueUsage: "name parent state weight held share deserved guarantee borrowed limit left running waiting",
    usage.UserUsage: "name held share running waiting queues",
    usage.JobUsage: "name namespace gang user queue phase held share asks running waiting position created",
    usage.Others: "gangs pods",
    usage.QueueShare: "used deserved borrowed limit left running waiting",
}


def test_the_names_of_usage_stay():
    for struct, expected in NAMES.items():
        names = [field.encode_name for field in msgspec.structs.fields(struct)]
        assert [name for name in expected.split() if name not in names] == [], struct.__name__
    assert set(NAMES) == set(listings.STRUCTS)  # and all of them are in the reference


def test_nothing_is_left_out_where_it_is_empty():
    """A program need not ask whether a name is there."""
    share = usage.QueueShare(used={}, deserved={}, borrowed={}, limit={}, left={}, running=0, waiting=0)
    assert set(msgspec.to_builtins(share)) == set(NAMES[usage.QueueShare].split())


def names_in(data):
    """The names of a document, those in lists as `list[].name`."""
    found = set()
    for name, value in data.items():
        if isinstance(value, list):
            found |= {f"{name}[].{inner}" for inner in value[0]}
        else:
            found.add(name)
    return found


def test_the_names_of_nodes_stay_and_are_all_told():
    node = room.NodeRoom(name="n", state="Ready", cards=8, used=0, free=8, fragmented=0, pods=0)
    stranded = Stranded("nvidia.com/gpu", each=8, free=9, usable=8)
    data = room.Rooms("nvidia.com/gpu", (node,), {8: 1}, {"tainted": 1}, (stranded,), 2.5).data()
    assert names_in(data) == set(listings.NODES) - {"largestGangs[].each"}


def test_the_names_of_gangs_that_wait_stay_and_are_all_told():
    members = model.Members(minimum=1)
    gang = model.Gang(key="a/b", namespace="a", name="b", queue="q", phase="Pending", members=members, position=1)
    rules = model.Policy(source="", actions=(), plugins=())
    totals = model.Totals(nodes=0, allocatable={}, used={})
    state = model.State(version=1, leader="", cycle=1, at="", policy=rules, totals=totals, gangs=(gang,))
    assert names_in(prio.data(state, [gang], "leader")) == set(listings.PRIO)


def test_the_names_of_deadlocks_stay_and_are_all_told():
    members = model.Members(minimum=8, running=4)
    why = model.Reason(code="HoldsWhileWaiting", plugin="deadlock", reason="holds")
    gang = model.Gang(key="a/b", namespace="a", name="b", queue="q", phase="Unknown", members=members, reasons=(why,))
    rules = model.Policy(source="", actions=(), plugins=())
    totals = model.Totals(nodes=0, allocatable={}, used={})
    state = model.State(version=1, leader="", cycle=1, at="", policy=rules, totals=totals, gangs=(gang,))
    ring = JobFlow(spec=JobFlowSpec(flows=(Flow(name="x", depends_on=FlowDependency(targets=("x",))),)))
    assert names_in(deadlocks.data(state, [ring], "leader")) == set(listings.DEADLOCKS)


def test_the_names_of_finished_gangs_stay_and_are_all_told():
    row = GangRow(
        uid="u", kind="Job", namespace="a", name="b", user="u", queue="q", team="", state="Completed", reason="",
        submitted=0, admitted=None, started=None, ended=1, wait_s=0, run_s=1, attempts=1, evictions=0, lost_s=0,
        gpu_hours=0.0, lost_gpu_hours=0.0, held={}, shapes=[],
    )  # fmt: skip
    assert names_in({"prices": {}, "gangs": [history._data(row, {})]}) == set(listings.HISTORY)


def test_the_names_of_a_bill_and_of_forecasts_stay_and_are_all_told():
    line = chargeback.Line("ann", 1.0, 0.0, None, None)
    bill = msgspec.to_builtins(chargeback.Bill("user", [line], line, None, None, None))
    found = {"title", "gaps", *(f"bill.{name}" for name in names_in(bill))}
    assert found == set(listings.BILL)
    told = forecast.as_data(accuracy.Forecast("lab/a", "u", 0))
    past = msgspec.to_builtins(ForecastRecord(1, 0, 0, None, None))
    found = {*names_in({"at": "", "forecasts": [told], "score": None}), *(f"record.{name}" for name in past)}
    assert found - {"record.version"} == set(listings.FORECASTS)


def test_the_names_of_differences_stay_and_none_is_left_out_where_it_is_empty():
    empty = set(msgspec.to_builtins(outcome.Outcome())) - {"forecasts"}
    told = msgspec.to_builtins(outcome.StartTimes(after=outcome.When()))
    parts = {*told, *(f"after.{name}" for name in told["after"])}
    assert empty | {f"forecasts.GANG.{name}" for name in parts} == set(listings.DIFFERENCES)


def test_the_names_of_slurms_listings_stay_and_are_all_told():
    [row] = slurm_tables.queue_rows([Job()], [], [], 0)
    assert names_in({"jobs": [msgspec.to_builtins(row)]}) == set(listings.SQUEUE)
    [partition] = slurm_tables.partition_rows([Queue(metadata=ObjectMeta(name="q"))], {"n": "idle"})
    by_node = {"nodes[].node", "nodes[].state"}
    assert names_in({"partitions": [msgspec.to_builtins(partition)]}) == set(listings.SINFO) - by_node


def test_the_names_of_simulations_stay_and_are_all_told(capsys):
    run(
        [
            "simulate",
            "--workload",
            "generated",
            "--cluster",
            "2x8",
            "--jobs",
            "3",
            "--per-job",
            "--gpu-price",
            "2",
            "-o",
            "json",
        ]
    )
    data = json.loads(capsys.readouterr().out)
    [own] = data.pop("policies").values()
    assert {*data, *(f"policies.NAME.{each}" for each in names_in(own))} == set(listings.SIMULATIONS) - {
        "policies.NAME.cut_short_s"
    }  # which is there after Ctrl-C
    assert all(
        set(each) == {"jobs", "median_wait_s", "mean_wait_s", "p95_wait_s", "max_wait_s"}
        for each in own["wait_by_size"].values()
    )


def test_the_names_of_replayed_cycles_stay_and_are_all_told():
    each = Played(
        1, 0, a_cluster().snapshot(), None, EMPTY, None, plan_for(policy=policy("allocate", "gang")), None, (), ""
    )
    assert names_in({"cycles": [replay._row(each)]}) == set(listings.CYCLES)


def test_the_names_of_findings_stay_and_are_all_told():
    found = migration.Finding(migration.Severity.BREAKS, "Job a/b", "it would not start", "migrate.md")
    assert names_in({"objects": 1, "findings": [found.as_data()]}) == set(listings.FINDINGS)


def test_every_command_that_prints_json_stands_in_the_reference():
    told = listings.reference()
    missing = [name for name in _commands(pumice, click.Context(pumice)) if f"`pumice {name}" not in told]
    assert missing == []


def _commands(group, context, above=()):
    """The names of all commands that take `-o json`, or `--format json`."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _commands(command, context, (*above, name))
        elif not command.hidden and any(_prints_json(option) for option in command.params):
            yield " ".join((*above, name))


def _prints_json(option):
    choices = getattr(option.type, "choices", ())
    return "json" in choices or (option.metavar == "FORM" and "--output" in option.opts)
