"""A queue's state, decided from the queue, its parent, its groups and its Commands alone."""

import pytest

from pumice import instant
from pumice.api import names
from pumice.api.bus import Command
from pumice.api.meta import ObjectMeta
from pumice.api.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, Queue, QueueSpec, QueueStatus
from pumice.controllers.operations import Apply, Create, Delete, Emit, Patch
from pumice.controllers.queue.plan import COMMAND_S_MAX, View, plan

NOW = instant.parse_instant("2026-03-28T12:00:00Z")


def a_queue(state, *, name="q", parent="root", mark=None, **status):
    annotations = {} if mark is None else {names.CLOSED_BY_PARENT: mark}
    return Queue(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", resource_version="7", annotations=annotations),
        spec=QueueSpec(parent=parent),
        status=QueueStatus(state=state, **status),
    )


def a_group(number=0, phase="Running"):
    return PodGroup(
        metadata=ObjectMeta(name=f"g{number}", namespace="team"),
        spec=PodGroupSpec(queue="q"),
        status=PodGroupStatus(phase=phase),
    )


def a_command(action, *, name="c", at="2026-03-28T12:00:00Z"):
    return Command(
        metadata=ObjectMeta(name=name, namespace="team", uid=f"uid-{name}", creation_timestamp=at), action=action
    )


def written(operations):
    """What a plan does to the queue, in words."""
    words = []
    for operation in operations:
        match operation:
            case Apply(body=body, subresource="status", manager="queue-controller"):
                words.append(f"state {body['status']['state']}")
            case Patch(body={"metadata": {"annotations": marks}}):
                words.append(f"mark {marks[names.CLOSED_BY_PARENT]}")
            case Patch(body={"spec": {"parent": parent}}):
                words.append(f"parent {parent}")
            case Patch(subresource="status", hurry=False):
                words.append("counts")
            case Delete(name=name):
                words.append(f"consume {name}")
            case Emit(type=type_, reason=reason):
                words.append(f"{type_} {reason}")
            case _:
                words.append(repr(operation))
    return words


STATES = ["", "Open", "Closing", "Closed", "Unknown"]

# (state, action, groups) -> state afterwards; Volcano's table.
TABLE = {
    ("", None, 0): "Open",
    ("", None, 1): "Open",
    ("Open", None, 0): "Open",
    ("Open", None, 1): "Open",
    ("Closing", None, 0): "Closed",
    ("Closing", None, 1): "Closing",
    ("Closed", None, 0): "Closed",
    ("Closed", None, 1): "Closed",
    ("Unknown", None, 0): "Unknown",
    ("Unknown", None, 1): "Unknown",
    ("", "OpenQueue", 0): "Open",
    ("", "OpenQueue", 1): "Open",
    ("Open", "OpenQueue", 0): "Open",
    ("Open", "OpenQueue", 1): "Open",
    ("Closing", "OpenQueue", 0): "Open",
    ("Closing", "OpenQueue", 1): "Open",
    ("Closed", "OpenQueue", 0): "Open",
    ("Closed", "OpenQueue", 1): "Open",
    ("Unknown", "OpenQueue", 0): "Open",
    ("Unknown", "OpenQueue", 1): "Open",
    ("", "CloseQueue", 0): "Closed",
    ("", "CloseQueue", 1): "Closing",
    ("Open", "CloseQueue", 0): "Closed",
    ("Open", "CloseQueue", 1): "Closing",
    ("Closing", "CloseQueue", 0): "Closed",
    ("Closing", "CloseQueue", 1): "Closing",
    ("Closed", "CloseQueue", 0): "Closed",
    ("Closed", "CloseQueue", 1): "Closed",
    ("Unknown", "CloseQueue", 0): "Closed",
    ("Unknown", "CloseQueue", 1): "Closing",
}


def test_the_table_has_every_cell():
    assert set(TABLE) == {
        (state, action, n) for state in STATES for action in (None, "OpenQueue", "CloseQueue") for n in (0, 1)
    }


@pytest.mark.parametrize(("state", "action", "groups"), TABLE)
def test_states_and_actions_are_volcanos(state, action, groups):
    wanted = TABLE[state, action, groups]
    commands = [a_command(action)] if action else []
    view = View("q", a_queue(state, running=groups), a_queue("Open", name="root"), [a_group()] * groups, commands)
    words = written(plan(view, NOW))
    assert [word for word in words if word.startswith("state")] == ([f"state {wanted}"] if wanted != state else [])
    assert ("consume c" in words) is (action is not None)


