"""`pumice`: starts fast, because a command's module is imported only when that command runs."""

from __future__ import annotations

import enum
import importlib
import sys
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from pumice import __version__, errors
from pumice.cli.entry import importing
from pumice.cli.invocation import Invocation
from pumice.cli.suggestions import SuggestingGroup

if TYPE_CHECKING:
    from collections.abc import Mapping


class ExitCode(enum.IntEnum):
    """What the shell is told; a stable contract."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    CONFLICT = 5
    INTERRUPTED = 130


_EXIT_CODES: tuple[tuple[type[errors.PumiceError], ExitCode], ...] = (
    (errors.BadInput, ExitCode.USAGE),
    (errors.NotFound, ExitCode.NOT_FOUND),
    (errors.Refused, ExitCode.REFUSED),
    (errors.Conflict, ExitCode.CONFLICT),
    (errors.PumiceError, ExitCode.FAILED),
)

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


_ONE_MACHINE = (
    "pumice.local"  # the cluster on one machine: `up`, `demo` and `node` need it, the production image has it not
)
_NOT_IN_THIS_IMAGE = (
    "this image has no cluster on one machine; install the package (`pip install pumice`) to use this command"
)


class LazyGroup(SuggestingGroup):
    """A group whose commands are imported when they are called, not when they are listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        with importing():
            command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names from the table; click's own way would import every command at each press of the key."""
        if incomplete.startswith("-"):
            return super(click.Group, self).shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=COMMANDS[name][2]) for name in sorted(COMMANDS) if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in sorted(COMMANDS)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pumice")
def pumice() -> None:
    """Start whole gangs of pods or none, share a cluster between queues, and say why a gang waits."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and end the process with a code of ExitCode."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None, command: click.Command = pumice, *, name: str = "pumice") -> ExitCode:
    """Run a command, ours or one under another name, to its exit code."""
    invocation = Invocation()
    try:
        command.main(args=arguments, prog_name=name, standalone_mode=False, obj=invocation)
    except click.exceptions.Exit as end:
        return ExitCode(end.exit_code)
    except click.ClickException as error:
        error.show()
        return ExitCode.USAGE
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Point stdout elsewhere, or Python complains while it shuts down.
        sys.stdout = None
        return ExitCode.OK
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(_ONE_MACHINE):
            raise
        click.echo(f"{name}: {_NOT_IN_THIS_IMAGE}", err=True)
        return ExitCode.FAILED
    except errors.PumiceError as error:
        return _tell(name, error, verbose=invocation.verbose)
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        hint = "check the path, its permissions and the room on the disk"
        return _tell(name, errors.PumiceError(f"{where}{error.strerror or error}; {hint}"))
    return ExitCode.OK


def _tell(name: str, error: errors.PumiceError, *, verbose: bool = False) -> ExitCode:
    from pumice.cli import colours

    colours.error(name, str(error) if verbose else error.plain)
    return next(code for kind, code in _EXIT_CODES if isinstance(error, kind))
