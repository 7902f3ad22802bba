"""The flight recorder's file: what is in it, how large it may be, and what replaying says of one that is damaged."""

import hashlib
import json

import msgspec
import pytest
from tests.unit.scheduling.clusters import NOW, a_gang, a_group, a_node, a_queue, flat

from pumice import instant
from pumice.api import changes
from pumice.cli.main import ExitCode, run
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.errors import BadInput
from pumice.flight import digests, frames
from pumice.flight.recorder import FlightRecorder, slots_of
from pumice.flight.replay import play
from pumice.flight.unrecorded import Planned
from pumice.scheduling.core import builtin, cycle
from pumice.scheduling.core.memory import EMPTY
from pumice.scheduling.core.ports import ExtenderFailed, NodeLoad, Ports
from pumice.scheduling.time.run_times import Remembered, Runs

POLICY = builtin.parse(builtin.TEXT, "built-in policy")
SIMPLE = builtin.parse('{actions: "allocate", tiers: [{plugins: [{name: gang}, {name: predicates}]}]}', "test")
BUDGET = 1_000


class Flight:
    """A scheduler without an API server: what it is told takes effect, and what it decides does not."""

    def __init__(self, path, *, limit_mib=1, policy=POLICY):
        self.lines = []
        self.recorder = FlightRecorder(str(path), limit_mib=limit_mib, extra_plugins={}, log=self._log)
        self.recorder.of(frozenset({"volcano"}), "default", 30)
        self.intake = Intake(Cluster(scheduler_names=frozenset({"volcano"})))
        self.policy, self.memory = policy, EMPTY
        self.number = 0

    def _log(self, event, /, **facts):
        self.lines.append((event, facts))

    def tell(self, *objects):
        for thing in flat(objects):
            change = changes.Upserted(object=thing)
            self.intake.apply(change)
            self.recorder.saw(change)

    def cycle(self, ports=None, *, ends=True):
        ports = ports or Ports()
        ports = msgspec.structs.replace(ports, extender=self.recorder.listening(ports.extender))
        now = NOW + self.number * instant.SECOND
        snapshot = self.intake.cluster.snapshot()
        self.recorder.begins(self.intake, Planned(self.number, now, self.policy, self.memory, ports, BUDGET))
        self.number += 1
        if not ends:
            return None
        decisions = cycle.plan(snapshot, self.policy, self.memory, now=now, ports=ports, budget=BUDGET)
        self.memory = decisions.memory
        self.recorder.ends(decisions, seconds=0.25)
        return decisions


def played(path, extra=None):
    return list(play(frames.unpack(path.read_bytes(), path.name), extra or {}))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "flight"


@pytest.fixture
def flight(path):
    here = Flight(path)
    here.tell(a_queue("default"), a_node("n1", gpu=4), a_gang("first", 4, gpu=1))
    here.cycle()
    here.tell(a_gang("second", 2, gpu=1))
    here.cycle()
    here.recorder.close()
    return here


def test_a_recording_has_every_cycle_and_what_it_decided(flight, path):
    first, second = played(path)
    assert not first.differs
    assert not second.differs
    assert {bind.node for commit in first.decisions.commits for bind in commit.binds} == {"n1"}
    assert list(second.snapshot.gangs) == ["default/first", "default/second"]
    assert second.recorded.seconds == 0.25


def test_a_file_is_for_its_owner_alone(flight, path):
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_cycle_during_which_the_process_ended_can_be_planned_all_the_same(path):
    flight = Flight(path)
    flight.tell(a_queue("default"), a_node("n1", gpu=4), a_gang("first", 4, gpu=1))
    flight.cycle(ends=False)
    flight.recorder.close()
    (only,) = played(path)
    assert only.recorded is None
    assert only.decisions.commits


def test_what_ports_say_is_recorded_when_it_changes(path):
    flight = Flight(path)
    flight.tell(a_queue("default"), a_node("n1", gpu=4), a_gang("first", 4, gpu=1))
    loads = {"n1": NodeLoad(10.0, 20.0, NOW)}
    runs = Remembered({"kind": Runs((10, 20, 30, 40, 50))})
    flight.cycle(Ports(loads=loads, run_times=runs))
    flight.cycle(Ports(loads=loads, run_times=runs))
    flight.cycle(Ports())
    flight.recorder.close()
    given = [frame for frame in frames.unpack(path.read_bytes(), "f") if isinstance(frame, frames.Inputs)]
    assert [each.loads for each in given] == [loads, frames.UNSET, {}]
    assert [each.run_times for each in given] == [runs, frames.UNSET, None]
    assert [each.ports.loads for each in played(path)] == [loads, loads, {}]


