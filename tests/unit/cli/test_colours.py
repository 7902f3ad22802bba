"""Who gets colour, and what is coloured."""

import io

import pytest

from pumice.cli import colours, printing
from pumice.cli.results import Column, Query, Report

GREEN, RED, YELLOW, PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[0m"


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "is_wanted"),
    [
        (Screen(), {}, True),
        (Screen(), {"TERM": "xterm"}, True),
        (Screen(), {"TERM": "dumb"}, False),
        (Screen(), {"NO_COLOR": "1"}, False),
        (Screen(), {"NO_COLOR": ""}, True),  # empty is as good as unset, says no-color.org
        (Screen(), {"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, False),
        (io.StringIO(), {}, False),
        (io.StringIO(), {"CLICOLOR_FORCE": "1"}, True),
        (io.StringIO(), {"CLICOLOR_FORCE": "0"}, False),
    ],
)
def test_the_environment_decides_before_the_terminal(stream, environment, is_wanted):
    assert colours.should_colour(stream, environment) is is_wanted


@pytest.mark.parametrize(
    ("text", "colour"),
    [
        ("Running", GREEN),
        ("Pending", YELLOW),
        ("Failed", RED),
        ("Ready", GREEN),
        ("NotReady", RED),
        ("Ready,Tainted", YELLOW),
        ("NotReady,SchedulingDisabled", RED),
    ],
)
def test_words_have_their_colours(text, colour):
    assert colours.word(text) == f"{colour}{text}{PLAIN}"


def test_a_word_of_somebody_elses_stays_as_it_is():
    assert colours.word("Simmering") == "Simmering"


def test_colour_does_not_move_columns():
    columns = (
        Column("PHASE", lambda obj, _: obj["phase"]),
        Column("NAME", lambda obj, _: obj["name"]),
    )
    query = Query(kind=None, columns=columns)
    rows = [{"phase": "Running", "name": "Failed"}, {"phase": "Aborted", "name": "b"}]
    painted = printing.Table(query, printing.Form(coloured=True)).text(rows, 0)
    assert painted == (
        f"PHASE     NAME\n{GREEN}Running{PLAIN}   Failed\n{RED}Aborted{PLAIN}   b\n"  # only phases are phases
    )
    plain = printing.Table(query, printing.Form()).text(rows, 0)
    for escape in (GREEN, RED, PLAIN):
        painted = painted.replace(escape, "")
    assert painted == plain


def test_a_report_is_painted_by_who_writes_it_and_plain_where_no_colour_is_wanted():
    report = Report(lambda paint: f"Failed: {paint.phase('Pending')}, {paint.reason('Insufficient cpu')}", {})
    plain = "Failed: Pending, Insufficient cpu"
    painted = f"Failed: {YELLOW}Pending{PLAIN}, {YELLOW}Insufficient cpu{PLAIN}"
    assert printing.report_text(report, printing.Form(coloured=True)) == painted
    assert printing.report_text(report, printing.Form()) == plain
    assert printing.report_text(Report("Phase:   Failed", {}), printing.Form(coloured=True)) == "Phase:   Failed"
