"""`pumice completion`, `install-aliases` and `version`: how the program fits into a shell."""

from __future__ import annotations

import platform
import shlex
import sys
from pathlib import Path

import click

from pumice import __version__
from pumice.cli.cluster_command import ClusterAccess, asks
from pumice.cli.results import Report
from pumice.errors import BadInput, Conflict

KUBECTL_COMPLETION = "kubectl_complete-pumice"  # kubectl runs it to complete `kubectl pumice`
ALIASES = ("vcctl", "vsub", "vjobs", "vqueues", "vcancel", "vsuspend", "vresume", KUBECTL_COMPLETION)
_MARK = "# made by `pumice install-aliases`"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    bash: add `source <(pumice completion bash)` to ~/.bashrc; zsh: the same in ~/.zshrc; fish: `pumice completion fish | source`
    in ~/.config/fish/config.fish.
    """
    from click.shell_completion import get_completion_class

    from pumice.cli.main import pumice

    made = get_completion_class(shell)
    assert made is not None, shell
    click.echo(made(pumice, {}, "pumice", "_PUMICE_COMPLETE").source())


@click.command("install-aliases")
@click.option("--dir", "folder", type=click.Path(file_okay=False), help="Where to; else beside this program.")
@click.option("--force", is_flag=True, help="Replace programs of these names that are somebody else's.")
def install_aliases(folder: str | None, force: bool) -> None:
    """Put vcctl, vsub, vjobs, vqueues, vcancel, vsuspend and vresume beside pumice.

    Beside them comes kubectl_complete-pumice, which lets kubectl complete `kubectl pumice`. In the short ones -n is the name and -N the namespace, as in Volcano; in vcctl and pumice it is the other way round.
    """
    place = Path(folder) if folder else Path(sys.executable).parent
    if not place.is_dir():
        raise BadInput(f"{place}: no such folder; make it, or name another with --dir")
    foreign = [name for name in ALIASES if (place / name).exists() and _MARK not in _text(place / name)]
    if foreign and not force:
        raise Conflict(
            f"{place}: {', '.join(foreign)} already there and not ours: nothing was changed; use --dir or --force"
        )
    try:
        for name in ALIASES:
            path = place / name
            path.unlink(missing_ok=True)  # a link would lead the writing elsewhere
            path.write_text(
                f'#!/bin/sh\n{_MARK}\nexec {shlex.quote(sys.executable)} -m pumice.cli.aliases {name} "$@"\n'
            )
            path.chmod(0o755)
    except OSError as error:
        raise BadInput(f"{place}: cannot be written: {error.strerror}; name another folder with --dir") from error
    click.echo(f"{place}: {', '.join(ALIASES)}")


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


@click.command()
@asks(namespace=())
async def version(access: ClusterAccess) -> Report:
    """Print the versions of this program and of the API server; `pumice --version` asks no server."""
    import msgspec

    from pumice.kube.transport import Request

    answer = await access.client.call(Request("GET", "/version", {}, {"accept": "application/json"}))
    server = msgspec.json.decode(answer.body, type=dict[str, str])
    client = {"version": __version__, "python": platform.python_version(), "platform": platform.platform(terse=True)}
    text = f"pumice:       {__version__} (Python {client['python']})\nAPI server:   {server.get('gitVersion', '')}"
    return Report(text, {"client": client, "server": server})
