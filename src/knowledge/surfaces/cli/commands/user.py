"""`knowledge user`: the accounts of those who share this server."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from knowledge.engine.api import Engine
from knowledge.model import IssuedKey, Removed, now
from knowledge.surfaces.cli.command import common, examples, pass_session
from knowledge.surfaces.cli.confirm import confirm
from knowledge.surfaces.cli.output.screen import count, moment, print_json, print_table, say, size
from knowledge.surfaces.cli.session import Session

if TYPE_CHECKING:
    from knowledge.model import Account


@click.group(
    epilog=examples(
        "knowledge user add ada",
        "knowledge user list",
        "knowledge user key ada --name laptop --days 90",
        "knowledge user disable ada",
        "knowledge user remove ada",
    )
)
@common
def user() -> None:
    """Add people who share this server, give them keys, and remove them."""


@user.command(
    epilog=examples(
        "knowledge user add ada",
        "knowledge user add ada --password",
        "knowledge user add ada --password-stdin < password.txt",
    )
)
@click.argument("username")
@click.option("--password", "ask", is_flag=True, help="Ask for a password, so that they can log in by themselves.")
@click.option("--password-stdin", "piped", is_flag=True, help="Read that password from standard input.")
@common
@pass_session
def add(session: Session, username: str, ask: bool, piped: bool) -> None:
    """Make an account for USERNAME and show its first key, this once."""
    password = read_password(ask, piped)

    async def work(engine: Engine) -> IssuedKey:
        await engine.add_account(username, password)
        return await engine.issue_key(username, "first")

    hand_over(session, session.run(work))


@user.command(name="list", epilog=examples("knowledge user list", "knowledge user list --json"))
@common
@pass_session
def list_accounts(session: Session) -> None:
    """List the accounts."""
    found = session.run(lambda engine: engine.accounts())
    if session.as_json:
        from knowledge.wire.accounts import dump_accounts

        print_json(dump_accounts(found))
    elif found:
        rows = [(str(one.id), one.username, standing(one), moment(one.created_at)) for one in found]
        print_table(("id", "username", "", "since"), rows, right=("id",))
    else:
        say("There are no accounts.")


@user.command(epilog=examples("knowledge user key ada", "knowledge user key ada --name laptop --days 90"))
@click.argument("username")
@click.option("--name", default="shell", show_default=True, metavar="TEXT", help="What the key is for.")
@click.option("--days", type=click.IntRange(1, 36_500), metavar="N", help="When it expires; never, unless given.")
@common
@pass_session
def key(session: Session, username: str, name: str, days: int | None) -> None:
    """Make another key for USERNAME and show it, this once."""
    hand_over(session, session.run(lambda engine: engine.issue_key(username, name, after(days))))


@user.command(epilog=examples("knowledge user disable ada", "knowledge user disable ada --undo"))
@click.argument("username")
@click.option("--undo", is_flag=True, help="Let them in again.")
@common
@pass_session
def disable(session: Session, username: str, undo: bool) -> None:
    """Let USERNAME in no more; what they own stays."""
    account = session.run(lambda engine: engine.disable_account(username, not undo))
    if session.as_json:
        from knowledge.wire.accounts import dump_account

        print_json(dump_account(account))
    else:
        click.echo(f"{account.username} is {'let in again' if undo else 'disabled'}.")


@user.command(epilog=examples("knowledge user remove ada", "knowledge user remove ada --yes"))
@click.argument("username")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@common
@pass_session
def remove(session: Session, username: str, yes: bool) -> None:
    """Remove USERNAME with everything that they own."""

    async def work(engine: Engine) -> Removed:
        confirm(f"Remove '{username}' with everything that they own for good?", yes)
        return await engine.remove_account(username)

    removed = session.run(work)
    if session.as_json:
        from knowledge.wire import dump_removed

        print_json(dump_removed(removed))
    else:
        click.echo(f"Removed them with {count(removed.documents, 'document')}, {size(removed.bytes_freed)}.")


def read_password(ask: bool, piped: bool) -> str | None:
    if piped:
        return sys.stdin.readline().rstrip("\r\n")
    return str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)) if ask else None


def after(days: int | None) -> datetime | None:
    return None if days is None else now() + timedelta(days=days)


def standing(account: Account) -> str:
    return ", ".join(word for word, true in (("admin", account.is_admin), ("disabled", account.is_disabled)) if true)


def hand_over(session: Session, issued: IssuedKey) -> None:
    """The key goes to standard output alone, so that it can be piped to where it is kept."""
    if session.as_json:
        from knowledge.wire.accounts import dump_issued_key

        print_json(dump_issued_key(issued))
        return
    say(f"The key of {issued.username}, shown this once:")
    click.echo(issued.secret)
