"""The command line, ``dpnb`` and ``python -m dpnb``."""

from __future__ import annotations

import sys

from dpnb.interrupt import end_at_signals


def main() -> int:
    """Run a command, and return its exit code."""
    if sys.argv[1:2] == ["serve"]:
        # before the rest is imported, which takes a second
        end_at_signals()
    from dpnb.cli import main

    return main()


if __name__ == "__main__":
    sys.exit(main())
