"""`vcctl` under its own name: Volcano's help texts, tables, sentences and exit codes around our commands."""

from __future__ import annotations

import copy
import platform
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pumice import __version__
from pumice.cli import main
from pumice.cli.cluster_command import ClusterAccess, asks
from pumice.cli.invocation import Invocation
from pumice.errors import PumiceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.cli.results import Query

FAILED = 255
USAGE = 1
_GLOBAL = (
    "      --log-flush-frequency duration   Maximum number of seconds between log flushes (default 5s)\n"
    "  -v, --v Level                        number for the log level verbosity\n"
    "      --vmodule moduleSpec             comma-separated list of pattern=N settings for file-filtered logging "
    "(only works for the default text log format)\n"
)


class Flag(NamedTuple):
    """One line of a help text."""

    name: str
    letter: str
    text: str
    type: str = "string"
    default: str = ""


class Leaf(NamedTuple):
    """A command of vcctl: what it says of itself, and its flags beside those of all commands."""

    text: str
    flags: tuple[Flag, ...] = ()


_EVERY = (
    Flag("kubeconfig", "k", "(optional) absolute path to the kubeconfig file"),
    Flag("master", "s", "the address of apiserver"),
)
_RESOURCES = '"cpu=1000m,memory=100Mi"'


def _namespace(what: str) -> Flag:
    return Flag("namespace", "n", f"the namespace of {what}", default='"default"')


def _name(what: str, letter: str = "N") -> Flag:
    return Flag("name", letter, f"the name of {what}")


def _everywhere(what: str) -> Flag:
    return Flag("all-namespaces", "", f"list {what} in all namespaces", type="")


def _flow(what: str) -> dict[str, Leaf]:
    """Jobflow and jobtemplate have the same verbs."""
    file = Flag("file", "f", f"the yaml file of {what}")
    own = (_name(what), _namespace(what))
    everywhere = (_everywhere("jobflows"),) if what == "jobflow" else ()
    return {
        "create": Leaf(f"create a {what}", (file,)),
        "delete": Leaf(f"delete a {what}", (*own, file)),
        "describe": Leaf(f"describe a {what}", (*own, Flag("format", "o", "the format of output", default='"yaml"'))),
        "get": Leaf(f"get a {what}", own),
        "list": Leaf(f"list {what}s", (_namespace(what), *everywhere)),
    }


_QUEUE_NAME = _name("queue", "n")
_WEIGHT = Flag("weight", "w", "the weight of the queue", type="int32")
GROUPS: dict[str, tuple[str, dict[str, Leaf]]] = {
    "job": (
        "vcctl command line operation job",
        {
            "delete": Leaf("delete a job", (_name("job"), _namespace("job"))),
            "list": Leaf(
                "list job information",
                (
                    _everywhere("jobs"),
                    _namespace("job"),
                    Flag("queue", "q", "list job with specified queue name"),
                    Flag("scheduler", "S", "list job with specified scheduler name"),
                    Flag("selector", "", "fuzzy matching jobName"),
                ),
            ),
            "resume": Leaf("resume a job", (_name("job"), _namespace("job"))),
            "run": Leaf(
                "run job by parameters from the command line",
                (
                    Flag("filename", "f", "the yaml file of job"),
                    Flag("image", "i", "the container image of job", default='"busybox"'),
                    Flag("limits", "L", "the resource limit of the task", default=_RESOURCES),
                    Flag("min", "m", "the minimal available tasks of job", type="int", default="1"),
                    _name("job"),
                    _namespace("job"),
                    Flag("replicas", "r", "the total tasks of job", type="int", default="1"),
                    Flag("requests", "R", "the resource request of the task", default=_RESOURCES),
                    Flag("scheduler", "S", "the scheduler for this job", default='"volcano"'),
                ),
            ),
            "suspend": Leaf("abort a job", (_name("job"), _namespace("job"))),
            "view": Leaf("show job information", (_name("job"), _namespace("job"))),
        },
    ),
    "jobflow": ("vcctl command line operation jobflow", _flow("jobflow")),
    "jobtemplate": ("vcctl command line operation jobtemplate", _flow("jobtemplate")),
    "pod": (
        "vcctl command line operation pod",
        {
            "list": Leaf(
                "list pod information created by vcjob",
                (
                    _everywhere("pods"),
                    Flag("job", "j", "list pod with specified job name"),
                    _namespace("pod"),
                    Flag("queue", "q", "list pod with specified queue name"),
                ),
            )
        },
    ),
    "queue": (
        "Queue Operations",
        {
            "create": Leaf("create queue", (Flag("name", "n", "the name of queue", default='"test"'), Flag("state", "S", "the state of queue", default='"Open"'), _WEIGHT._replace(default="1"))),
            "delete": Leaf("delete queue", (_QUEUE_NAME,)),
            "get": Leaf("get a queue", (_QUEUE_NAME,)),
            "list": Leaf("lists all the queue"),
            "operate": Leaf("operate queue", (Flag("action", "a", "operate action to queue, valid actions are open, close, update"), _QUEUE_NAME, _WEIGHT)),
        },
    ),
}  # fmt: skip
VERSION = "Print the version information"


def flags_text(name: str, flags: Sequence[Flag]) -> str:
    """The flags by name, help among them, each on its line."""
    listed = sorted([*flags, Flag("help", "h", f"help for {name}", type="")])
    heads = [f"{f'-{each.letter}, ' if each.letter else '    '}--{each.name} {each.type}".rstrip() for each in listed]
    width = max(map(len, heads))
    lines = []
    for head, each in zip(heads, listed, strict=True):
        default = f" (default {each.default})" if each.default else ""
        lines.append(f"  {head:<{width}}   {each.text}{default}\n")
    return "".join(lines)


