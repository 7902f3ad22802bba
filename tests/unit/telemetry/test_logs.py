import io
import json

import pytest

from pumice.errors import BadInput
from pumice.telemetry import logs


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_log_that_is_no_terminal_gets_one_json_object_a_line():
    stream = io.StringIO()
    log = logs.configure(stream=stream)
    log.info("pod_started", pod="ns/a", pid=7)
    log.warning("pod_failed", pod="ns/a")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first.pop("timestamp").endswith("Z")
    assert first == {"event": "pod_started", "level": "info", "pod": "ns/a", "pid": 7}
    assert second["level"] == "warning"


def test_a_terminal_gets_lines_that_people_read():
    stream = Terminal()
    logs.configure(stream=stream).info("pod_started", pod="ns/a")
    text = stream.getvalue()
    assert "pod_started" in text
    assert not text.startswith("{")


def test_json_can_be_asked_for_on_a_terminal_too():
    stream = Terminal()
    logs.configure(stream=stream, as_json=True).info("up")
    assert json.loads(stream.getvalue())["event"] == "up"


def test_what_is_below_the_level_is_left_out():
    stream = io.StringIO()
    log = logs.configure(stream=stream, level="warning")
    log.info("chatter")
    log.error("trouble")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["trouble"]


def test_a_field_is_cut_at_its_limit():
    stream = io.StringIO()
    logs.configure(stream=stream).info("answer", body="x" * (logs.VALUE_CHARS_MAX + 1))
    assert json.loads(stream.getvalue())["body"] == "x" * logs.VALUE_CHARS_MAX + "..."


def test_an_exception_is_told_in_full():
    stream = io.StringIO()
    log = logs.configure(stream=stream)
    try:
        raise ValueError("seven")  # noqa: TRY301 - this is the exception that is told
    except ValueError:
        log.exception("broken")
    assert "ValueError: seven" in json.loads(stream.getvalue())["exception"]


def test_an_unknown_level_is_refused_with_those_that_exist():
    with pytest.raises(BadInput, match="'loud' is not known; choose one of debug, info, warning, error"):
        logs.configure(level="loud")
