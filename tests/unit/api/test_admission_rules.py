"""Every case of the table, held against the pure rules."""

import copy

import pytest
from tests.cases import admission
from tests.manifests import cases as manifests

from pumice.api import validation
from pumice.api.validation import Operation, Request, Settings


@pytest.mark.parametrize("case", admission.CASES, ids=lambda case: f"{case.kind} {case.operation} {case.id}")
def test_a_change_is_accepted_or_refused_for_its_one_wrong_field(case):
    before = copy.deepcopy((case.new, case.old))
    findings = case.review()
    assert [error.path for error in findings.errors] == ([case.refused] if case.refused else []), findings.errors
    assert case.says in validation.message(findings.errors)
    assert (case.new, case.old) == before, "rules change nothing"


@pytest.mark.parametrize("case", admission.CASES, ids=lambda case: f"{case.kind} {case.operation} {case.id}")
def test_a_change_that_will_hurt_brings_the_one_warning_and_others_bring_none(case):
    warnings = case.review().warnings
    assert len(warnings) == bool(case.warns), warnings
    assert all(case.warns in text and len(text) <= 256 for text in warnings)


@pytest.mark.parametrize("case", [case for case in admission.CASES if case.refused], ids=lambda case: case.id)
def test_a_refusal_has_a_cause_and_a_next_step(case):
    for error in case.review().errors:
        assert error.cause
        assert error.next_step
        assert error.cause != error.next_step
        assert str(error).startswith(f"{error.path}: ")


def test_ids_are_unique():
    ids = [(case.kind, case.operation, case.id) for case in admission.CASES]
    assert len(ids) == len(set(ids))


# ---------------------------------------------------------------------------------------------------- odd situations


@pytest.mark.parametrize("case", admission.CASES, ids=lambda case: f"{case.kind} {case.operation} {case.id}")
def test_without_a_lookup_only_the_object_itself_is_checked(case):
    request = Request(
        Operation(case.operation), new=case.new, old=case.old, lookup=None, settings=Settings(**case.settings)
    )
    errors = validation.review(case.kind, request).errors
    assert {error.path for error in errors} <= {case.refused}


@pytest.mark.parametrize("case", manifests.valid(), ids=lambda case: case.id)
def test_the_manifests_that_schemas_accept_are_read_without_exceptions(case):
    kind = case.object["kind"]
    findings = validation.review(kind, Request(Operation.CREATE, new=case.object))
    assert [str(error) for error in findings.errors if "xpected" in error.cause] == []


@pytest.mark.parametrize("case", manifests.invalid(), ids=lambda case: case.id)
def test_the_manifests_that_schemas_refuse_raise_no_exception_here(case):
    validation.review(case.object["kind"], Request(Operation.CREATE, new=case.object, lookup=admission.World(())))


@pytest.mark.parametrize("kind", validation.REVIEWS)
@pytest.mark.parametrize(
    "spec", ["text", [], 5, None, {"tasks": 5}, {"tasks": [None]}, {"members": [{}]}, {"flows": "x"}]
)
def test_what_has_the_wrong_type_is_an_error_and_no_exception(kind, spec):
    for operation in (Operation.CREATE, Operation.UPDATE, Operation.DELETE):
        subject = {"metadata": {"name": "x"}, "spec": spec}
        old = None if operation == Operation.CREATE else subject
        validation.review(kind, Request(operation, new=subject, old=old, lookup=admission.World(())))


def test_a_field_of_the_wrong_type_is_named():
    job = admission.job({"spec.tasks[0].replicas": "3"})
    (error,) = validation.review("Job", Request(Operation.CREATE, new=job)).errors
    assert error.path == "spec.tasks[0].replicas"
    assert "int" in error.cause


def test_a_kind_without_rules_has_nothing_wrong_with_it():
    assert validation.review("Command", Request(Operation.CREATE, new={})).errors == []


# ------------------------------------------------------------------------------------------------------------- texts


def test_an_error_shows_field_value_cause_and_next_step():
    job = admission.job({"spec.policies": [{"event": "PodFailed", "action": "RestartTaskOnly"}]})
    (error,) = validation.review("Job", Request(Operation.CREATE, new=job)).errors
    assert str(error) == 'spec.policies[0].action: "RestartTaskOnly": invalid policy action; did you mean RestartTask?'


def test_a_long_value_is_cut():
    error = validation.FieldError(path="a", cause="b", next_step="c", value="x" * 1000)
    assert len(str(error)) < 120


def test_many_errors_are_counted_rather_than_shown():
    tasks = [admission.task(f"t{number}", template={"spec": {}}) for number in range(30)]
    job = admission.job({"spec.tasks": tasks})
    errors = validation.review("Job", Request(Operation.CREATE, new=job)).errors
    assert len(errors) == 30
    assert validation.message(errors).endswith("\nand 10 more")
    assert validation.message(errors).count("\n") == 20


def test_many_warnings_are_counted_rather_than_shown():
    template = admission.job({f"{admission.POD}.nodeName": "n1"})["spec"]["tasks"][0]["template"]
    tasks = [admission.task(f"t{number}", template=template) for number in range(30)]
    warnings = validation.review("Job", Request(Operation.CREATE, new=admission.job({"spec.tasks": tasks}))).warnings
    assert len(warnings) == 12
    assert warnings[-1] == "and 19 more warnings"