def leaf_help(path: str, text: str, flags: Sequence[Flag]) -> str:
    name = path.rpartition(" ")[2]
    own = f"Flags:\n{flags_text(name, flags)}"
    return f"{text}\n\nUsage:\n  {path} [flags]\n\n{own}\nGlobal Flags:\n{_GLOBAL}"


def _listed(texts: dict[str, str]) -> str:
    width = max(11, *map(len, texts))
    return "".join(f"  {name:<{width}} {text}\n" for name, text in sorted(texts.items()))


def group_help(name: str) -> str:
    text, leaves = GROUPS[name]
    commands = _listed({each: leaf.text for each, leaf in leaves.items()})
    return (
        f"{text}\n\nUsage:\n  vcctl {name} [command]\n\nAvailable Commands:\n{commands}\n"
        f"Flags:\n{flags_text(name, ())}\nGlobal Flags:\n{_GLOBAL}\n"
        f'Use "vcctl {name} [command] --help" for more information about a command.\n'
    )


def root_help() -> str:
    texts = {name: text for name, (text, _) in GROUPS.items()}
    commands = _listed({**texts, "help": "Help about any command", "version": VERSION})
    own = f"  -h, --help                           help for vcctl\n{_GLOBAL}"
    return (
        f"Usage:\n  vcctl [command]\n\nAvailable Commands:\n{commands}\nFlags:\n{own}\n"
        'Use "vcctl [command] --help" for more information about a command.\n'
    )


# ------------------------------------------------------------------------------------------------- commands


@click.command("list")
@asks(everywhere=True)
@click.option("-q", "--queue", default="")
@click.option("-S", "--scheduler", default="")
@click.option("--selector", default="")
async def _list_jobs(access: ClusterAccess, queue: str, scheduler: str, selector: str) -> Query:
    """List Jobs, by a part of the name."""
    from pumice.cli import job

    return job.jobs(access, queue=queue, scheduler=scheduler, part=selector)


class _Command(click.Command):
    """One of our commands with vcctl's help, which every flag of ours still serves."""

    help_text = ""

    def get_help(self, ctx: click.Context) -> str:
        del ctx
        return self.help_text.removesuffix("\n")


class _Group(_Command, click.Group):
    """vcctl, or one of its groups; without a command it prints its help."""


def _leaf(group: str, name: str) -> click.Command:
    """Our command of that name with Volcano's defaults, made when it is called."""
    found: Any = main.pumice.get_command(click.Context(main.pumice), group)
    own: click.Command = found.commands[name]
    if (group, name) == ("job", "list"):
        own = _list_jobs
    leaf = GROUPS[group][1][name]
    command = _Command(name, callback=own.callback, params=[_volcano(each, group, name) for each in own.params])
    command.help_text = leaf_help(f"vcctl {group} {name}", leaf.text, (*leaf.flags, *_EVERY))
    return command


def _volcano(param: click.Parameter, group: str, name: str) -> click.Parameter:
    default = {"namespace": "default", "lettered": "test" if (group, name) == ("queue", "create") else ""}.get(
        param.name or ""
    )
    if not default or not isinstance(param, click.Option):
        return param
    changed = copy.copy(param)
    changed.default = default
    return changed


class _LazyGroup(_Group):
    """A group of vcctl's, whose commands are made when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(GROUPS[str(self.name)][1])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        group = str(self.name)
        return _leaf(group, cmd_name) if cmd_name in GROUPS[group][1] else None


def _version() -> None:
    click.echo(
        f"API Version: v1alpha1\nVersion: pumice {__version__}\nGit SHA: not built from a commit\nBuilt At: unknown\n"
        f"Go Version: none, Python {platform.python_version()}\nGo OS/Arch: {platform.system().lower()}/{platform.machine()}"
    )


@click.command("help")
@click.argument("words", nargs=-1)
@click.pass_context
def _help(ctx: click.Context, words: tuple[str, ...]) -> None:
    """`vcctl help job list` is `vcctl job list --help`."""
    command: click.Command | None = ctx.find_root().command
    for word in words:
        command = command.get_command(ctx, word) if isinstance(command, click.Group) else None
    if command is None:
        raise click.UsageError(f'unknown help topic "{" ".join(words)}"', ctx)
    click.echo(command.get_help(ctx))


def build() -> click.Group:
    settings = {"help_option_names": ["-h", "--help"]}
    root = _Group("vcctl", context_settings=settings, no_args_is_help=True)
    root.help_text = root_help()
    for name in GROUPS:
        group = _LazyGroup(name, no_args_is_help=True)
        group.help_text = group_help(name)
        root.add_command(group)
    version = _Command("version", callback=_version)
    version.help_text = leaf_help("vcctl version", VERSION, ())
    root.add_command(version)
    root.add_command(_help)
    return root


def run(arguments: Sequence[str]) -> int:
    """Run vcctl to its exit code: errors on stdout and 255, as Volcano's ends."""
    invocation = Invocation(volcano=True)
    try:
        build().main(args=list(arguments), prog_name="vcctl", standalone_mode=False, obj=invocation)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help())
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        click.echo(f"Error: {error.format_message()}", err=True)
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        return main.ExitCode.INTERRUPTED
    except PumiceError as error:
        words = [word for word in arguments if not word.startswith("-")][:2]
        click.echo(f"Failed to {' '.join(reversed(words))}: {getattr(error, 'message', '') or error}")
        return FAILED
    return 0
