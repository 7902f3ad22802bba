"""Every rule that refuses something has an example that it refuses and one that passes through it.

A rule is a place in `api.validation` where something may be refused. The examples are the tables in tests/cases, which
other tests hold against the embedded and the real server.
"""

import ast
import inspect
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from tests.cases import admission, pod_templates

from pumice.api import validation
from pumice.api.validation import Findings, field_errors
from pumice.api.validation.pod_templates import check_template

FOLDER = Path(inspect.getfile(validation)).parent
SHARED = Path(inspect.getfile(field_errors)).name
QUESTIONS = frozenset({"refuse", "refuse_as", "require", "choose", "name", "within", "only_one"})


class Rule(NamedTuple):
    file: str
    function: str
    first: int
    last: int
    text: str

    def stands_at(self, file, line):
        return self.file == file and self.first <= line <= self.last


def rules():
    found = {}
    for file in sorted(FOLDER.glob("*.py")):
        if file.name == SHARED:
            continue
        for function in ast.walk(ast.parse(file.read_text())):
            for call in ast.walk(function) if isinstance(function, ast.FunctionDef) else ():
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in QUESTIONS:
                    where = (file.name, call.lineno, call.col_offset)
                    found[where] = Rule(file.name, function.name, call.lineno, call.end_lineno, ast.unparse(call))
    return list(found.values())


def review_template(case):
    check_template(Findings(), "spec", msgspec.Raw(msgspec.json.encode(case.template())))


REFUSED = [
    *((admission.Case.review, case) for case in admission.CASES if case.refused),
    *((review_template, case) for case in pod_templates.REFUSED + pod_templates.REFUSED_AS_PODS),
]
ACCEPTED = [
    *((admission.Case.review, case) for case in admission.CASES if not case.refused),
    *((review_template, case) for case in pod_templates.ACCEPTED),
]


@pytest.fixture(scope="module")
def refusals():
    """File and line of everything that was refused."""
    found = set()
    refuse = Findings.refuse

    def noted(self, *args, **named):
        frame = sys._getframe(1)
        while frame is not None and Path(frame.f_code.co_filename).name == SHARED:
            frame = frame.f_back
        found.add((Path(frame.f_code.co_filename).name, frame.f_lineno))
        refuse(self, *args, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Findings, "refuse", noted)
        for ask, case in REFUSED:
            ask(case)
    return found


@pytest.fixture(scope="module")
def passages():
    """File and name of every function that looked at something and accepted it."""
    found = set()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(FOLDER)):
            found.add((Path(frame.f_code.co_filename).name, frame.f_code.co_name))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for ask, case in ACCEPTED:
            ask(case)
    finally:
        sys.setprofile(before)
    return found


def test_every_rule_refuses_an_example(refusals):
    assert [rule for rule in rules() if not any(rule.stands_at(*place) for place in refusals)] == []


def test_through_every_rule_an_example_passes(passages):
    assert [rule for rule in rules() if (rule.file, rule.function) not in passages] == []
