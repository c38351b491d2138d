"""The paper's experiments: recipes, runs that can be resumed, pages of results."""

from pmvge.experiments.base import Experiment, Job, Table
from pmvge.experiments.methods import METHODS, TABLE, Card, card, cards
from pmvge.experiments.recipe import Recipe, load_recipe, recipe_names
from pmvge.experiments.report import SIMULATED, Finding, markdown, read_finding, write_findings
from pmvge.experiments.runs import ORDER, make, missing_jobs, run, write_results

__all__ = [
    "METHODS",
    "ORDER",
    "SIMULATED",
    "TABLE",
    "Card",
    "Experiment",
    "Finding",
    "Job",
    "Recipe",
    "Table",
    "card",
    "cards",
    "load_recipe",
    "make",
    "markdown",
    "missing_jobs",
    "read_finding",
    "recipe_names",
    "run",
    "write_findings",
    "write_results",
]