EXTENDED = builtin.parse(
    'actions: "allocate"\n'
    "tiers: [{plugins: [{name: gang}, {name: predicates}, {name: extender, arguments: "
    "{extender.urlPrefix: 'http://127.0.0.1:1', extender.predicateVerb: predicate, extender.ignorable: true}}]}]",
    "test",
)


def test_an_extender_says_again_what_it_said(path):
    asked = []

    def extender(verb, body):
        asked.append(verb)
        if len(asked) > 1:
            raise ExtenderFailed("gone")
        return {"status": [{"code": 1, "reason": "not there"}]}

    flight = Flight(path, policy=EXTENDED)
    flight.tell(a_queue("default"), a_node("n1", gpu=4), a_gang("first", 1, gpu=1), a_gang("second", 1, gpu=2))
    flight.cycle(Ports(extender=extender))
    flight.recorder.close()
    assert len(asked) > 1
    (only,) = played(path)
    assert not only.differs


# ------------------------------------------------------------------------------------------------- size


def test_the_files_stay_within_their_limit_and_every_one_can_be_read_alone(path):
    flight = Flight(path, policy=SIMPLE)
    flight.tell(a_queue("default"), a_node("n0", gpu=4))
    cycles = 60
    for number in range(cycles):
        flight.tell(a_node(f"n{number % 5}", gpu=4, annotations={"noise": noise(number, 1000)}))
        flight.cycle()
        flight.recorder.settle()
        assert sum(file.stat().st_size for file in path.parent.iterdir()) <= 2**20
    flight.recorder.close()
    assert flight.lines == []
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["flight", "flight.1"]
    newer, older = (played(file) for file in files)
    numbers = [each.number for each in (*older, *newer)]
    assert numbers == list(range(numbers[0], cycles)), "no gap between the files, and the newest cycle is there"
    assert not any(each.differs for each in (*older, *newer))


def test_a_state_that_does_not_fit_is_told_with_the_limit_that_it_needs(path):
    flight = Flight(path)
    flight.tell(a_queue("default"), a_node("n1", gpu=4, annotations={"noise": noise(1, 20_000)}))
    flight.cycle()
    flight.cycle()
    flight.recorder.close()
    ((event, facts),) = flight.lines
    assert event == "flight_recorder_stopped"
    assert "give it a limit of" in facts["reason"]


def test_a_disk_that_is_slower_than_the_scheduler_costs_cycles_not_their_truth(path, monkeypatch):
    monkeypatch.setattr("pumice.flight.recorder.BACKLOG_MAX", 0)
    flight = Flight(path)
    flight.tell(a_queue("default"), a_node("n1", gpu=4), a_gang("first", 4, gpu=1))
    flight.cycle()
    monkeypatch.setattr("pumice.flight.recorder.BACKLOG_MAX", 32)
    flight.tell(a_gang("second", 1, gpu=1))
    flight.cycle()
    flight.recorder.close()
    (only,) = played(path)
    assert (only.number, only.differs) == (1, ())


def test_more_changes_than_are_kept_make_a_whole_state(path, monkeypatch):
    monkeypatch.setattr("pumice.flight.recorder.CHANGES_MAX", 2)
    flight = Flight(path)
    flight.tell(a_queue("default"), a_node("n1", gpu=4))
    flight.cycle()
    flight.tell(a_gang("first", 4, gpu=1))
    flight.cycle()
    flight.recorder.close()
    kinds = [type(frame).__name__ for frame in frames.unpack(path.read_bytes(), "f")]
    assert kinds == ["Head", "State", "Inputs", "Outcome", "State", "Inputs", "Outcome"]
    assert not any(each.differs for each in played(path))


def test_a_disk_that_fails_ends_the_recording_and_not_the_scheduler(path, monkeypatch):
    flight = Flight(path)
    flight.tell(a_queue("default"), a_node("n1", gpu=4), a_gang("first", 4, gpu=1))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.write", full)
    assert flight.cycle().commits
    assert flight.cycle().commits
    flight.recorder.settle()
    assert [(event, facts["reason"]) for event, facts in flight.lines] == [
        ("flight_recorder_stopped", "OSError: [Errno 28] No space left on device")
    ]
    flight.recorder.close()


def test_a_folder_that_cannot_be_written_is_said_at_once(tmp_path):
    with pytest.raises(BadInput, match="No such file or directory; choose a file in a folder that can be written"):
        FlightRecorder(str(tmp_path / "no" / "flight"), extra_plugins={}, log=lambda *_, **__: None)


def test_a_file_that_is_no_recording_is_neither_moved_nor_written(tmp_path):
    (tmp_path / "policy.yaml").write_text("actions: allocate\n")
    with pytest.raises(BadInput, match="holds something else than a recording; name another file"):
        FlightRecorder(str(tmp_path / "policy.yaml"), extra_plugins={}, log=lambda *_, **__: None)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("policy.yaml", "actions: allocate\n")]


