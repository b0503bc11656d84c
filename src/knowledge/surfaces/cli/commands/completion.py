"""`knowledge completion`: prints the completion script of a shell."""

from __future__ import annotations

import click

from knowledge.surfaces.cli.common_options import format_examples

SHELLS = ("bash", "zsh", "fish")
COMPLETE_VARIABLE = "_KNOWLEDGE_COMPLETE"


@click.command(
    epilog=format_examples(
        "echo 'source <(knowledge completion bash)' >> ~/.bashrc",
        "echo 'source <(knowledge completion zsh)' >> ~/.zshrc",
        "knowledge completion fish > ~/.config/fish/completions/knowledge.fish",
    )
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"The shell {shell} is not supported.")
    click.echo(kind(context.find_root().command, {}, "knowledge", COMPLETE_VARIABLE).source())
