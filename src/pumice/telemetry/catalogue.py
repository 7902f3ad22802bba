"""Every metric that Pumice exports, in one table: Volcano's names, so that dashboards keep working, and our own.

The reference in the documentation is printed from this table. Labels are bounded: queues, actions, plugins; gangs only where
Volcano has them; never pods.
"""

from __future__ import annotations

import enum

from pumice.values import Value


class MetricKind(enum.Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(Value):
    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def exponential(least: float, most: float, count: int) -> tuple[float, ...]:
    """`count` bounds from least to most, each the same factor above the one before."""
    factor = (most / least) ** (1 / (count - 1))
    return tuple(round(least * factor**index, 6) for index in range(count))


_SECONDS = exponential(0.001, 60, 16)
_JOB = ("job_name", "queue", "job_namespace")

VOLCANO: tuple[Metric, ...] = (
    Metric(
        "volcano_e2e_scheduling_latency_milliseconds",
        MetricKind.HISTOGRAM,
        "A whole cycle.",
        (),
        exponential(1, 5000, 20),
    ),
    Metric(
        "volcano_open_session_duration_milliseconds",
        MetricKind.HISTOGRAM,
        "Snapshot and plugins.",
        (),
        exponential(1, 5000, 20),
    ),
    Metric(
        "volcano_e2e_job_scheduling_latency_milliseconds",
        MetricKind.HISTOGRAM,
        "From a gang's creation to its placement.",
        (),
        exponential(100, 120_000, 30),
    ),
    Metric(
        "volcano_e2e_job_scheduling_duration",
        MetricKind.GAUGE,
        "The same for the last placement of each gang, in ms.",
        _JOB,
    ),
    Metric(
        "volcano_e2e_job_scheduling_start_time",
        MetricKind.GAUGE,
        "When each gang was created, in seconds since 1970.",
        _JOB,
    ),
    Metric(
        "volcano_e2e_job_scheduling_last_time",
        MetricKind.GAUGE,
        "When each gang was last placed, in seconds since 1970.",
        _JOB,
    ),
    Metric(
        "volcano_plugin_scheduling_latency_milliseconds",
        MetricKind.HISTOGRAM,
        "Opening and closing of each plugin.",
        ("plugin", "OnSession"),
        exponential(0.1, 100, 15),
    ),
    Metric(
        "volcano_action_scheduling_latency_milliseconds",
        MetricKind.HISTOGRAM,
        "Each action.",
        ("action",),
        exponential(1, 2000, 20),
    ),
    Metric("volcano_schedule_attempts_total", MetricKind.COUNTER, "Commits of gangs by result.", ("result",)),
    Metric("volcano_pod_preemption_victims", MetricKind.GAUGE, "Victims of the last cycle that evicted."),
    Metric("volcano_total_preemption_attempts", MetricKind.COUNTER, "Cycles in which somebody was evicted."),
    Metric(
        "volcano_eviction_transactions_total", MetricKind.COUNTER, "Eviction plans that were carried out.", ("action",)
    ),
    Metric("volcano_unschedule_task_count", MetricKind.GAUGE, "Members that each waiting gang lacks.", ("job_id",)),
    Metric("volcano_unschedule_job_count", MetricKind.GAUGE, "Gangs that wait."),
    Metric("volcano_job_share", MetricKind.GAUGE, "Dominant share of each gang.", ("job_ns", "job_id")),
    Metric("volcano_job_retry_counts", MetricKind.COUNTER, "Cycles in which each gang did not start.", ("job_id",)),
    *(
        Metric(f"volcano_queue_{what}_{unit}", MetricKind.GAUGE, f"{help_}, in {unit.replace('_', ' ')}.", labels)
        for what, help_ in (
            ("allocated", "What each queue holds"),
            ("request", "What each queue holds and waits for"),
            ("deserved", "What each queue deserves"),
            ("inqueue", "What admitted gangs of each queue still wait for"),
            ("capacity", "What each queue may hold by its own limit"),
            ("real_capacity", "What each queue may hold at most"),
        )
        for unit, labels in (
            ("milli_cpu", ("queue_name",)),
            ("memory_bytes", ("queue_name",)),
            ("scalar_resources", ("queue_name", "resource")),
        )
    ),
    Metric("volcano_queue_share", MetricKind.GAUGE, "Share of each queue in what it deserves.", ("queue_name",)),
    Metric("volcano_queue_weight", MetricKind.GAUGE, "Weight of each queue.", ("queue_name",)),
    Metric("volcano_queue_overused", MetricKind.GAUGE, "1 where a queue holds all that it deserves.", ("queue_name",)),
    *(
        Metric(
            f"volcano_queue_pod_group_{phase}_count",
            MetricKind.GAUGE,
            f"Gangs of each queue: {phase}.",
            ("queue_name",),
        )
        for phase in ("pending", "inqueue", "running", "unknown", "completed")
    ),
    # Gauges to Prometheus' client, which would add _total to the name of a counter.
    Metric(
        "volcano_job_completed_phase_count",
        MetricKind.GAUGE,
        "How often each Job completed.",
        ("job_name", "queue_name"),
    ),
    Metric(
        "volcano_job_failed_phase_count", MetricKind.GAUGE, "How often each Job failed.", ("job_name", "queue_name")
    ),
    Metric("volcano_jobflow_succeed_phase_count", MetricKind.GAUGE, "JobFlows that succeeded.", ("jobflow_namespace",)),
    Metric("volcano_jobflow_failed_phase_count", MetricKind.GAUGE, "JobFlows that failed.", ("jobflow_namespace",)),
    Metric(
        "volcano_controller_job_to_pod_creation_latency_milliseconds",
        MetricKind.HISTOGRAM,
        "From a Job's creation to that of its first pod.",
        (),
        exponential(10, 600_000, 20),
    ),
)

PUMICE: tuple[Metric, ...] = (
    Metric("pumice_build_info", MetricKind.GAUGE, "1, with the version.", ("version",)),
    Metric(
        "pumice_cycle_seconds", MetricKind.HISTOGRAM, "Planning of a cycle, from snapshot to decisions.", (), _SECONDS
    ),
    Metric("pumice_cycles_total", MetricKind.COUNTER, "Cycles planned."),
    Metric(
        "pumice_gang_admit_seconds",
        MetricKind.HISTOGRAM,
        "How long gangs of each queue wait: from a gang's creation to its commit.",
        ("queue",),
        exponential(0.01, 86_400, 20),
    ),
    Metric(
        "pumice_queue_position",
        MetricKind.HISTOGRAM,
        "The place in its queue at which each gang begins to wait.",
        ("queue",),
        (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000),
    ),
    Metric(
        "pumice_queue_longest_wait_seconds",
        MetricKind.GAUGE,
        "How long the gang has waited that has waited for longest, since its creation.",
        ("queue",),
    ),
    Metric(
        "pumice_queue_used",
        MetricKind.GAUGE,
        "What each queue holds, with the queues below it, in units of the resource.",
        ("queue", "resource"),
    ),
    Metric(
        "pumice_queue_share",
        MetricKind.GAUGE,
        "The part of the cluster that each queue holds, of the resource of which it holds the largest part.",
        ("queue",),
    ),
    Metric("pumice_waiting_gangs", MetricKind.GAUGE, "Gangs that wait, by queue and phase.", ("queue", "phase")),
    Metric(
        "pumice_deadlocked_gangs",
        MetricKind.GAUGE,
        "Gangs that hold room (HoldsWhileWaiting) or quota (QuotaHeld) while they wait for more; broken ones are in"
        " pumice_evictions_total with the action deadlock.",
        ("reason",),
    ),
    Metric("pumice_binds_total", MetricKind.COUNTER, "Pods bound."),
    Metric("pumice_bind_failures_total", MetricKind.COUNTER, "Binds that were refused or never took effect."),
    Metric("pumice_gangs_committed_total", MetricKind.COUNTER, "Gangs whose binds were sent."),
    Metric("pumice_gangs_mended_total", MetricKind.COUNTER, "Gangs that were cut short and completed."),
    Metric("pumice_gangs_released_total", MetricKind.COUNTER, "Gangs that were cut short and given up."),
    Metric(
        "pumice_plans_dropped_total",
        MetricKind.COUNTER,
        "Commits that no longer held when they were to be carried out.",
    ),
    Metric("pumice_evictions_total", MetricKind.COUNTER, "Pods evicted, by action.", ("action",)),
    Metric(
        "pumice_eviction_notices_total",
        MetricKind.COUNTER,
        "Pods that were told that they, or others of their gang, have to leave.",
    ),
    Metric(
        "pumice_eviction_rings_total",
        MetricKind.COUNTER,
        "Evictions for a gang that had itself been evicted for the victim within an hour, or for one that was, and so on.",
    ),
    Metric("pumice_nodes", MetricKind.GAUGE, "Nodes."),
    Metric(
        "pumice_capacity", MetricKind.GAUGE, "What all nodes may hand out, in units of the resource.", ("resource",)
    ),
    Metric("pumice_used", MetricKind.GAUGE, "What pods take of it.", ("resource",)),
    Metric("pumice_idle", MetricKind.GAUGE, "What nobody takes.", ("resource",)),
    Metric("pumice_fragmented", MetricKind.GAUGE, "What is idle on nodes that are partly in use.", ("resource",)),
    Metric(
        "pumice_idle_dollars_per_hour",
        MetricKind.GAUGE,
        "What idle resources cost, at the configured prices.",
        ("resource",),
    ),
    Metric(
        "pumice_unusable",
        MetricKind.GAUGE,
        "Free GPUs that workers with so many each cannot use: sizes that wait, and a whole node.",
        ("resource", "each"),
    ),
    Metric(
        "pumice_unusable_dollars_per_hour",
        MetricKind.GAUGE,
        "What free GPUs cost that workers with so many each cannot use.",
        ("resource", "each"),
    ),
    Metric(
        "pumice_idle_gang_gpus",
        MetricKind.GAUGE,
        "GPUs, partitions and slices that gangs hold and have used less than 5 % of for ten minutes, where that is measured.",
        ("queue", "resource"),
    ),
    Metric(
        "pumice_idle_gang_dollars_per_hour",
        MetricKind.GAUGE,
        "What GPUs cost that gangs hold and do not use.",
        ("queue", "resource"),
    ),
    Metric("pumice_fragmented_dollars_per_hour", MetricKind.GAUGE, "What fragmented resources cost.", ("resource",)),
    Metric("pumice_queue_dollars_per_hour", MetricKind.GAUGE, "What each queue's pods cost.", ("queue", "resource")),
    Metric("pumice_policy_refused", MetricKind.GAUGE, "1 while the policy file as it is cannot be used."),
    Metric("pumice_controller_writes_total", MetricKind.COUNTER, "Writes of the controllers.", ("operation",)),
    Metric("pumice_controller_plans_total", MetricKind.COUNTER, "Plans of each controller.", ("controller",)),
    Metric(
        "pumice_controller_seconds",
        MetricKind.HISTOGRAM,
        "From a controller's look at an object to the last write that followed.",
        ("controller",),
        _SECONDS,
    ),
    Metric(
        "pumice_controller_retries_total",
        MetricKind.COUNTER,
        "Looks that failed and are repeated: because the world had changed (stale), by an error, by a fault in planning (plan), or in reading what an object concerns (wake).",
        ("controller", "reason"),
    ),
    Metric(
        "pumice_controller_waiting", MetricKind.GAUGE, "Objects that wait for a controller's time.", ("controller",)
    ),
    Metric("pumice_controller_known", MetricKind.GAUGE, "Objects that the controllers know, by kind.", ("kind",)),
    Metric("pumice_jobs", MetricKind.GAUGE, "Jobs of each queue, by phase.", ("queue", "phase")),
    Metric(
        "pumice_job_restarts_total", MetricKind.COUNTER, "Restarts of Jobs, by what caused them.", ("queue", "reason")
    ),
    Metric(
        "pumice_job_lost_seconds_total",
        MetricKind.COUNTER,
        "Run time that restarts threw away, over all pods.",
        ("queue",),
    ),
    Metric(
        "pumice_admission_reviews_total", MetricKind.COUNTER, "Reviews answered by the webhooks.", ("path", "verdict")
    ),
    Metric(
        "pumice_admission_seconds",
        MetricKind.HISTOGRAM,
        "From a review's first byte to its answer.",
        ("path",),
        exponential(0.0005, 5, 14),
    ),
    Metric(
        "pumice_admission_access_reviews_total",
        MetricKind.COUNTER,
        "Questions to the API server about who may use a queue.",
    ),
    Metric(
        "pumice_admission_certificate_expiry",
        MetricKind.GAUGE,
        "When the webhooks' certificate expires, in seconds since 1970.",
    ),
    Metric(
        "pumice_record_lag_seconds",
        MetricKind.GAUGE,
        "Age of the oldest fact that is not in the record yet; 0 for none.",
    ),
    Metric("pumice_record_waiting", MetricKind.GAUGE, "Rows that wait to be written into the record."),
    Metric("pumice_record_rows_total", MetricKind.COUNTER, "Rows written into the record, by table.", ("table",)),
    Metric(
        "pumice_record_dropped_total",
        MetricKind.COUNTER,
        "Rows that the record will never have, because its database was away for too long or refused them.",
    ),
    Metric(
        "pumice_record_lines_dropped_total",
        MetricKind.COUNTER,
        "Pods and containers that have ended and whose last lines could not be fetched or kept.",
    ),
    Metric("pumice_record_failures_total", MetricKind.COUNTER, "Batches that the record's database did not take."),
    Metric(
        "pumice_record_refused",
        MetricKind.GAUGE,
        "1 where the record's database is of another cluster or a newer version: nothing is recorded.",
    ),
    Metric("pumice_policy_refusals_total", MetricKind.COUNTER, "Policy files that were refused."),
    Metric(
        "pumice_plugin_failures_total",
        MetricKind.COUNTER,
        "Errors of plugins; the gang or the plugin was set aside for the cycle.",
        ("plugin",),
    ),
)

CATALOGUE: tuple[Metric, ...] = (*VOLCANO, *PUMICE)
