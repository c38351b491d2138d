"""The command line, one file per command."""

from pmvge.cli.app import main

__all__ = ["main"]
