"""Every query of Grafana's dashboards asks for metrics that a process exports, with labels that they have."""

import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pumice.telemetry import catalogue
from pumice.telemetry.meters import Meters

FOLDER = Path(__file__).parents[3] / "deploy" / "helm" / "pumice" / "dashboards"
METRIC = re.compile(r"\b(?:pumice|volcano)_\w+")
SELECTED = re.compile(r"\b((?:pumice|volcano)_\w+)\{([^}]*)\}")
GROUPED = re.compile(r"\b(?:by|without) ?\(([^)]*)\)")


def queries(dashboard):
    panels = [*dashboard["panels"], *(inner for panel in dashboard["panels"] for inner in panel.get("panels", ()))]
    yield from (target["expr"] for panel in panels for target in panel.get("targets", ()))
    yield from (each["query"] for each in dashboard["templating"]["list"] if each["type"] == "query")


def exported():
    """What a process prints, by the names that its samples have; those of histograms end in three ways."""
    found = set()
    for family in text_string_to_metric_families(Meters().text().decode()):
        endings = ("_bucket", "_sum", "_count") if family.type == "histogram" else ("",)
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found |= {f"{name}{ending}" for ending in endings}
    return found


@pytest.mark.parametrize("name", ["pumice.json", "volcano.json"])
def test_every_query_finds_its_metrics_and_labels(name):
    dashboard = json.loads((FOLDER / name).read_text())
    labels = {metric.name: set(metric.labels) for metric in catalogue.CATALOGUE}
    known, asked = exported(), list(queries(dashboard))
    assert len(asked) >= 10
    for query in asked:
        names = METRIC.findall(query)
        assert names, query
        plain = [re.sub(r"_(bucket|sum|count)$", "", each) if each not in labels else each for each in names]
        assert {*names} <= known, query
        of_all = set().union(*(labels[each] for each in plain)) | {"le"}
        for grouped in GROUPED.findall(query):
            assert {each.strip() for each in grouped.split(",")} <= of_all, query
        for metric, selected in SELECTED.findall(query):
            base = re.sub(r"_(bucket|sum|count)$", "", metric) if metric not in labels else metric
            assert {each.partition("=")[0].strip("~! ") for each in selected.split(",")} <= labels[base] | {"le"}, query


def test_each_dashboard_has_a_name_of_its_own_and_asks_the_chosen_source():
    found = [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))]
    assert len({each["uid"] for each in found}) == len(found) == 2
    for dashboard in found:
        for panel in dashboard["panels"]:
            assert panel["type"] == "row" or panel["datasource"]["uid"] == "${datasource}"
