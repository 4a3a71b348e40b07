"""The command `rowmerge`, which is also `python -m rowmerge`: the class archive of Java, and servers that keep Spark running.

The exit status is 0, or 1 if the command fails, or 2 for wrong arguments.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import click

from rowmerge.errors import RowmergeError
from rowmerge.server.client import server_status, start_server, stop_server
from rowmerge.server.folder import ServerFolder, warehouse_of
from rowmerge.version import __version__

_STOP_SECONDS = 60.0

Command = Callable[..., Any]


class _Commands(click.Group):
    """A group of commands that prints an error of the engine without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RowmergeError as error:
            raise click.ClickException(error.message) from error


@click.group(cls=_Commands)
@click.version_option(__version__)
def main() -> None:
    """Run a command of the engine of dbt-rowmerge."""


@main.command()
def archive_classes() -> None:
    """Write an archive of Java's classes, with which Spark starts faster.

    One archive serves one installation of Java and PySpark.
    """
    from rowmerge.session.startup.class_archive import make_class_archive  # imports PySpark

    path = make_class_archive()
    click.echo(f"{path} ({path.stat().st_size / 1e6:.0f} MB): the embedded Spark uses this archive from now on. Delete it to stop this.")


@main.group()
def server() -> None:
    """Start, stop and list servers, which keep Spark running between commands. `keep_warm` in a dbt profile starts one.

    A server belongs to one user, one warehouse and one set of options and versions.
    """


def _warehouse_option(command: Command) -> Command:
    help_text = "The folder or URL of a warehouse. Without it, the command applies to all servers of the user."
    return click.option("--warehouse", envvar="ROWMERGE_WAREHOUSE", help=help_text)(command)


@server.command(help="Start the server of a warehouse, unless it runs.")
@click.option("--warehouse", envvar="ROWMERGE_WAREHOUSE", required=True, help="The folder or URL of the warehouse.")
@click.option("--keep-warm", default="30m", show_default=True, help="The time after which a server without clients ends.")
@click.option("--config", multiple=True, metavar="KEY=VALUE", help="A setting of Spark. Repeat it for further settings.")
def start(warehouse: str, keep_warm: str, config: tuple[str, ...]) -> None:
    """Start the server of a warehouse, unless it runs.

    Args:
        warehouse: The folder or URL of the warehouse.
        keep_warm: The time after which a server without clients ends, such as `30m`.
        config: Settings of Spark as `key=value`.

    Raises:
        BadParameter: A setting has no value.
    """
    from rowmerge.storage.retries import parse_duration  # imports obstore

    settings = [setting.partition("=") for setting in config]
    if wrong := next((key for key, equals, _ in settings if not equals), None):
        raise click.BadParameter(f"{wrong!r} has no value. Write it as key=value.", param_hint="--config")
    arguments = {"location": warehouse, "spark_config": {key: value for key, _, value in settings} or None}
    folder = ServerFolder.of(arguments)
    start_server(folder, arguments, parse_duration("--keep-warm", keep_warm).total_seconds())
    state = folder.read()
    click.echo(f"The server of {warehouse_of(arguments)} runs with process id {state.pid if state else '?'}. Its log is {folder.log}.")


@server.command()
@_warehouse_option
@click.option("--when-unused", is_flag=True, help="Wait until clients have ended, instead of cancelling their statements.")
def stop(warehouse: str | None, *, when_unused: bool) -> None:
    """Stop servers."""
    folders = [folder for folder in _folders(warehouse) if _answer_of(stop_server, folder, at_once=not when_unused)]
    until = time.monotonic() + _STOP_SECONDS
    while not when_unused and any(folder.read() for folder in folders) and time.monotonic() < until:
        time.sleep(0.1)
    click.echo(f"{len(folders)} server{'' if len(folders) == 1 else 's'} stopped.")


@server.command()
@_warehouse_option
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
def status(warehouse: str | None, *, as_json: bool) -> None:
    """Print one line for each server that runs."""
    servers = []
    for folder in _folders(warehouse):
        state, facts = folder.read(), _answer_of(server_status, folder)
        if state is not None and facts is not None:
            shared = {"warehouse": state.warehouse, "pid": state.pid, "version": state.version, "started": state.started}
            servers.append({**shared, **facts, "log": str(folder.log)})
    if as_json:
        click.echo(json.dumps(servers, indent=2))
    elif not servers:
        click.echo("No server runs.")
    for each in [] if as_json else servers:
        use = f"{each['clients']} clients" if each["clients"] else f"unused for {each['unused_seconds']:.0f} s of {each['keep_warm']:.0f} s"
        click.echo(f"{each['warehouse']}: process {each['pid']}, {use}, {each['requests']} requests")


@server.command()
@_warehouse_option
def logs(warehouse: str | None) -> None:
    """Print the logs of servers, also of servers that have ended."""
    for folder in _folders(warehouse):
        if folder.log.is_file():
            click.echo(f"==> {folder.log} <==")
            click.echo(folder.log.read_text(encoding="utf-8", errors="replace"))


def _answer_of(function: Callable[..., Any], folder: ServerFolder, **arguments: bool) -> Any:
    """Call a function that sends a request to the server of a folder, and return its result. Print an error, and return None then."""
    try:
        return function(folder, **arguments)
    except RowmergeError as error:
        click.echo(error.message, err=True)
        return None


def _folders(warehouse: str | None) -> list[ServerFolder]:
    """Return the folders of all servers of the user, or of those of a warehouse."""
    folders = ServerFolder.all_of_user()
    if warehouse is None:
        return folders
    location = warehouse_of({"location": warehouse})
    return [folder for folder in folders if folder.warehouse() == location]


if __name__ == "__main__":
    main(prog_name="rowmerge")