def noise(number, count):
    """Text of 64 bytes times the count, which does not compress well."""
    return "".join(hashlib.sha256(f"{number}/{part}".encode()).hexdigest() for part in range(count))


# ------------------------------------------------------------------------------------------------- pumice replay


def replayed(capsys, *arguments, code=ExitCode.OK):
    assert run(["replay", *map(str, arguments)]) is code
    found = capsys.readouterr()
    return found.out if code is ExitCode.OK else found.err


def test_all_cycles_are_listed_and_are_the_same(flight, path, capsys):
    lines = replayed(capsys, path).splitlines()
    assert lines[0].split() == ["CYCLE", "TIME", "GANGS", "WAITING", "BINDS", "EVICTIONS", "PLANNED", "SAME"]
    assert [line.split()[0] for line in lines[1:]] == ["0", "1"]
    assert [line.split()[4] for line in lines[1:]] == ["4", "4"]  # nothing takes effect here: they are placed again
    assert all(line.endswith("same") for line in lines[1:])
    data = json.loads(replayed(capsys, path, "-o", "json"))["cycles"]
    assert [each["same"] for each in data] == [True, True]


def test_one_cycle_tells_who_is_placed_and_who_waits(flight, path, capsys):
    text = replayed(capsys, path, "--cycle", "1")
    assert "bind      default/first-w-0 -> n1" in text
    assert "group     default/second:" in text
    data = json.loads(replayed(capsys, path, "--cycle", "1", "-o", "json"))
    assert data["binds"]["default/first-w-0"] == "n1"


def test_one_gang_is_explained_as_it_stood_then(flight, path, capsys):
    text = replayed(capsys, path, "--cycle", "1", "--gang", "default/second")
    assert "default/second" in text
    assert "cycle     1 at 2026-01-01T01:00:01Z: same" in text
    assert "nvidia.com/gpu" in text
    assert "Why it waits, as cycle 1 found:" in text
    text = replayed(capsys, path, "--cycle", "1", "--gang", "default/first")
    assert "bind      default/first-w-0 -> n1\n" in text
    assert "Why it waits: nothing was in its way in cycle 1.\n" in text
    assert "Is one running" not in text
    error = replayed(capsys, path, "--cycle", "1", "--gang", "default/third", code=ExitCode.NOT_FOUND)
    assert "gang default/third: not in cycle 1, which knows default/first, default/second" in error


def test_a_gang_is_called_by_its_job_and_waits_before_it_has_pods(path, capsys):
    here = Flight(path)
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    made = a_group(
        "train-u", 2, phase="Pending", metadata={"ownerReferences": [owner]}, minimum={"nvidia.com/gpu": "2"}
    )
    here.tell(a_queue("default"), a_node("n1", gpu=4), made)
    here.cycle()
    here.recorder.close()
    assert "PodGroup:   default/train-u" in replayed(capsys, path, "--cycle", "0", "--gang", "default/train")
    (row,) = json.loads(replayed(capsys, path, "-o", "json"))["cycles"]
    assert (row["gangs"], row["waiting"]) == (1, 1)


def test_a_cycle_that_is_not_there_is_told_with_those_that_are(flight, path, capsys):
    error = replayed(capsys, path, "--cycle", "7", code=ExitCode.NOT_FOUND)
    assert error == "pumice: cycle 7: not in this recording: it has 0 to 1\n"


def test_an_older_cycle_may_be_in_the_file_of_before(path, capsys):
    """Where there is one: later cycles are in no older file."""
    here = Flight(path)
    here.number = 5
    here.tell(a_queue("default"), a_node("n1", gpu=4))
    here.cycle()
    here.recorder.close()
    error = replayed(capsys, path, "--cycle", "3", code=ExitCode.NOT_FOUND)
    assert error.endswith("it has 5 to 5\n")
    path.with_name("flight.1").write_bytes(b"")
    error = replayed(capsys, path, "--cycle", "3", code=ExitCode.NOT_FOUND)
    assert error.endswith(f"it has 5 to 5; older ones may be in {path}.1\n")
    error = replayed(capsys, path, "--cycle", "9", code=ExitCode.NOT_FOUND)
    assert error.endswith("it has 5 to 5\n")


def test_other_decisions_than_were_recorded_fail_loudly_and_say_in_what(flight, path, capsys, monkeypatch):
    plan = cycle.plan

    def otherwise(*arguments, **named):
        return msgspec.structs.replace(plan(*arguments, **named), commits=())

    monkeypatch.setattr(cycle, "plan", otherwise)
    error = replayed(capsys, path, code=ExitCode.FAILED)
    assert "cycle 0: planning it again does not give the bytes that were recorded; different are commits" in error
    assert "default/first-w-0: n1 then, not bound now" in error
    monkeypatch.setattr("pumice.cli.replay.__version__", "99.0")
    error = replayed(capsys, path, code=ExitCode.FAILED)
    assert "recorded it and this is 99.0: replay it with that version" in error


