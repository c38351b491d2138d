"""The digits graph against the scans in scikit-learn."""

import numpy as np
import pytest
from sklearn.datasets import load_digits as load_scans

from pmvge.datasets import NAMES, load_digits

SCAN_VIEWS = ("image", "spectrum", "profile")


@pytest.fixture(scope="module")
def parts():
    return load_digits()


@pytest.fixture(scope="module", params=[0, 1], ids=["train", "test"])
def part(request, parts):
    return parts[request.param]


@pytest.fixture(scope="module")
def scans():
    pixels, labels = load_scans(return_X_y=True)
    return pixels, labels


def test_the_two_graphs_partition_the_scans(parts) -> None:
    train, test = (part.graph.ids["image"].tolist() for part in parts)
    assert sorted(train + test) == list(range(1797))
    assert len(test) == round(1797 / 4)


def test_other_fractions_and_seeds() -> None:
    train, test = load_digits(0.1, seed=5)
    assert (len(train.labels), len(test.labels)) == (1617, 180)
    assert test.graph.ids["image"].tolist() != load_digits(0.1)[1].graph.ids["image"].tolist()
    again = load_digits(0.1, seed=5)[1]
    assert test.graph.ids["image"].tolist() == again.graph.ids["image"].tolist()


def test_rows_of_the_scan_views_have_the_ids_of_scans(part, scans) -> None:
    pixels, labels = scans
    rows = part.graph.ids["image"]
    for view in SCAN_VIEWS:
        assert np.array_equal(part.graph.ids[view], rows)
    assert part.graph.ids["name"].tolist() == list(NAMES)
    assert np.array_equal(part.labels, labels[rows])
    assert np.array_equal(part.graph.views["image"], pixels[rows])
    assert part.graph.views["name"] is None


def test_views_have_different_dimensions(part) -> None:
    shapes = {view: part.graph.input_shape(view) for view in part.graph.view_names}
    assert shapes == {"image": (64,), "spectrum": (40,), "profile": (16,), "name": None}


def test_profiles_are_sums_of_columns_and_rows(part, scans) -> None:
    square = scans[0][part.graph.ids["image"]].reshape(-1, 8, 8)
    profile = part.graph.views["profile"]
    for k in range(8):
        assert np.array_equal(profile[:, k], square[:, :, k].sum(1))
        assert np.array_equal(profile[:, 8 + k], square[:, k, :].sum(1))


def test_spectra_are_magnitudes_of_the_fourier_transform(part, scans) -> None:
    square = scans[0][part.graph.ids["image"]].reshape(-1, 8, 8)
    waves = np.exp(-2j * np.pi * np.outer(np.arange(8), np.arange(8)) / 8)
    full = np.abs(waves @ square @ waves)
    spectrum = part.graph.views["spectrum"].reshape(-1, 8, 5)
    np.testing.assert_allclose(spectrum, full[:, :, :5], rtol=1e-4, atol=1e-3)


def test_observed_pairs(part) -> None:
    expected = {("image", "name"), ("image", "spectrum"), ("spectrum", "profile")}
    assert set(part.graph.links) == expected


def squared_distances(part) -> np.ndarray:
    """Return the squared distances of pixels, which are integers, so exact."""
    X = part.graph.views["image"].astype(np.int64)
    norms = (X**2).sum(1)
    return norms[:, None] + norms[None, :] - 2 * X @ X.T


def test_an_image_is_linked_to_the_names_of_its_five_nearest_scans(part) -> None:
    votes = part.graph.links["image", "name"].matrix().toarray()
    assert np.all(votes.sum(1) == 5)
    assert np.all(votes[np.arange(len(votes)), part.labels] >= 1)
    for i, distance in enumerate(squared_distances(part)):
        order = np.argsort(distance, kind="stable")
        if distance[order[4]] < distance[order[5]]:  # else the fifth nearest is not unique
            expected = np.bincount(part.labels[order[:5]], minlength=10)
            assert np.array_equal(votes[i], expected)


@pytest.mark.parametrize("pair", [("image", "spectrum"), ("spectrum", "profile")])
def test_scans_of_one_digit_with_similar_pixels_are_linked(part, pair) -> None:
    linked = part.graph.links[pair].matrix().toarray()
    distance = squared_distances(part)
    same_digit = part.labels[:, None] == part.labels[None, :]
    clear = distance != 22**2  # at the radius rounding decides
    assert np.array_equal(linked[clear], (same_digit & (distance < 22**2))[clear])
    assert np.all(np.diag(linked) == 1)
    assert linked.sum() > 2 * len(linked)
