"""`pumice jobflow` and `pumice jobtemplate`: the same verbs for both kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pumice.cli.cluster_command import ClusterAccess, Several, asks, labelled, name_argument
from pumice.cli.results import Done, Query, Report
from pumice.cli.suggestions import SuggestingGroup
from pumice.errors import BadInput

if TYPE_CHECKING:
    from pumice.api.kinds import Kind

GROUP = "flow.volcano.sh"


def _verbs(plural: str, title: str) -> click.Group:
    """The commands of one of the two kinds."""

    @click.group(plural.removesuffix("s"), cls=SuggestingGroup, help=f"Look at {title}s, make and delete them.")
    def group() -> None: ...

    @group.command("list", help=f"List {title}s.")
    @asks(everywhere=True, watch=True)
    @labelled
    async def list_all(access: ClusterAccess, labels: str) -> Query:
        return _query(access, plural, labels=labels)

    @group.command(help=f"Show one {title}.")
    @asks(watch=True)
    @name_argument("-N", "--name", kind=f"{plural}.{GROUP}", several=True)
    async def get(access: ClusterAccess, name: str) -> Query:
        return _query(access, plural, name)

    @group.command(help=f"Print a {title} whole, or all of them.")
    @asks(output=False)
    @name_argument("-N", "--name", required=False, kind=f"{plural}.{GROUP}")
    @click.option(
        "-o", "--output", "--format", "form", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True
    )
    async def describe(access: ClusterAccess, name: str, form: str) -> Report:
        return await _describe(access, plural, name, form)

    @group.command(help=f"Make the {title}s of a file.")
    @asks(output=False)
    @click.option(
        "-f", "--filename", "--file", "filename", required=True, help="File with one or more objects; - for stdin."
    )
    async def create(access: ClusterAccess, filename: str) -> Several:
        from pumice.cli import submitting

        kind = _kind(plural)
        objects = [
            submitting.check_kind(each, kind.api_version, kind.kind, filename)
            for each in submitting.read_documents(filename)
        ]
        several = Several([])
        for each in objects:
            meta = each["metadata"]
            meta["namespace"] = (
                access.namespace if access.named_namespace else meta.get("namespace") or access.namespace
            )
            made = await access.client.create(kind, each, namespace=meta["namespace"], strict=True)
            several.answers.append(Done(kind, made.json(), "created"))
        return several

    @group.command(help=f"Delete a {title}.")
    @asks()
    @name_argument("-N", "--name", required=False, kind=f"{plural}.{GROUP}", several=True)
    @click.option("-f", "--filename", "--file", "filename", default="", help="Delete the one in this file instead.")
    async def delete(access: ClusterAccess, name: str, filename: str) -> Done:
        return await _delete(access, plural, name, filename)

    return group


def _kind(plural: str) -> Kind:
    from pumice.api.kinds import by_resource

    kind = by_resource(GROUP, plural)
    assert kind is not None
    return kind


def _query(access: ClusterAccess, plural: str, name: str = "", *, labels: str = "") -> Query:
    from pumice.cli import tables

    own = tables.JOB_FLOW if plural == "jobflows" else tables.JOB_TEMPLATE
    columns = tables.with_namespace(own, everywhere=access.everywhere)
    return Query(kind=_kind(plural), columns=columns, namespace=access.scope, name=name, labels=labels)


async def _describe(access: ClusterAccess, plural: str, name: str, form: str) -> Report:
    from pumice.cli import fetching, printing

    objects = [
        printing.without_managed_fields(each)
        for each in await fetching.fetch(_query(access, plural, name), access.client)
    ]
    dump = printing.Form(form)
    text = "\n---\n".join(printing.document(each, dump) for each in objects)
    return Report(text, objects)


async def _delete(access: ClusterAccess, plural: str, name: str, filename: str) -> Done:
    from pumice.cli import submitting

    kind = _kind(plural)
    if bool(name) == bool(filename):
        raise BadInput("give a name or a file with -f: one of them, not both")
    if filename:
        documents = submitting.read_documents(filename)
        if len(documents) != 1:
            raise BadInput(f"{filename}: {len(documents)} objects, expected one {kind.kind}; delete them by name")
        name = str(
            submitting.check_kind(documents[0], kind.api_version, kind.kind, filename)["metadata"].get("name", "")
        )
    await access.client.delete(kind, name, namespace=access.namespace)
    return Done(kind, {"metadata": {"name": name, "namespace": access.namespace}}, "deleted")


jobflow = _verbs("jobflows", "JobFlow")
jobtemplate = _verbs("jobtemplates", "JobTemplate")
