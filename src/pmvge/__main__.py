"""``python -m pmvge`` and the command ``pmvge``."""

import sys


def main() -> None:
    """Load the commands, which takes seconds in which Ctrl-C should be quiet too, and run one."""
    try:
        from pmvge.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
