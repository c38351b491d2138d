"""Recipes: TOML files that define experiments.

A recipe names the experiment, its options, the methods with their settings and search spaces, and
the paper's numbers. Its notes list choices that the paper does not specify.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from pmvge.errors import InputError, choose, one_line, short
from pmvge.tables import parse_toml

HOME = resources.files("pmvge.experiments") / "recipes"


@dataclass(frozen=True)
class Entry:
    """A method of a recipe: its settings, its search space, and the paper's numbers."""

    label: str
    method: str  # a key of METHODS, or a name that the experiment defines
    settings: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, Any] = field(default_factory=dict)  # {setting: [values]}
    paper: Mapping[str, Any] = field(default_factory=dict)  # {metric: [mean, s.d.]}


@dataclass(frozen=True)
class Recipe:
    """An experiment with its options and methods."""

    name: str
    title: str
    experiment: str  # a key of EXPERIMENTS
    summary: str
    repetitions: int = 1
    seed: int = 0
    trials: int = 0  # of a search, for each method and repetition, on the validation part
    simulated: bool = False  # whether the data are simulated
    options: Mapping[str, Any] = field(default_factory=dict)
    methods: tuple[Entry, ...] = ()
    notes: tuple[str, ...] = ()
    # Settings found by a search, for each repetition: {label: [settings, ...]}.
    tuned: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)

    def fingerprint(self, *more: Any) -> str:
        """Return a hash of the experiment, its seed, and ``more``.

        Titles, summaries and notes are not part of it.
        """
        content = [self.experiment, self.seed, *more]
        text = json.dumps(content, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def entry(self, label: str) -> Entry:
        """Return the method with this label."""
        return next(entry for entry in self.methods if entry.label == label)


FIELDS: dict[str, tuple[type, ...]] = {
    "title": (str,),
    "experiment": (str,),
    "summary": (str,),
    "repetitions": (int,),
    "seed": (int,),
    "trials": (int,),
    "simulated": (bool,),
    "options": (dict,),
    "methods": (list,),
    "notes": (list,),
}
ROW: dict[str, tuple[type, ...]] = {
    "label": (str,),
    "method": (str,),
    "settings": (dict,),
    "search": (dict,),
    "paper": (dict,),
}


def recipe_names() -> list[str]:
    """Return the names of the recipes in the package."""
    files = [Path(file.name) for file in HOME.iterdir()]
    return sorted(path.stem for path in files if path.suffix == ".toml")


def load_recipe(name: str) -> Recipe:
    """Return a recipe of the package with its tuned settings.

    Raise ParameterError if the name is unknown.
    """
    choose("experiment", name, recipe_names())
    recipe = parse(name, (HOME / f"{name}.toml").read_text(encoding="utf-8"))
    tuned = HOME / f"{name}.tuned.json"
    if not tuned.is_file():
        return recipe
    return replace(recipe, tuned=json.loads(tuned.read_text(encoding="utf-8"))["settings"])


def parse(name: str, text: str) -> Recipe:
    """Return a recipe from the text of its file.

    Raise InputError or ParameterError, which name the key that is not valid.
    """
    try:
        content = parse_toml(text)
    except ValueError as error:
        raise InputError(f"recipe {name!r}: not valid TOML: {one_line(error)}") from error
    where = f"recipe {name!r}"
    _check(where, content, FIELDS, needed=("title", "experiment", "summary"))
    rows = []
    for k, row in enumerate(content.get("methods", [])):
        _check(f"{where}: methods[{k}]", row, ROW, needed=("label", "method"))
        for metric, value in row.get("paper", {}).items():
            pair = isinstance(value, list) and len(value) == 2
            if not pair or not all(isinstance(number, int | float) for number in value):
                raise InputError(
                    f"{where}: methods[{k}]: paper.{metric}: expected [mean, s.d.], "
                    f"got {short(value)}"
                )
        if row.get("search") and content.get("trials", 0) < 1:
            raise InputError(
                f"{where}: methods[{k}]: search: expected trials >= 1 in the recipe, "
                f"got {content.get('trials', 0)}"
            )
        for setting, values in row.get("search", {}).items():
            if not isinstance(values, list) or not values:
                raise InputError(
                    f"{where}: methods[{k}]: search.{setting}: expected a list, got {short(values)}"
                )
        # TOML has no null: "none" stands for None.
        settings = {k: None if v == "none" else v for k, v in row.get("settings", {}).items()}
        rows.append(Entry(**{**row, "settings": settings}))
    labels = [row.label for row in rows]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(f"{where}: methods: expected different labels, got {label!r} twice")
    if content.get("repetitions", 1) < 1:
        raise InputError(f"{where}: repetitions: expected at least 1, got {content['repetitions']}")
    notes = tuple(content.get("notes", ()))
    if not all(isinstance(note, str) for note in notes):
        raise InputError(f"{where}: notes: expected a list of strings, got {short(notes)}")
    return Recipe(name=name, **{**content, "methods": tuple(rows), "notes": notes})


def _check(
    where: str, content: Any, fields: Mapping[str, tuple[type, ...]], needed: tuple[str, ...]
) -> None:
    if not isinstance(content, dict):
        raise InputError(f"{where}: expected a table, got {short(content)}")
    for key, value in content.items():
        choose("key", key, fields, where)
        if not isinstance(value, fields[key]) or (
            isinstance(value, bool) != (fields[key] == (bool,))
        ):
            expected = " or ".join(kind.__name__ for kind in fields[key])
            raise InputError(f"{where}: {key}: expected {expected}, got {short(value)}")
    for key in needed:
        if key not in content:
            raise InputError(f"{where}: expected the key {key!r}, got {short(list(content))}")


def model_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of PMvGE from settings of a recipe.

    TOML has no null: recipes write None as "none", which is also the name of no effects. The key
    "training" has settings that are searched together.
    """
    flat = {**settings, **settings.get("training", {})}
    flat.pop("training", None)
    values = {name: None if value == "none" else value for name, value in flat.items()}
    if "effects" in values:
        values["effects"] = values["effects"] or "none"
    return values
