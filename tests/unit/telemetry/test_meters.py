import re

import pytest

from pumice.telemetry.catalogue import CATALOGUE, MetricKind, exponential
from pumice.telemetry.meters import Meters


def test_names_in_the_catalogue_are_unique_and_follow_prometheus_conventions():
    names = [metric.name for metric in CATALOGUE]
    assert len(names) == len(set(names))
    for metric in CATALOGUE:
        assert re.fullmatch(r"(volcano|pumice)_[a-z0-9_]+", metric.name)
        assert metric.help.endswith(".")
        assert bool(metric.buckets) == (metric.kind is MetricKind.HISTOGRAM)
        assert "pod" not in metric.labels


def test_exponential_bounds_run_from_least_to_most():
    bounds = exponential(1, 5000, 20)
    assert (bounds[0], bounds[-1], len(bounds)) == (1, 5000, 20)
    assert list(bounds) == sorted(bounds)


def test_what_is_counted_set_and_observed_stands_in_the_text():
    meters = Meters()
    meters.count("pumice_evictions_total", 3, action="preempt")
    meters.set("pumice_nodes", 7)
    meters.observe("pumice_cycle_seconds", 0.5)
    text = meters.text().decode()
    assert 'pumice_evictions_total{action="preempt"} 3.0' in text
    assert "pumice_nodes 7.0" in text
    assert "pumice_cycle_seconds_count 1.0" in text
    assert "_created" not in text


def test_replacing_a_gauge_forgets_series_that_are_gone():
    meters = Meters()
    meters.replace("pumice_idle", [(("cpu",), 1.0), (("memory",), 2.0)])
    meters.replace("pumice_idle", [(("cpu",), 3.0)])
    text = meters.text().decode()
    assert 'pumice_idle{resource="cpu"} 3.0' in text
    assert 'resource="memory"' not in text


def test_a_series_that_was_forgotten_begins_anew():
    meters = Meters()
    meters.count("pumice_evictions_total", 3, action="preempt")
    meters.forget("pumice_evictions_total", action="preempt")
    assert 'action="preempt"' not in meters.text().decode()
    meters.count("pumice_evictions_total", 1, action="preempt")
    assert 'pumice_evictions_total{action="preempt"} 1.0' in meters.text().decode()


def test_a_name_that_is_not_in_the_catalogue_is_a_bug():
    with pytest.raises(KeyError):
        Meters().set("pumice_noodles", 1)
