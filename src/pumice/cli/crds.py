"""`pumice crds`: the manifests of our kinds, for kubectl apply."""

from importlib import resources

import click


@click.command()
def crds() -> None:
    """Print the CRD manifests, for kubectl apply."""
    click.echo(manifests(), nl=False)


def manifests() -> str:
    """All CRDs as one multi-document YAML text, in the same order every time."""
    folder = resources.files("pumice.api").joinpath("crds")
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".yaml")), key=lambda file: file.name)
    return "".join(f"---\n{file.read_text(encoding='utf-8')}" for file in files)
