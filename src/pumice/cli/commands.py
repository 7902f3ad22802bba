"""What `pumice` can do, and the text of `pumice --help`: by the standard library alone, because to import click takes longer than all the rest."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ABOUT = "Start whole gangs of pods or none, share a cluster between queues, and say why a gang waits."
WIDTHS = (50, 78)  # of the text, at least and at most; these and all else as click has them
FIRST_COLUMN_MAX = 30

# Name of a command -> (module, attribute, one line of help). The help stands here so that `pumice --help` imports nothing.
COMMANDS: Mapping[str, tuple[str, str, str]] = {
    "bench": ("pumice.cli.bench", "bench", "Measure the engine on this machine."),
    "up": ("pumice.cli.up", "up", "Start a whole cluster on this machine, until Ctrl-C."),
    "down": ("pumice.cli.up", "down", "End a cluster that `pumice up` started."),
    "status": ("pumice.cli.up", "status", "List the clusters that run on this machine."),
    "dashboard": ("pumice.cli.dashboard", "dashboard", "Serve pages that show queues, gangs, nodes and reasons."),
    "demo": ("pumice.cli.demo", "demo", "Show why gangs need a gang scheduler, on a cluster in this process."),
    "migrate": ("pumice.cli.migrate", "migrate", "Change over from Volcano: what will behave differently, and why."),
    "crds": ("pumice.cli.crds", "crds", "Print the CRD manifests, for kubectl apply."),
    "controllers": ("pumice.cli.controllers", "controllers", "Run Jobs and everything around them until stopped."),
    "node": ("pumice.cli.node", "node", "Join a cluster as a node that runs processes, or as many that pretend."),
    "scheduler": ("pumice.cli.scheduler", "scheduler", "Schedule gangs on a cluster until stopped."),
    "job": ("pumice.cli.job", "job", "Run, look at and steer Jobs."),
    "queue": ("pumice.cli.queue", "queue", "Look at queues, make them, open and close them."),
    "pod": ("pumice.cli.pod", "pod", "Look at the pods of Jobs."),
    "jobflow": ("pumice.cli.flow", "jobflow", "Look at JobFlows, make and delete them."),
    "jobtemplate": ("pumice.cli.flow", "jobtemplate", "Look at JobTemplates, make and delete them."),
    "nodes": ("pumice.cli.nodes", "nodes", "Show free, used and fragmented GPUs, and the largest gang that fits."),
    "top": ("pumice.cli.top", "top", "Show who uses the GPUs: queues, users and jobs, and what each queue has left."),
    "squeue": ("pumice.cli.slurm", "squeue", "List Jobs that run or wait, as Slurm does."),
    "sinfo": ("pumice.cli.slurm", "sinfo", "List queues and the state of nodes, as Slurm does."),
    "scancel": ("pumice.cli.slurm", "scancel", "Delete Jobs, by name, user, queue or state."),
    "sbatch": ("pumice.cli.sbatch", "sbatch", "Submit a batch script of Slurm's as a Job."),
    "prio": ("pumice.cli.prio", "prio", "Show who is next in each queue, and each factor of the rank."),
    "sprio": ("pumice.cli.prio", "prio", "The same as prio, as Slurm calls it."),
    "forecast": ("pumice.cli.forecast", "forecast", "Say when a Job that waits will start."),
    "explain": ("pumice.cli.explain", "explain", "Say why a job, a PodGroup or a pod waits, in numbers."),
    "history": (
        "pumice.cli.history",
        "history",
        "List finished gangs: how long they waited and ran, and what they cost.",
    ),
    "sacct": ("pumice.cli.history", "history", "The same as history."),
    "report": ("pumice.cli.report", "report", "Say who used what in a month, and what it cost."),
    "why-evicted": ("pumice.cli.why_evicted", "why_evicted", "Say who took a job's pods, for whom, and what it cost."),
    "consolidate": (
        "pumice.cli.consolidate",
        "consolidate",
        "Show which gangs would be moved so that another one fits.",
    ),
    "deadlocks": ("pumice.cli.deadlocks", "deadlocks", "Show who holds something while it waits for more."),
    "what-if": ("pumice.cli.what_if", "what_if", "Say what would start, wait or be evicted in a different cluster."),
    "version": ("pumice.cli.shell", "version", "Print the versions of this program and of the API server."),
    "completion": ("pumice.cli.shell", "completion", "Print the completion script for bash, zsh or fish."),
    "install-aliases": ("pumice.cli.shell", "install_aliases", "Put vcctl, vsub, vjobs and the like beside pumice."),
    "webhooks": ("pumice.cli.webhooks", "webhooks", "Review what is written to an API server until stopped."),
    "simulate": ("pumice.cli.simulate", "simulate", "Say what a policy would do with a workload, in virtual time."),
    "replay": ("pumice.cli.replay", "replay", "Plan again what a flight recorder has kept, and compare the decisions."),
    "schedule": ("pumice.cli.offline", "schedule", "Ask what one cycle would do with the objects in files."),
}


def show_help() -> None:
    """Print what `pumice --help` prints, as wide as the terminal allows."""
    import shutil
    import sys

    try:
        sys.stdout.write(help_text(shutil.get_terminal_size().columns))
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = None  # the reader has seen enough; as in main


def help_text(columns: int) -> str:
    """The same text as click's for a terminal of so many columns; a test holds the two together."""
    import textwrap

    width = max(min(columns - 2, WIDTHS[1]), WIDTHS[0])
    options = [("--version", "Show the version and exit."), ("-h, --help", "Show this message and exit.")]
    about = textwrap.fill(ABOUT, width, initial_indent="  ", subsequent_indent="  ")
    commands = [(name, COMMANDS[name][2]) for name in sorted(COMMANDS)]
    return "\n".join(
        [
            *("Usage: pumice [OPTIONS] COMMAND [ARGS]...", "", about, ""),
            *("Options:", *_rows(options, width), ""),
            *("Commands:", *_rows(commands, width), ""),
        ]
    )


def _rows(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    import textwrap

    first = min(max(len(name) for name, _ in rows), FIRST_COLUMN_MAX) + 2
    for name, text in rows:
        head, *more = textwrap.wrap(text, max(width - first - 2, 10))
        yield f"  {name:{first}}{head}"
        yield from (f"  {'':{first}}{line}" for line in more)
