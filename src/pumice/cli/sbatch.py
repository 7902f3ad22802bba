"""`pumice sbatch`: a batch script becomes a Job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from pumice.cli.batch_script import OPTIONS
from pumice.cli.cluster_command import ClusterAccess, asks
from pumice.cli.input_files import MANIFEST_BYTES_MAX, STDIN, read_file_or_stdin
from pumice.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from pumice.api.meta import Json
    from pumice.cli.batch_script import Script

_WRAPPED = "wrap"
_PREFIX = "slurm_"  # of parameters: `output` is another thing in the commands that print tables


def _flags(body: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(OPTIONS):
        words = [f"--{option.name}", *([f"-{option.letter}"] if option.letter else [])]
        body = click.option(*words, _PREFIX + option.name.replace("-", "_"), metavar=option.value, help=option.text)(
            body
        )
    return body


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@asks(namespace=("--namespace",), output=False)
@_flags
@click.option("--wrap", default="", metavar="COMMAND", help="Run this command instead of a script.")
@click.option("--volume", "volumes", multiple=True, metavar="CLAIM:/PATH", help="A claim, or a /FOLDER of the node.")
@click.option("--parsable", is_flag=True, help="Print the Job's name and nothing else.")
@click.option("--to-yaml", is_flag=True, help="Print the Job instead of making it.")
@click.argument("script", required=False)
@click.argument("arguments", nargs=-1)
async def sbatch(
    access: ClusterAccess,
    script: str | None,
    arguments: tuple[str, ...],
    wrap: str,
    volumes: tuple[str, ...],
    parsable: bool,
    to_yaml: bool,
    **flags: str | None,
) -> None:
    """Submit a batch script of Slurm's as a Job; flags win over its #SBATCH lines.

    Each of --nodes gets a pod in which the script runs; `srun` in it starts that node's tasks. Without --nodes, each task has a pod.
    The script runs in the image of --container-image. What a #SBATCH line asks for and cannot be had is refused with that line.
    """
    from pumice import yamltext
    from pumice.cli import submitting

    found, source = _script(script, wrap)
    for warning in found.warnings:
        click.echo(f"sbatch: {warning}", err=True)
    wanted = _job(found, source, arguments, volumes, flags)
    if to_yaml:
        click.echo(yamltext.dump(wanted).rstrip("\n"))
        return
    made = await submitting.submit(access, wanted)
    name = made.object["metadata"]["name"]
    click.echo(name if parsable else f"Submitted batch job {name}")


def _script(script: str | None, wrap: str) -> tuple[Script, str]:
    import sys

    from pumice.cli import batch_script

    if script and wrap:
        raise BadInput("expected a script or --wrap COMMAND, and not both; name one")
    if wrap:
        return batch_script.read(f"#!/bin/sh\n{wrap}\n", _WRAPPED), _WRAPPED
    if script is None and sys.stdin.isatty():
        raise BadInput("expected a script, from a file or from stdin, or --wrap COMMAND; name one")
    script = script or STDIN  # as Slurm's: sbatch <<END
    source = "stdin" if script == STDIN else script
    try:
        text = read_file_or_stdin(script, MANIFEST_BYTES_MAX).decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"{source}: cannot be read as text: {error}; check the file") from error
    return batch_script.read(text, source), source


def _job(
    found: Script, source: str, arguments: tuple[str, ...], volumes: tuple[str, ...], flags: dict[str, str | None]
) -> Json:
    import os

    from pumice.cli import batch_script, submitting

    given = {name.removeprefix(_PREFIX).replace("_", "-"): text for name, text in flags.items() if text is not None}
    said = {name: batch_script.GivenOption(value, f"--{name}") for name, value in given.items()}
    # A number that a flag gives in other words takes the place of the script's.
    if said.keys() & {"gpus", "gpus-per-node", "gres"}:
        kept = {name: each for name, each in found.options.items() if name not in {"gpus", "gpus-per-node", "gres"}}
    else:
        kept = dict(found.options)
    whole = msgspec.structs.replace(found, options={**kept, **said})
    asked = whole.options.get("container-image")
    image = asked.value if asked is not None else os.environ.get("PUMICE_IMAGE") or batch_script.IMAGE
    return batch_script.job_of(whole, arguments, source=source, image=image, volumes=submitting.mounted(volumes))
