"""Run the command line: python -m bushel."""

from bushel.cli import main

main()
