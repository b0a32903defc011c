"""`python -m mgefn table`: which backend computes which primitive."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from mgefn.backends import table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 1 where the table has a hole that nobody explains."""
    parser = argparse.ArgumentParser(prog="python -m mgefn", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("table", help="print primitive x backend, with kinds of rows and reasons")
    parser.parse_args(arguments)
    print(table.text())
    silent = [p.name for p, cells in table.rows() if any(c.kind == "?" for c in cells)]
    if silent:
        print(f"\nNeither a row nor a reason: {', '.join(silent)}")
    return 1 if silent else 0


if __name__ == "__main__":
    raise SystemExit(main())