@pytest.mark.parametrize(
    ("state", "mark", "parent", "wanted"),
    [
        ("Open", None, "Closed", ["mark true", "state Closed"]),
        ("Open", "false", "Closing", ["mark true", "state Closed"]),
        ("Unknown", None, "Closed", ["mark true", "state Closed"]),
        ("Open", "true", "Closed", ["state Closed"]),
        ("Closed", "true", "Closed", []),
        ("Closed", "true", "Open", ["state Open", "mark false"]),
        ("Closing", "true", "", ["state Open", "mark false"]),
        ("Closed", "false", "Open", []),
        ("Closed", None, "Open", []),
        ("Open", "true", "Open", ["mark false"]),
        ("Closed", "true", None, []),
    ],
)
def test_a_queue_follows_its_parent_unless_it_was_closed_for_itself(state, mark, parent, wanted):
    above = None if parent is None else a_queue(parent, name="above")
    assert written(plan(View("q", a_queue(state, parent="above", mark=mark), above), NOW)) == wanted


def test_a_queue_closed_by_name_no_longer_opens_with_its_parent():
    shut = View(
        "q",
        a_queue("Closed", parent="above", mark="true"),
        a_queue("Closed", name="above"),
        (),
        [a_command("CloseQueue")],
    )
    assert written(plan(shut, NOW)) == ["mark false", "Normal CloseQueue", "consume c"]


def test_below_a_closed_parent_nothing_opens_and_people_are_told():
    view = View("q", a_queue("Closed", parent="above"), a_queue("Closed", name="above"), (), [a_command("OpenQueue")])
    assert written(plan(view, NOW)) == ["Warning OpenQueue", "consume c"]
    (warning, _) = plan(view, NOW)
    assert warning.message == "the queue stays Closed: its parent above is closed; open that first"


def test_a_wish_to_open_waits_for_the_parent_that_is_about_to_open():
    view = View(
        "q",
        a_queue("Closed", parent="above"),
        a_queue("Closed", name="above"),
        (),
        [a_command("OpenQueue")],
        parent_is_to_open=True,
    )
    assert written(plan(view, NOW)) == []


def test_the_root_cannot_be_closed():
    view = View("root", a_queue("Open", name="root", parent=""), None, (), [a_command("CloseQueue")])
    assert written(plan(view, NOW)) == ["Warning CloseQueue", "consume c"]


def test_an_action_that_queues_do_not_know_is_consumed_with_a_word():
    view = View("q", a_queue("Open"), None, (), [a_command("AbortJob")])
    assert written(plan(view, NOW)) == ["Warning UnknownAction", "consume c"]


def test_commands_are_obeyed_one_after_the_other():
    commands = [a_command("CloseQueue", name="first"), a_command("OpenQueue", name="second")]
    assert written(plan(View("q", a_queue("Open"), None, (), commands), NOW))[-1] == "consume first"


def test_a_queue_without_a_parent_is_put_below_the_root_unless_somebody_was_faster():
    (patch,) = plan(View("q", a_queue("Open", parent="")), NOW)
    assert (patch.body, patch.version) == ({"spec": {"parent": "root"}}, "7")
    assert written(plan(View("root", a_queue("Open", name="root", parent="")), NOW)) == []


def test_groups_are_counted_by_phase_and_written_without_hurry():
    phases = ["Pending", "", "Inqueue", "Running", "Running", "Completed", "Unknown"]
    groups = [a_group(number, phase) for number, phase in enumerate(phases)]
    (patch,) = plan(View("q", a_queue("Open"), None, groups), NOW)
    assert patch.body == {"status": {"pending": 2, "inqueue": 1, "running": 2, "completed": 1, "unknown": 1}}
    assert patch.hurry is False
    counted = a_queue("Open", pending=2, inqueue=1, running=2, completed=1, unknown=1)
    assert written(plan(View("q", counted, None, groups), NOW)) == []


@pytest.mark.parametrize(("name", "reclaimable"), [("root", False), ("default", True)])
def test_root_and_default_are_made_again(name, reclaimable):
    (create,) = plan(View(name, None), NOW)
    assert isinstance(create, Create)
    assert create.body["spec"] == {"weight": 1, "reclaimable": reclaimable}
    assert written(plan(View("other", None), NOW)) == []


def test_a_command_waits_a_moment_for_its_queue_and_is_dropped_then():
    view = View("q", None, commands=[a_command("CloseQueue")])
    waiting = plan(view, NOW)
    assert list(waiting) == []
    assert waiting.again_at == NOW + COMMAND_S_MAX * instant.SECOND
    assert written(plan(view, waiting.again_at)) == ["consume c"]


def test_a_queue_that_is_going_is_left_alone():
    gone = Queue(metadata=ObjectMeta(name="q", deletion_timestamp="2026-03-28T12:00:00Z"))
    assert written(plan(View("q", gone, None, (), [a_command("OpenQueue")]), NOW)) == []
