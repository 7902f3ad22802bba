"""What README, tutorial and guides show is what happens, command by command."""

import contextlib
import time
from pathlib import Path

import pytest
from tests.bodies.gate import require_namespaces
from tools.docs import shown
from tools.docs.record import FOLDER

ROOT = FOLDER.parents[1]
LIMIT_S = 900  # a loaded machine takes long for forty commands; each of them has its own deadline
REMEDY = "python -m tools.docs.shown --write"


def follow(name, folder):
    try:
        return shown.check(ROOT / name, folder)
    except shown.Untrue as error:
        pytest.fail(f"{error}\n\nmend the program, or put what it prints into the page: {REMEDY} {name}", pytrace=False)


@pytest.mark.timeout(LIMIT_S)
def test_the_readme_tells_what_happens(tmp_path):
    assert follow("README.md", tmp_path) >= 5


@pytest.mark.timeout(LIMIT_S)
def test_the_tutorial_tells_what_happens(tmp_path, tmp_path_factory):
    require_namespaces(tmp_path_factory.mktemp("probe"))  # half of it runs real processes
    assert follow("docs/tutorial.md", tmp_path) >= 25


@pytest.mark.timeout(LIMIT_S)
def test_the_guide_to_queues_tells_what_happens(tmp_path):
    assert follow("docs/guides/queues-for-teams.md", tmp_path) >= 10


@pytest.mark.timeout(LIMIT_S)
def test_the_guide_for_slurms_users_tells_what_happens(tmp_path):
    assert follow("docs/guides/coming-from-slurm.md", tmp_path) >= 8


def test_the_readme_shows_the_job_of_the_tutorial():
    files = [
        {part.name: part.text for part in shown.parts((ROOT / name).read_text()) if isinstance(part, shown.File)}
        for name in ("README.md", "docs/tutorial.md")
    ]
    assert files[0]["train.yaml"] == files[1]["train.yaml"]


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md", "docs/guides/queues-for-teams.md"])
def test_whatever_is_not_run_says_why(name):
    skipped = [part for part in shown.parts((ROOT / name).read_text()) if isinstance(part, shown.NotRun)]
    assert len(skipped) <= 3
    assert all(part.commands for part in skipped)


# ------------------------------------------------------------------------------------------------ the reader itself

PAGE = """\
```yaml title="a.yaml"
one: 1
```
<!-- not run: far away -->
```console
$ launch rocket
```
```console title="other terminal"
$ serve
ready after 0.3 s
```
```console
$ first --long \\
  --option    # says nothing
$ second
name   1m2s
...
```
"""


def test_a_page_is_read_into_files_and_steps_of_terminals():
    file, skipped, serve, first, second = shown.parts(PAGE)
    assert file == shown.File("a.yaml", "one: 1\n")
    assert skipped == shown.NotRun("far away", ("launch rocket",))
    assert (serve.terminal, serve.command, serve.shown) == ("other terminal", "serve", ("ready after 0.3 s",))
    assert (first.terminal, first.command, first.shown) == (shown.MAIN, "first --long \\\n  --option", ())
    assert (second.command, second.shown) == ("second", ("name   1m2s", "..."))


@pytest.mark.parametrize(
    "printed", [["name   5s"], ["name      2d3h", "more"], ["name 10m", "a", "b"]], ids=["age", "width", "rest"]
)
def test_ages_widths_and_what_an_ellipsis_stands_for_do_not_count(printed):
    assert shown.agrees(["name   1m2s", "..."], printed)


@pytest.mark.parametrize(
    ("page", "printed"),
    [
        (["8 of 8"], ["6 of 8"]),
        ([], ["anything"]),
        (["anything"], []),
        (["a"], ["a", "b"]),
        (["...", "b"], ["b", "c"]),
    ],
)
def test_other_words_numbers_and_lines_count(page, printed):
    assert not shown.agrees(page, printed)


def test_a_wrong_page_is_found_out(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo 6 of 8\n8 of 8\n```\n")
    with pytest.raises(shown.Untrue, match="line 2: \\$ echo 6 of 8"):
        shown.check(page, tmp_path)


def test_a_command_that_fails_where_the_page_shows_no_error_is_found_out(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ false\n```\n")
    with pytest.raises(shown.Untrue, match="failed with 1"):
        shown.check(page, tmp_path)


def test_commands_outside_of_console_blocks_are_not_overlooked(tmp_path):
    with pytest.raises(shown.Untrue, match="console blocks"):
        list(shown.parts("```sh\npumice up\n```\n"))


def test_what_a_document_started_ends_with_it(tmp_path):
    page = tmp_path / "page.md"
    page.write_text('```console title="other terminal"\n$ echo $$ > pid; echo started; sleep 600\nstarted\n```\n')
    assert shown.check(page, tmp_path) == 1
    group = int((tmp_path / "pid").read_text())
    while alive(group):  # whoever was killed needs a moment to die; the test's time limit ends this
        time.sleep(0.01)


def alive(group):
    """Processes of a group that still run; those that have ended may wait for init to notice."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, its_group = entry.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in "ZX":
                found.append(entry)
    return found
