"""Schemas of Job, CronJob, JobTemplate and JobFlow: all four embed a job's spec."""

from tools.crds.claims import claim_spec
from tools.crds.pod_template import metadata, pod_template
from tools.crds.schema import (
    DNS_LABEL,
    LABEL_CHARS_MAX,
    Schema,
    array,
    count,
    duration,
    flag,
    instant,
    integer,
    long,
    mapping,
    port,
    record,
    short,
    subdomain,
    text,
    texts,
    words,
)

from pumice.api.batch import (
    DEFAULT_MAX_RETRY,
    DEFAULT_QUEUE,
    ConcurrencyPolicy,
    JobEvent,
    JobPhase,
    NumaPolicy,
    TopologyMode,
)
from pumice.api.flow import JobFlowPhase, JobRetainPolicy
from pumice.api.validation.limits import JOB_REPLICAS_MAX
from pumice.api.validation.policies import ACTIONS


def network_topology(description: str) -> Schema:
    return record(
        description,
        {
            "mode": text(
                "hard: the pods start only inside one HyperNode within the limit; soft: they are placed as close as can be.",
                enum=TopologyMode,
                default=TopologyMode.HARD,
            ),
            "highestTierAllowed": count("Highest tier of a HyperNode that the pods may span."),
            "highestTierName": short("The same limit as the name of a tier; excludes highestTierAllowed."),
        },
    )


def _policies(description: str) -> Schema:
    policy = record(
        "When something happens, do something.",
        {
            "action": text(f"What to do: {', '.join(ACTIONS[:-1])} or {ACTIONS[-1]}."),
            "event": text("What happens.", enum=JobEvent),
            "events": array("More of what happens; any of them counts.", text(enum=JobEvent)),
            "exitCode": integer("Exit code of a pod's first container; not 0, and not together with events."),
            "timeout": duration("How long it must have lasted, such as 10m; absent acts at once."),
        },
    )
    return array(description, policy)


def _job_volume() -> Schema:
    return record(
        "A claim and where it is mounted.",
        {
            "mountPath": text("Path in every container.", pattern="^[^:]+$", length=(1, None)),
            "volumeClaimName": short("An existing claim; filled in when a claim is made from volumeClaim."),
            "volumeClaim": claim_spec("A claim to make for the job; excludes volumeClaimName."),
        },
        required=("mountPath",),
    )


def _task() -> Schema:
    return record(
        "Pods of one role.",
        {
            "name": text(
                "Name of the role, part of the pods' names.", pattern=DNS_LABEL, length=(None, LABEL_CHARS_MAX)
            ),
            "replicas": count("Number of pods.", most=JOB_REPLICAS_MAX),
            "minAvailable": count("Pods of this task that must be able to start together; absent is all.")
            | {"nullable": True},
            "template": pod_template("What the pods are made from."),
            "policies": _policies(
                "What to do when something happens to this task; comes before the job's own policies."
            ),
            "topologyPolicy": text("How a pod's CPUs may be spread over NUMA nodes.", enum=NumaPolicy),
            "maxRetry": count("Restarts of containers after which the task has failed."),
            "dependsOn": record(
                "Tasks that come first.",
                {
                    "name": texts("Their names."),
                    "iteration": text("any: one of them suffices; else all must be ready."),
                },
            ),
            "partitionPolicy": record(
                "Splits the task into equal parts, each of which is placed together.",
                {
                    "totalPartitions": count("Number of parts.", least=1),
                    "partitionSize": count("Pods in each part; parts times size are the replicas.", least=1),
                    "minPartitions": count("Parts that must be able to start together.", default=0),
                    "networkTopology": network_topology("How far apart the pods of one part may be."),
                },
                required=("totalPartitions", "partitionSize"),
            ),
        },
    )


def job_spec(description: str) -> Schema:
    return record(
        description,
        {
            "schedulerName": short("Scheduler of pods whose template names none.", LABEL_CHARS_MAX),
            "minAvailable": count("Pods that must be able to start together: the size of the gang."),
            "volumes": array("Claims that every container of every pod sees.", _job_volume()),
            "tasks": array("The roles.", _task(), least=1),
            "policies": _policies("What to do when something happens to the job."),
            "plugins": mapping("Plugins by name with their arguments, such as svc, ssh, env, pytorch or mpi.", texts()),
            "runningEstimate": duration("How long the job is expected to run, such as 2h."),
            "queue": subdomain("Queue that the job draws from.", default=DEFAULT_QUEUE),
            "maxRetry": count("Restarts after which the job has failed.", default=DEFAULT_MAX_RETRY),
            "ttlSecondsAfterFinished": count("Seconds after its end after which the job is deleted; absent keeps it."),
            "priorityClassName": subdomain("Priority class of the gang, and of pods whose template names none."),
            "minSuccess": count("Pods that must succeed for the job to be completed.", least=1),
            "networkTopology": network_topology("How far apart the pods of the job may be."),
        },
    )


def _task_states() -> Schema:
    return mapping(
        "By task.",
        record("One task.", {"phase": mapping("Number of pods by phase.", integer())}),
    )


