"""A group of commands whose modules are loaded when a command is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """`homes` has the module of each command that is not registered by itself.

    `sections` are the commands by topic, each in a few words: the group's help shows them, and loads no command.
    """

    def __init__(
        self, *arguments: Any, homes: Mapping[str, str], sections: Mapping[str, Mapping[str, str]], **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self.homes = homes
        self.sections = sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, in order."""
        return sorted({*super().list_commands(ctx), *self.homes})

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's form
        """A list of commands for each section, in columns of one width."""
        width = max(len(name) for commands in self.sections.values() for name in commands)
        for title, commands in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", text) for name, text in commands.items()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name; None if there is none."""
        if cmd_name not in self.homes:
            return super().get_command(ctx, cmd_name)
        there = vars(importlib.import_module(self.homes[cmd_name])).values()
        return next(each for each in there if isinstance(each, click.Command) and each.name == cmd_name)
