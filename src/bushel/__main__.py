"""Run the command line: python -m bushel."""

import sys
from pathlib import Path


def _main() -> None:
    if sys.path and sys.path[0] in ("", str(Path.cwd())):  # the working folder may be data, and data is not code
        del sys.path[0]
    from bushel.cli import main

    main()


_main()
