"""`python -m sage`."""

from sage.cli import main

main()
