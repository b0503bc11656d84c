"""`python -m knowledge` and the command `knowledge`."""

import gc

YOUNG = 50_000
"""So many new objects are looked through for garbage at once. The usual 700 would have a start look ten times over."""


def main() -> None:
    gc.set_threshold(YOUNG)
    from knowledge.surfaces.cli import cli

    cli(prog_name="knowledge")


if __name__ == "__main__":
    main()