def _job_status() -> Schema:
    condition = record(
        "A phase that the job has entered.",
        {"status": text("The phase."), "lastTransitionTime": instant("When it last did.")},
        required=("status",),
    )
    counters = {name: count(f"Pods that are {name}.") for name in ("pending", "running", "succeeded", "failed")}
    return record(
        "How the job is doing; written by its controller.",
        {
            "state": record(
                "The current phase.",
                {
                    "phase": text("Its name.", enum=JobPhase),
                    "reason": text("Its cause in one word."),
                    "message": text("Its cause in a sentence."),
                    "lastTransitionTime": instant("When the status last changed."),
                },
            ),
            "minAvailable": count("Pods that must be able to start together."),
            "taskStatusCount": _task_states(),
            **counters,
            "terminating": count("Pods that are being deleted."),
            "unknown": count("Pods whose phase is unknown."),
            "version": count(
                "Number of times that all pods have been killed; pods carry the one they were made under."
            ),
            "retryCount": count("Restarts so far."),
            "runningDuration": duration("How long the job had run when it was last killed."),
            "controlledResources": words("What the job has made besides its pods."),
            "conditions": array("Phases so far, the latest last.", condition),
        },
    )


def job() -> dict[str, Schema]:
    return {"spec": job_spec("What to run."), "status": _job_status()}


def cron_job() -> dict[str, Schema]:
    reference = record(
        "A job.",
        {
            "apiVersion": text("Its API version."),
            "kind": text("Its kind."),
            "namespace": text("Its namespace."),
            "name": text("Its name."),
            "uid": text("Its uid."),
            "resourceVersion": text("Its version."),
            "fieldPath": text("A part of it."),
        },
        atomic=True,
    )
    spec = record(
        "What to run, and when.",
        {
            "schedule": text("When: five fields as in crontab, or such as @hourly or @every 30m."),
            "timeZone": text("Time zone of the schedule, such as Europe/Berlin; absent is the controller's."),
            "startingDeadlineSeconds": long("A start that was missed by more than this is left out.", minimum=0),
            "concurrencyPolicy": text(
                "What if the last job still runs. Allow: both run; Forbid: the new one is left out; Replace: the old one is deleted.",
                enum=ConcurrencyPolicy,
                default=ConcurrencyPolicy.ALLOW,
            ),
            "suspend": flag("Whether no more jobs are made.", default=False),
            "jobTemplate": record(
                "What the jobs are made from.",
                {"metadata": metadata("Labels and annotations of the jobs."), "spec": job_spec("Spec of the jobs.")},
            ),
            "successfulJobsHistoryLimit": count("Completed jobs to keep.", default=3),
            "failedJobsHistoryLimit": count("Failed jobs to keep.", default=1),
        },
        required=("schedule", "jobTemplate"),
    )
    status = record(
        "What has been run; written by its controller.",
        {
            "active": array("Jobs that run.", reference, atomic=True),
            "lastScheduleTime": instant("When a job was last due."),
            "lastSuccessfulTime": instant("When a job was last completed."),
        },
    )
    return {"spec": spec, "status": status}


def job_template() -> dict[str, Schema]:
    status = record(
        "Who uses it; written by its controller.",
        {"jobDependsOnList": texts("Jobs that were made from this template.")},
    )
    return {"spec": job_spec("Spec of the jobs."), "status": status}


def job_flow() -> dict[str, Schema]:
    flow = record(
        "One job of the flow.",
        {
            "name": text("Its name, and its JobTemplate's.", length=(1, None)),
            "dependsOn": record(
                "What comes first.",
                {"targets": texts("Flows that must be completed."), "probe": _flow_probe()},
            ),
            "patch": record(
                "Declared by Volcano and not carried out.", {"jobSpec": job_spec("Changes to the template's spec.")}
            ),
        },
        required=("name",),
    )
    spec = record(
        "Which jobs, and in which order.",
        {
            "flows": array("The jobs.", flow),
            "jobRetainPolicy": text("What becomes of the jobs when the flow has succeeded.", enum=JobRetainPolicy),
        },
    )
    return {"spec": spec, "status": _flow_status()}


def _flow_probe() -> Schema:
    task_name = short("Task to look at.")
    header = record("A header.", {"name": text("Its name."), "value": text("Its value.")}, required=("name", "value"))
    http_get = record(
        "One request.",
        {"taskName": task_name, "path": text("Its path."), "port": port("Its port.", least=0), "httpHeader": header},
    )
    tcp_socket = record(
        "One connection.", {"taskName": task_name, "port": port("Its port.", least=0)}, required=("port",)
    )
    task_status = record("One task.", {"taskName": task_name, "phase": short("Its phase.", LABEL_CHARS_MAX)})
    return record(
        "Declared by Volcano and not carried out.",
        {
            "httpGetList": array("HTTP requests that must succeed.", http_get),
            "tcpSocketList": array("TCP connections that must succeed.", tcp_socket),
            "taskStatusList": array("Tasks that must be in a phase.", task_status),
        },
    )


def _flow_status() -> Schema:
    span = {
        "startTimestamp": instant("When it began."),
        "endTimestamp": instant("When it ended."),
        "state": text("Phase of the job."),
    }
    history = record("One stretch in one phase.", span)
    job_status = record(
        "One job.",
        {
            "name": text("Its name."),
            **span,
            "restartCount": count("Its restarts."),
            "runningHistories": array("Its phases so far.", history),
        },
    )
    condition = record(
        "One job.",
        {
            "phase": text("Its phase."),
            "createTime": instant("When it was made."),
            "runningDuration": duration("How long it has run."),
            "taskStatusCount": _task_states(),
        },
    )
    lists = {
        f"{name}Jobs": texts(f"Jobs that are {name}.")
        for name in ("pending", "running", "failed", "completed", "terminated")
    }
    return record(
        "How the flow is doing; written by its controller.",
        {
            **lists,
            "unKnowJobs": texts("Jobs in any other phase."),
            "jobStatusList": array("Every job's history.", job_status),
            "conditions": mapping("Every job as it is now.", condition),
            "state": record("The current phase.", {"phase": text("Its name.", enum=JobFlowPhase)}),
        },
    )
