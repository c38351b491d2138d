"""Run the command line: ``python -m pmvge`` and the command ``pmvge``."""

import sys


def main() -> None:
    """Import and run the command line; Ctrl-C exits with code 130, without a traceback."""
    try:
        from pmvge.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
