"""`pumice`: starts fast, because a command's module is imported only when that command runs."""

from __future__ import annotations

import enum
import importlib
import sys

import click
from click.shell_completion import CompletionItem

from pumice import __version__, errors
from pumice.cli.commands import ABOUT, COMMANDS
from pumice.cli.entry import importing
from pumice.cli.invocation import Invocation
from pumice.cli.suggestions import SuggestingGroup


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

# The cluster on one machine: `up`, `demo` and `node` need it, the production image has it not.
_ONE_MACHINE = "pumice.local"
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


@click.group(cls=LazyGroup, help=ABOUT, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pumice")
def pumice() -> None:
    """The program; its help is in `commands`."""


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
    except (BrokenPipeError, SystemExit):  # the second is what click makes of the first, with the code 1
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
    except UnicodeEncodeError as error:  # such as a name that was no UTF-8 on the command line
        around = error.object[max(error.start - 20, 0) : error.end + 20]
        return _tell(
            name,
            errors.BadInput(
                f"{around!a}: not to be written as {error.encoding}; correct the name, or set LANG=C.UTF-8"
            ),
        )
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        hint = "check the path, its permissions and the room on the disk"
        return _tell(name, errors.PumiceError(f"{where}{error.strerror or error}; {hint}"))
    return ExitCode.OK


def _tell(name: str, error: errors.PumiceError, *, verbose: bool = False) -> ExitCode:
    from pumice.cli import colours

    colours.error(name, str(error) if verbose else error.plain)
    return next(code for kind, code in _EXIT_CODES if isinstance(error, kind))
