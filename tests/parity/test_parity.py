"""Recorded decisions of Volcano, replayed through the engine in this process.

The recordings lie beside the repository, in ../shared/conformance, and are not part of it: without them these tests are skipped.
A case that comes out differently must be listed in `differences.py` with the section of docs/differences.md that says why; an
unlisted difference fails, and so does a listed case that agrees by now.
"""

import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from tests.parity.differences import DIFFERENCES

from pumice.api import names
from pumice.cli.offline import schedule_objects
from pumice.errors import BadInput

ROOT = Path(__file__).parents[2]
RECORDED = ROOT.parent / "shared" / "conformance"
CASES = {path.stem: path for path in sorted(RECORDED.rglob("*.json"))}

needs_recordings = pytest.mark.skipif(not CASES, reason="no recorded decisions in ../shared/conformance")


@needs_recordings
@pytest.mark.parametrize("name", CASES or ["none"])
def test_the_engine_decides_as_recorded_or_differs_for_a_listed_reason(name):
    case = json.loads(CASES[name].read_bytes())
    try:
        answer = schedule_objects(case["objects"], json.dumps(case["policy"]).encode(), source=name)
        differences = found_differences(case, answer)
    except BadInput as error:
        differences = [str(error)]
    if name in DIFFERENCES:
        assert differences, f"{name} agrees by now: strike it from tests/parity/differences.py and docs/differences.md"
    else:
        assert differences == [], f"{name} differs and is not listed in tests/parity/differences.py"


@needs_recordings
def test_every_listed_difference_is_a_recorded_case():
    assert DIFFERENCES.keys() - CASES.keys() == set()


def test_every_listed_reason_is_a_section_of_the_page_on_differences_that_names_the_case():
    sections = sections_of(ROOT / "docs" / "differences.md")
    for case, section in DIFFERENCES.items():
        assert f"`{case}`" in sections.get(section, ""), f"docs/differences.md#{section} does not name {case}"


# ------------------------------------------------------------------------------------------------------- comparing


def sections_of(page):
    """The text below each heading of a page, by the heading's anchor."""
    found, anchor = defaultdict(str), ""
    for line in page.read_text().splitlines():
        if line.startswith("#"):
            anchor = re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        found[anchor] += line + "\n"
    return found


def group_of_each_pod(case):
    found = {}
    for thing in case["objects"]:
        if thing["kind"] == "Pod":
            metadata = thing["metadata"]
            annotations, namespace = metadata.get("annotations") or {}, metadata.get("namespace", "default")
            group = annotations.get(names.GROUP_NAME) or annotations.get(names.VOLCANO_GROUP_NAME) or metadata["name"]
            found[f"{namespace}/{metadata['name']}"] = f"{namespace}/{group}"
    return found


def found_differences(case, answer):
    """What the answer has that the recording has not, or the other way round; equal pods of a group may be swapped."""
    expected, group_of = case["expect"], group_of_each_pod(case)
    if "groups" in expected:
        return different_counts(expected["groups"], answer, group_of)
    found = []
    binds = answer["binds"]
    if len(binds) != expected.get("bindCount", 0):
        found.append(f"{len(binds)} binds, recorded {expected.get('bindCount', 0)}")
    elif expected.get("bindsExact") is not None:
        landed, recorded = (by_group(each, group_of) for each in (binds, expected["bindsExact"]))
        if landed != recorded:
            found.append(f"binds {binds}, recorded {expected['bindsExact']}")
    if sorted(answer["evictions"]) != sorted(expected.get("evicted") or []):
        found.append(f"evictions {answer['evictions']}, recorded {expected.get('evicted')}")
    for group, phase in (expected.get("podGroupPhase") or {}).items():
        if answer["podGroups"].get(group, {}).get("phase") != phase:
            found.append(f"{group} is {answer['podGroups'].get(group)}, recorded {phase}")
    for group, nodes in (expected.get("pipelined") or {}).items():
        taken = {node for pod, node in answer["pipelined"].items() if group_of.get(pod) == group}
        if not taken or not taken <= set(nodes):
            found.append(f"{group} is pipelined to {sorted(taken)}, recorded {nodes}")
    return found


def by_group(binds, group_of):
    landed = defaultdict(Counter)
    for pod, node in binds.items():
        landed[group_of.get(pod, pod)][node] += 1
    return landed


def different_counts(expected, answer, group_of):
    counts = {group: {"started": 0, "pipelined": 0, "evicted": 0} for group in expected}
    outcomes = {"started": answer["binds"], "pipelined": answer["pipelined"], "evicted": answer["evictions"]}
    for outcome, pods in outcomes.items():
        for pod in pods:
            group = group_of.get(pod, pod)
            counts.setdefault(group, {"started": 0, "pipelined": 0, "evicted": 0})[outcome] += 1
    return [
        f"{group}: {found}, recorded {expected.get(group)}"
        for group, found in sorted(counts.items())
        if found != expected.get(group)
    ]
