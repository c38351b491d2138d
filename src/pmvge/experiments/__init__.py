"""The paper's experiments: recipes, runs that can be resumed, and pages of results."""

from pmvge.experiments.base import Experiment, Job, Table
from pmvge.experiments.methods import METHODS, TABLE, Card, card, cards, register_method
from pmvge.experiments.recipe import Recipe, load_recipe, recipe_names
from pmvge.experiments.results_page import (
    SIMULATED,
    ExperimentReport,
    read_experiment_report,
    to_markdown,
    write_experiment_reports,
)
from pmvge.experiments.runs import ORDER, make, missing_jobs, run, write_results

__all__ = [
    "METHODS",
    "ORDER",
    "SIMULATED",
    "TABLE",
    "Card",
    "Experiment",
    "ExperimentReport",
    "Job",
    "Recipe",
    "Table",
    "card",
    "cards",
    "load_recipe",
    "make",
    "missing_jobs",
    "read_experiment_report",
    "recipe_names",
    "register_method",
    "run",
    "to_markdown",
    "write_experiment_reports",
    "write_results",
]
