"""Handwritten digits with tags as people give them: several for an image, some forgotten."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from pmvge.datasets import NAMES
from pmvge.examples.csv_files import write_csv

TAGS = {
    "even": (0, 2, 4, 6, 8),
    "odd": (1, 3, 5, 7, 9),
    "has a loop": (0, 6, 8, 9),
    "two loops": (8,),
    "round": (0, 3, 6, 8, 9),
    "straight lines": (1, 4, 7),
    "open to the left": (2, 3, 5, 7),
    **{name: (digit,) for digit, name in enumerate(NAMES)},
}
GIVEN = 0.4  # the chance that someone gives a tag that fits
WRONG = 0.01  # and one that does not


def write_image_tag(folder: Path) -> None:
    """Write images and their tags; a quarter of the images and all their tags go to ``later``."""
    pixels, digits = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    fits = np.array([[digit in shown for shown in TAGS.values()] for digit in digits])
    given = rng.random(fits.shape) < np.where(fits, GIVEN, WRONG)
    new = rng.permutation(len(digits)) < len(digits) // 4
    names = np.array([f"scan-{row:04d}" for row in range(len(digits))])
    tags = list(TAGS)
    (folder / "later").mkdir(parents=True, exist_ok=True)
    for path, rows in (("images.npz", ~new), ("later/new_images.npz", new)):
        np.savez(folder / path, image_id=names[rows], pixels=pixels[rows].astype(np.float32))
    for path, links in (
        ("image_tags.csv", given & ~new[:, None]),
        ("later/new_image_tags.csv", fits & new[:, None]),
    ):
        pairs = ((names[row], tags[tag]) for row, tag in zip(*np.nonzero(links), strict=True))
        write_csv(folder / path, ("image_id", "tag"), pairs)
