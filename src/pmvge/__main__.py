"""``python -m pmvge``."""

from pmvge.cli import main

if __name__ == "__main__":
    main()
