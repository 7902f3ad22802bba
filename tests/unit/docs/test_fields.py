"""The reference of kinds tells of every field what it means."""

import functools
import re

from tools.docs import fields


@functools.cache
def rows():
    text = "".join(fields.sections())
    return re.findall(r"^\| `(\S+)` \| (.+?) \| (.*?) \| (.*?) \|$", text, re.MULTILINE)


def test_every_field_has_a_meaning():
    assert len(rows()) > 200
    assert [path for path, _, _, meaning in rows() if not meaning.strip()] == []


def test_types_defaults_limits_and_choices_are_told():
    assert (
        "spec.concurrencyPolicy",
        "string",
        '`"Allow"`',
        (
            "What if the last job still runs. Allow: both run; Forbid: the new one is left out; Replace: the old one is deleted. "
            "One of `Allow`, `Forbid`, `Replace`."
        ),
    ) in rows()
    assert ("spec.capability", "map to quantity") in [row[:2] for row in rows()]


def test_what_kubernetes_or_another_section_describes_stays_closed():
    known = {path: kind for path, kind, _, _ in rows()}
    assert known["spec.tasks[].template.spec"] == "PodSpec of Kubernetes"
    assert known["spec.jobTemplate.spec"] == "[spec of a Job](#job)"
    assert not any(path.startswith("spec.tasks[].template.spec.") for path in known)
