"""Entry point of `python -m knowledge` and of the command `knowledge`."""

import gc

from knowledge.malloc import limit_arenas

# Python's defaults (700 and 10) run many collections over imported modules, none of which is garbage.
GC_THRESHOLD_OBJECTS, GC_THRESHOLD_ROUNDS = 50_000, 50


def main() -> None:
    gc.set_threshold(GC_THRESHOLD_OBJECTS, GC_THRESHOLD_ROUNDS)
    limit_arenas()
    from knowledge.surfaces.cli import cli

    cli(prog_name="knowledge")


if __name__ == "__main__":
    main()
