"""The examples by name: where their data come from, and what to run in their folders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pmvge.examples.drug_target import write_drug_target
from pmvge.examples.films import write_films
from pmvge.examples.image_tag import write_image_tag
from pmvge.examples.microbes import write_microbes
from pmvge.examples.papers import write_papers
from pmvge.examples.recommender import write_recommender

SCRIPTS = Path(__file__).parent / "scripts"


@dataclass(frozen=True)
class Example:
    """An example: its data, its script, and commands to run in its folder.

    ``dataset`` is the name of the data set that its data come from; None: they are simulated.
    ``write`` writes the data to a folder. ``has_size``: it takes a number of rows, too.
    """

    name: str
    summary: str
    write: Callable[..., None]
    dataset: str | None
    commands: tuple[str, ...]
    has_size: bool = False

    @property
    def script(self) -> Path | None:
        """Return the Python script of the example, or None if it has none."""
        path = SCRIPTS / f"{self.name.replace('-', '_')}.py"
        return path if path.is_file() else None


EXAMPLES = {
    example.name: example
    for example in (
        Example(
            "films",
            "simulated users, films, genres and ratings: the practice tables of the quickstart",
            write_films,
            None,
            (
                "pmvge evaluate model --links later/held_out.csv --pair users,films",
                "pmvge search model --view users --rows later/new_users.csv --among films -k 5",
            ),
            has_size=True,
        ),
        Example(
            "recommender",
            "films for users, known and new (MovieLens 100k)",
            write_recommender,
            "movielens",
            (
                "pmvge evaluate model --links later/held_out.csv",
                "pmvge search model --view users --id 196 --among films -k 5 --exclude-known",
            ),
        ),
        Example(
            "drug-target",
            "which kinases a new inhibitor binds, from similarities (Davis)",
            write_drug_target,
            "bipartite",
            (
                "pmvge search model --view drugs --rows later/new_drugs.npz --among kinases -k 5",
            ),
        ),
        Example(
            "image-tag",
            "images by tag and tags by image, from incomplete tags (handwritten digits)",
            write_image_tag,
            "digits",
            (
                "pmvge search model --view images --rows later/new_images.npz --among tag -k 3",
                "pmvge search model --view tag --id 'two loops' --among images -k 5",
            ),
        ),
        Example(
            "papers",
            "what a new paper may cite, from its words (Cora)",
            write_papers,
            "cora",
            (
                "pmvge search model --view papers --rows later/new_papers.csv --among papers -k 5",
            ),
        ),
        Example(
            "microbes",
            "which metabolites go with a microbe (cystic fibrosis; microbe-010 is Pseudomonas)",
            write_microbes,
            "microbes",
            (
                "pmvge search model --view microbes --id microbe-010 --among metabolites -k 10 "
                "--by similarity",
            ),
        ),
    )
}  # fmt: skip
