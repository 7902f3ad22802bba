"""The names that programs read in what listings print. A name that goes, or means something else, breaks them: it stays."""

import msgspec
from tools.docs import listings

from pumice.cli import room, usage

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


def test_the_names_of_nodes_stay_and_are_all_told():
    node = room.NodeRoom(name="n", state="Ready", cards=8, used=0, free=8, fragmented=0, pods=0)
    data = room.Rooms("nvidia.com/gpu", (node,), {8: 1}, {"tainted": 1}).data()
    found = {
        f"{name}[].{inner}" if isinstance(value, list) else name
        for name, value in data.items()
        for inner in (value[0] if isinstance(value, list) else [""])
    }
    assert found == set(listings.NODES) - {"largestGangs[].each"}
