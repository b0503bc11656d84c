"""`python -m knowledge` and the command `knowledge`."""


def main() -> None:
    from knowledge.surfaces.cli import cli

    cli(prog_name="knowledge")


if __name__ == "__main__":
    main()
