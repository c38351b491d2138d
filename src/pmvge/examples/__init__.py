"""Examples with real or simulated data, which ``pmvge examples`` writes into folders."""

from pmvge.examples.films import write_films
from pmvge.examples.registry import EXAMPLES, Example
from pmvge.examples.writing import check_empty, write_example

__all__ = ["EXAMPLES", "Example", "check_empty", "write_example", "write_films"]
