"""Draw the pictures of similarities and families in docs/concepts.md: `python docs/site/kinds.py`.

A similarity is a map of g between a fixed vector (the dot) and all vectors of the plane, from low
(light) to high (dark). A family is the probability of the weights 0, 1, ... of expected weight 2;
of the divergence "beta", the weight that a link of expected weight mu has in the fit.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from pmvge.likelihoods import FAMILIES, build_family
from pmvge.similarities import SIMILARITIES, build_similarity

IMAGES = Path(__file__).parents[1] / "images"
WIDTH, HEIGHT, CELL = 120, 96, 4
COLORS = ["#f7fbff", "#deebf7", "#c6dbef", "#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#084594"]
POINT = (0.6, 0.4)
PAIR = ("a", "b")
MEAN, LARGEST = 2.0, 9


def svg(content: list[str]) -> str:
    """Return a picture of these elements."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}">'
    return "\n".join([head, *content, "</svg>"]) + "\n"


def similarity_map(name: str) -> str:
    """Return g of the fixed vector and a grid of vectors, in eight levels of equal size."""
    columns, rows = WIDTH // CELL, HEIGHT // CELL
    x, y = np.meshgrid(np.linspace(-1.5, 1.5, columns), np.linspace(1.2, -1.2, rows))
    similarity = build_similarity(name, 2)
    with torch.no_grad():
        if name == "weighted":
            similarity.theta.copy_(torch.tensor([0.1, -0.04]))
        f = torch.from_numpy(np.stack([x.ravel(), y.ravel()], 1)).float()
        query = similarity.query(similarity(torch.tensor([POINT])))
        g = similarity.outer(query @ similarity.candidate(similarity(f)).T)[0]
        if name == "shifted":  # the shift of a candidate: here, larger near the middle
            g = g + 1.5 * torch.exp(-2 * f.square().sum(1))
    ranks = g.argsort().argsort().double() / len(g)
    levels = (ranks * len(COLORS)).long().view(rows, columns).tolist()
    parts = []
    for row, line in enumerate(levels):
        start = 0
        for column in range(1, columns + 1):
            if column == columns or line[column] != line[start]:
                parts.append(
                    f'<rect x="{start * CELL}" y="{row * CELL}" width="{(column - start) * CELL}" '
                    f'height="{CELL}" fill="{COLORS[line[start]]}"/>'
                )
                start = column
    at = ((POINT[0] + 1.5) / 3 * WIDTH, (1.2 - POINT[1]) / 2.4 * HEIGHT)
    parts.append(f'<circle cx="{at[0]:.0f}" cy="{at[1]:.0f}" r="4" fill="#d62728"/>')
    return svg(parts)


def bars(heights: list[float]) -> str:
    """Return a bar for each number, scaled to the largest."""
    step = WIDTH / len(heights)
    top = max(heights)
    return svg(
        [
            f'<rect x="{n * step + 1:.1f}" y="{HEIGHT - 4 - 84 * h / top:.1f}" '
            f'width="{step - 2:.1f}" height="{84 * h / top:.1f}" fill="{COLORS[5]}"/>'
            for n, h in enumerate(heights)
        ]
        + [f'<line x1="0" y1="{HEIGHT - 4}" x2="{WIDTH}" y2="{HEIGHT - 4}" stroke="#444"/>']
    )


def family_bars(name: str) -> str:
    """Return the probabilities of weights, or of beta how much a link counts."""
    family = build_family(name, [PAIR]).double()
    eta = torch.tensor([math.log(MEAN)], dtype=torch.float64)
    with torch.no_grad():
        if name == "negative_binomial":
            family.theta.fill_(math.log(0.5) / 10)
        if name == "beta":  # how much a link counts, if it was expected to weigh 0.02, 0.06, ...
            return bars([float(mu**family.beta) for mu in 0.02 * 3.0 ** np.arange(6)])
        weights = range(1, 2 if name in ("bernoulli", "logistic") else LARGEST)
        values = [float(family.zero(eta, PAIR))]
        for w in weights:
            x = torch.tensor([float(w)], dtype=torch.float64)
            values.append(float(family.at_link(x, eta, PAIR) + family.log_constant(x, PAIR)))
    return bars([math.exp(value) for value in values])


def main() -> None:
    """Write all pictures."""
    for name in SIMILARITIES:
        (IMAGES / f"similarity-{name}.svg").write_text(similarity_map(name))
    for name in FAMILIES:
        (IMAGES / f"family-{name}.svg").write_text(family_bars(name))


if __name__ == "__main__":
    main()
