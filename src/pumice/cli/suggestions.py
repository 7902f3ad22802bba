"""What a user meant who wrote a command that is not there: kubectl's words, other programs' words, and slips."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

# Command group -> word -> what to write instead.
MEANT: Mapping[str, Mapping[str, str]] = {
    "": {
        **dict.fromkeys(("jobs", "vcjob", "vcjobs", "vj", "get", "list", "ls", "ps"), "pumice job list"),
        **dict.fromkeys(("pods", "po"), "pumice pod list"),
        **dict.fromkeys(("queues", "q"), "pumice queue list"),
        **dict.fromkeys(("jobflows", "flow", "flows"), "pumice jobflow list"),
        **dict.fromkeys(("jobtemplates", "template", "templates"), "pumice jobtemplate list"),
        **dict.fromkeys(("free", "gpus"), "pumice nodes"),
        **dict.fromkeys(("usage", "users", "quota"), "pumice top"),
        **dict.fromkeys(("logs", "log"), "pumice job logs NAME"),
        **dict.fromkeys(("describe", "view", "show"), "pumice job view NAME` or `pumice explain job/NAME"),
        **dict.fromkeys(("run", "submit", "create", "apply"), "pumice job run"),
        **dict.fromkeys(("delete", "cancel", "rm"), "pumice job delete NAME"),
        **dict.fromkeys(("wait", "scale", "restart", "suspend", "resume"), "pumice job {} NAME"),
        **dict.fromkeys(("why", "events"), "pumice explain job/NAME"),
        **dict.fromkeys(("start", "serve"), "pumice up"),
        "stop": "pumice down",
    },
    "job": {
        **dict.fromkeys(("get", "describe", "show", "status"), "pumice job view NAME"),
        **dict.fromkeys(("ls", "ps"), "pumice job list"),
        **dict.fromkeys(("create", "submit", "apply"), "pumice job run"),
        **dict.fromkeys(("cancel", "rm", "kill"), "pumice job delete NAME"),
        **dict.fromkeys(("log", "tail"), "pumice job logs NAME"),
        **dict.fromkeys(("explain", "why", "events"), "pumice explain job/NAME"),
        **dict.fromkeys(("abort", "pause", "stop"), "pumice job suspend NAME"),
    },
    "queue": {
        **dict.fromkeys(("describe", "show"), "pumice queue view NAME"),
        **dict.fromkeys(("open", "close"), "pumice queue operate NAME --action {}"),
        **dict.fromkeys(("update", "scale", "edit", "patch"), "pumice queue set NAME --weight WEIGHT"),
        "ls": "pumice queue list",
    },
    "pod": {
        **dict.fromkeys(("get", "ls", "describe"), "pumice pod list"),
        **dict.fromkeys(("logs", "log"), "pumice job logs NAME"),
    },
}


def meant(path: str, word: str, known: list[str]) -> str:
    """The command that the word stands for in other programs, else one that is spelt nearly so; empty if there is none."""
    listed = MEANT.get(path, {}).get(word.lower())
    if listed is not None:
        return listed.format(word.lower())
    import difflib

    close = difflib.get_close_matches(word.lower(), known, n=1)
    return " ".join(filter(None, ("pumice", path, *close))) if close else ""


HELP_CHARS_MAX = 200  # click itself cuts what does not fit one line


class SuggestingGroup(click.Group):
    """A group of commands that answers a word it does not know with one that it does, and lists each with its whole first sentence."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        named = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, each.get_short_help_str(HELP_CHARS_MAX)) for name, each in named.items() if each]
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:  # kubectl takes its options before the command, too
            hint = f"Options come after the command: `{ctx.command_path} COMMAND ... {error.option_name}`."
            raise click.UsageError(f"{error.format_message()} {hint}", ctx) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            path = "" if ctx.parent is None else str(ctx.info_name)
            suggested = meant(path, args[0], self.list_commands(ctx))
            if suggested and not args[0].startswith("-"):
                raise click.UsageError(f"{error.message} Did you mean `{suggested}`?", ctx) from error
            raise