def test_a_file_that_was_cut_off_is_replayed_as_far_as_it_is_whole(flight, path, capsys):
    path.write_bytes(path.read_bytes()[:-10])
    assert run(["replay", str(path)]) is ExitCode.OK
    found = capsys.readouterr()
    assert "the file ends in the middle of it" in found.err
    assert [line.split()[0] for line in found.out.splitlines()[1:]] == ["0"]


def test_a_file_that_was_damaged_after_some_cycles_shows_them_and_fails(flight, path, capsys):
    data = path.read_bytes()
    path.write_bytes(data[:-10] + bytes([data[-10] ^ 1]) + data[-9:])
    for more in ((), ("--cycle", "7")):
        assert run(["replay", str(path), *more]) is ExitCode.USAGE
        found = capsys.readouterr()
        assert "its checksum is wrong: the file was damaged; get another copy of it" in found.err
        assert [line.split()[0] for line in found.out.splitlines()[1:]] == ([] if more else ["0"])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (b"junk that is no frame", "its length is wrong: the file was damaged; get another copy of it"),
        (frames.first_line(), "another recording begins here; replay each file for itself"),
    ],
)
def test_what_follows_the_last_frame_is_no_end_in_the_middle_of_one(flight, path, capsys, more, said):
    """That ended with 0, and cycles behind a damaged length were lost with a word that says nothing of them."""
    path.write_bytes(path.read_bytes() + more)
    assert run(["replay", str(path)]) is ExitCode.USAGE
    found = capsys.readouterr()
    assert said in found.err
    assert [line.split()[0] for line in found.out.splitlines()[1:]] == ["0", "1"]


def test_a_recorder_without_a_name_is_refused(capsys):
    for command in ("up", "scheduler"):
        assert run([command, "--flight-recorder", ""]) is ExitCode.USAGE
        assert "it is empty, and nothing would be recorded" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[:20], "frame 1: the file ends in the middle of it"),
        (lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:], "frame 1: its checksum is wrong"),
        (lambda data: data.replace(b"FLIGHT 1", b"FLIGHT 9", 1), "it has format 9, and this program reads 1"),
        (lambda _: b"hello\n", "no flight recording; give the file that"),
        (lambda _: b"", "flight: empty: no cycle was planned, as in a replica that never led"),
        (lambda data: data[:16] + b"\x7f" + data[17:], "frame 1: its length is wrong: the file was damaged"),
    ],
)
def test_a_damaged_file_is_refused_with_the_place(flight, path, capsys, damage, said):
    path.write_bytes(damage(path.read_bytes()))
    assert said in replayed(capsys, path, code=ExitCode.USAGE)


def a_state(*rows):
    return {"type": "State", "revision": 0, "shifts": 0, "resources": [], "gone": [], "rows": rows}


HEAD = frames.Head(version="1", scheduler_names=("volcano",), default_queue="default", grace_s=1)
INPUTS = frames.Inputs(number=1, at=0, budget=1, rows=(), resting={}, forecasts={})


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ([a_state()], "a state stands before the head of the recording; "),
        ([INPUTS], "a cycle stands before the head of the recording; "),
        ([HEAD, INPUTS], "cycle 1 has no policy"),
        ([HEAD, a_state(("Assumed", "", {}))], "a row Assumed: not what this program writes: Object missing"),
        ([HEAD, a_state(("=", "Pod", {}))], "a row = Pod: not what this program writes: Expected `array`"),
        ([HEAD, a_state(("+", "Pod", []))], "Pod: Expected `object`, got `array`"),
        ([HEAD, a_state(("+", "Riddle", {}))], "it tells of a Riddle, which this program does not know; "),
    ],
)
def test_a_file_that_somebody_made_up_is_refused_in_words(path, capsys, written, said):
    path.write_bytes(frames.first_line() + b"".join(map(frames.pack, written)))
    assert said in replayed(capsys, path, code=ExitCode.USAGE)


def test_a_plugin_that_is_not_installed_is_named(path, capsys):
    flight = Flight(path)
    option = msgspec.structs.replace(POLICY.options[0], name="licences")
    flight.policy = msgspec.structs.replace(POLICY, options=(option,))
    flight.cycle(ends=False)
    flight.recorder.close()
    assert "the plugin licences, which is not installed here" in replayed(capsys, path, code=ExitCode.USAGE)


def test_every_part_of_the_decisions_has_a_digest():
    decisions = cycle.plan(Cluster().snapshot(), POLICY, now=NOW)
    assert digests.parts(decisions, slots_of({})).keys() == set(decisions.__struct_fields__)
