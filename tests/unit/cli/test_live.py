"""Reports that are shown again and again."""

import pytest

from pumice.cli import live
from pumice.cli.printing import Form, _show_report, report_text
from pumice.cli.results import Live, Report
from pumice.errors import PumiceError


class Ended(BaseException):
    """As when the user presses Ctrl-C."""


def reporting(*answers):
    """A Live that gives these answers in turn, errors included, and is then ended."""
    left = iter(answers)

    async def report():
        answer = next(left, Ended())
        if isinstance(answer, BaseException):
            raise answer
        return Report(answer, {"said": answer})

    return Live(report, 0.0)


async def follow(answer, form):
    with pytest.raises(Ended):
        await live.follow(answer, form, _show_report, report_text)


async def test_into_a_pipe_each_report_follows_the_last(capsys):
    await follow(reporting("one", "two"), Form(watch=True))
    assert capsys.readouterr().out == "one\n\ntwo\n"


async def test_documents_follow_one_another(capsys):
    await follow(reporting("one", "two"), Form("json", watch=True))
    assert capsys.readouterr().out == '{\n    "said": "one"\n}\n{\n    "said": "two"\n}\n'


async def test_an_answer_that_fails_now_and_then_is_asked_for_again(capsys):
    await follow(reporting("one", PumiceError("away; wait"), "two"), Form(watch=True))
    said = capsys.readouterr()
    assert (said.out, said.err) == ("one\n\ntwo\n", "pumice: away; wait\n")


async def test_a_first_answer_that_fails_is_an_error_and_so_are_too_many_in_a_row():
    with pytest.raises(PumiceError, match="away"):
        await live.follow(reporting(PumiceError("away")), Form(watch=True), _show_report, report_text)
    failures = [PumiceError(f"away {number}") for number in range(live.FAILURES_MAX)]
    with pytest.raises(PumiceError, match=f"away {live.FAILURES_MAX - 1}"):
        await live.follow(reporting("one", *failures), Form(watch=True), _show_report, report_text)


def test_no_more_lines_are_shown_than_the_terminal_has(monkeypatch):
    monkeypatch.setenv("LINES", "6")
    monkeypatch.setenv("COLUMNS", "80")
    assert live.fitting("1\n2\n3\n4") == "1\n2\n3\n4"
    assert live.fitting("1\n2\n3\n4\n5\n6") == "1\n2\n3\n... and 3 more lines"


def test_lines_are_cut_where_the_terminal_ends_and_colours_take_no_room(monkeypatch):
    monkeypatch.setenv("LINES", "9")
    monkeypatch.setenv("COLUMNS", "5")
    assert live.fitting("1234567\n12") == "12345\n12"
    assert live.fitting("12\x1b[31m34567\x1b[0m89") == "12\x1b[31m345\x1b[0m"
