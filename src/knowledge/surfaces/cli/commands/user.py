"""`knowledge user`: manages the accounts of the server."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from knowledge.engine.api import Engine
from knowledge.model import IssuedKey, RemovalResult, now
from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.output.terminal import (
    confirm,
    format_size,
    format_time,
    pluralize,
    print_json,
    print_message,
    print_table,
)
from knowledge.surfaces.cli.session import CliSession

if TYPE_CHECKING:
    from knowledge.model import Account
    from knowledge.model.oauth import OAuthGrant
    from knowledge.model.sessions import BrowserSession


@click.group(
    epilog=format_examples(
        "knowledge user add ada",
        "knowledge user list",
        "knowledge user key ada --name laptop --days 90",
        "knowledge user sessions ada",
        "knowledge user tokens ada",
        "knowledge user disable ada",
        "knowledge user remove ada",
    )
)
@common_options
def user() -> None:
    """Manage accounts, their API keys, their browser sessions and the clients that act for them."""


@user.command(
    epilog=format_examples(
        "knowledge user add ada",
        "knowledge user add ada --password",
        "knowledge user add ada --password-stdin < password.txt",
    )
)
@click.argument("username")
@click.option("--password", "ask", is_flag=True, help="Prompt for a password, with which the user can log in.")
@click.option("--password-stdin", "piped", is_flag=True, help="Read the password from standard input.")
@common_options
@pass_session
def add(session: CliSession, username: str, ask: bool, piped: bool) -> None:
    """Create an account for USERNAME and print its first API key, which is shown only once."""
    password = read_password(ask, piped)

    async def work(engine: Engine) -> IssuedKey:
        await engine.accounts.add(username, password)
        return await engine.accounts.issue_key(username, "first")

    print_issued_key(session, session.run(work))


@user.command(name="list", epilog=format_examples("knowledge user list", "knowledge user list --json"))
@common_options
@pass_session
def list_accounts(session: CliSession) -> None:
    """List accounts."""
    found = session.run(lambda engine: engine.accounts.list_all())
    if session.as_json:
        from knowledge.wire import AccountsShape

        print_json(AccountsShape(tuple(found)))
    elif found:
        rows = [(str(one.id), one.username, format_flags(one), format_time(one.created_at)) for one in found]
        print_table(("id", "username", "", "since"), rows, right=("id",))
    else:
        print_message("There are no accounts.")


@user.command(epilog=format_examples("knowledge user key ada", "knowledge user key ada --name laptop --days 90"))
@click.argument("username")
@click.option("--name", default="shell", show_default=True, metavar="TEXT", help="Name of the key.")
@click.option("--days", type=click.IntRange(1, 36_500), metavar="N", help="Days until it expires.  [default: never]")
@common_options
@pass_session
def key(session: CliSession, username: str, name: str, days: int | None) -> None:
    """Create an API key for USERNAME and print it; it is shown only once."""
    print_issued_key(
        session, session.run(lambda engine: engine.accounts.issue_key(username, name, compute_expiry(days)))
    )


@user.command(
    epilog=format_examples(
        "knowledge user sessions ada", "knowledge user sessions ada --revoke 3", "knowledge user sessions --revoke-all"
    )
)
@click.argument("username", required=False)
@click.option("--revoke", "revoked", type=int, multiple=True, metavar="ID", help="End this session; can be repeated.")
@click.option("--revoke-all", is_flag=True, help="End all sessions.")
@common_options
@pass_session
def sessions(session: CliSession, username: str | None, revoked: tuple[int, ...], revoke_all: bool) -> None:
    """List the browser sessions of USERNAME, or end them; without USERNAME those of the operator."""

    async def work(engine: Engine) -> list[BrowserSession]:
        api = engine.sessions
        for identity in revoked:
            await (api.revoke(identity) if username is None else api.revoke_of(username, identity))
        if revoke_all:
            await (api.revoke_all() if username is None else api.revoke_all_of(username))
        return await (api.list_own() if username is None else api.list_of(username))

    print_sessions(session, session.run(work))


@user.command(
    epilog=format_examples(
        "knowledge user tokens ada", "knowledge user tokens ada --revoke 3", "knowledge user tokens ada --revoke-all"
    )
)
@click.argument("username")
@click.option(
    "--revoke", "revoked", type=int, multiple=True, metavar="ID", help="Revoke these tokens; can be repeated."
)
@click.option("--revoke-all", is_flag=True, help="Revoke the tokens of all clients.")
@common_options
@pass_session
def tokens(session: CliSession, username: str, revoked: tuple[int, ...], revoke_all: bool) -> None:
    """List the clients that may act for USERNAME with OAuth, or revoke their tokens."""

    async def work(engine: Engine) -> list[OAuthGrant]:
        for identity in revoked:
            await engine.oauth.revoke_of(username, identity)
        if revoke_all:
            await engine.oauth.revoke_all_of(username)
        return await engine.oauth.list_of(username)

    print_tokens(session, session.run(work))


@user.command(
    epilog=format_examples("knowledge user link ada 00u1a2b3", "knowledge user link ada auth0|5f7c --issuer URL")
)
@click.argument("username")
@click.argument("subject")
@click.option("--issuer", metavar="URL", help="Issuer of the tokens.  [default: KNOWLEDGE_OAUTH_ISSUER]")
@common_options
@pass_session
def link(session: CliSession, username: str, subject: str, issuer: str | None) -> None:
    """Let tokens of another authorization server with the claim SUBJECT act for USERNAME."""
    known = issuer or session.settings.oauth_issuer
    if not known:
        raise click.UsageError("Name the issuer with --issuer, or set KNOWLEDGE_OAUTH_ISSUER.")
    session.run(lambda engine: engine.oauth.link_subject(username, known, subject))
    print_message(f"Tokens of {known} for '{subject}' act for {username}.")


@user.command(epilog=format_examples("knowledge user disable ada", "knowledge user disable ada --undo"))
@click.argument("username")
@click.option("--undo", is_flag=True, help="Enable the account again.")
@common_options
@pass_session
def disable(session: CliSession, username: str, undo: bool) -> None:
    """Disable the account of USERNAME; its documents are kept."""
    account = session.run(lambda engine: engine.accounts.disable(username, not undo))
    if session.as_json:
        print_json(account)
    else:
        click.echo(f"{account.username} is {'enabled' if undo else 'disabled'}.")


@user.command(epilog=format_examples("knowledge user remove ada", "knowledge user remove ada --yes"))
@click.argument("username")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@common_options
@pass_session
def remove(session: CliSession, username: str, yes: bool) -> None:
    """Delete the account of USERNAME with its documents, collections and keys."""

    async def work(engine: Engine) -> RemovalResult:
        confirm(f"Delete the account '{username}' with its documents, collections and keys permanently?", yes)
        return await engine.accounts.remove(username)

    removed = session.run(work)
    if session.as_json:
        print_json(removed)
    else:
        documents = pluralize(removed.documents, "document")
        click.echo(f"Deleted the account with {documents}, {format_size(removed.bytes_freed)}.")


def print_sessions(session: CliSession, found: list[BrowserSession]) -> None:
    if session.as_json:
        from knowledge.wire.sessions import SessionsShape

        print_json(SessionsShape.from_sessions(found))
    elif found:
        rows = [
            (str(one.id), format_time(one.last_used_at), format_time(one.expires_at), one.user_agent) for one in found
        ]
        print_table(("id", "last used", "expires", "browser"), rows, right=("id",))
    else:
        print_message("There are no browser sessions.")


def print_tokens(session: CliSession, found: list[OAuthGrant]) -> None:
    if session.as_json:
        from knowledge.wire.oauth import OAuthGrantsShape

        print_json(OAuthGrantsShape(tuple(found)))
    elif found:
        rows = [
            (str(one.id), one.client_name, " ".join(one.scopes), format_time(one.last_used_at or one.created_at),
             format_time(one.expires_at), one.resource)
            for one in found
        ]  # fmt: skip
        print_table(("id", "client", "may", "last used", "expires", "address"), rows, right=("id",))
    else:
        print_message("No client has tokens.")


def read_password(ask: bool, piped: bool) -> str | None:
    if piped:
        return sys.stdin.readline().rstrip("\r\n")
    return str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)) if ask else None


def compute_expiry(days: int | None) -> datetime | None:
    return None if days is None else now() + timedelta(days=days)


def format_flags(account: Account) -> str:
    return ", ".join(word for word, true in (("admin", account.is_admin), ("disabled", account.is_disabled)) if true)


def print_issued_key(session: CliSession, issued: IssuedKey) -> None:
    """Print the key alone to stdout, so that it can be piped, and the message to stderr."""
    if session.as_json:
        from knowledge.wire import IssuedKeyShape

        print_json(IssuedKeyShape.from_issued(issued))
        return
    print_message(f"API key of {issued.username}, shown only once:")
    click.echo(issued.secret)
