"""`python -m knowledge` and the command `knowledge`."""

import gc

GC_THRESHOLD_OBJECTS, GC_THRESHOLD_ROUNDS = 50_000, 50
"""So many new objects are looked through for garbage at once, and so often before those that stayed are looked through.
With the usual 700 and 10 a start looks again and again through all that it imports, none of which is garbage."""


def main() -> None:
    gc.set_threshold(GC_THRESHOLD_OBJECTS, GC_THRESHOLD_ROUNDS)
    from knowledge.surfaces.cli import cli

    cli(prog_name="knowledge")


if __name__ == "__main__":
    main()
