"""Large ids that a file stores as floating-point numbers have lost digits."""

import json

import numpy as np
import openpyxl
import pandas as pd
import pytest

from pmvge.errors import TableError
from pmvge.tables import LinkTable, Project, ViewTable, read_rows, read_tables, sketch_project

LARGE = 2**53 + 2 * np.arange(20)  # doubles, each of them
LOST = "are floating-point numbers so large that digits are lost; store ids as integers or texts"


def project(papers, wrote) -> Project:
    views = {"papers": ViewTable(papers, "pid", {"year": "numeric"}), "author": ViewTable()}
    return Project(views, {("papers", "author"): LinkTable(wrote, ("pid", "author"))})


def tables(ids) -> tuple[pd.DataFrame, pd.DataFrame]:
    papers = pd.DataFrame({"pid": ids, "year": np.arange(1990, 2010)})
    wrote = pd.DataFrame({"pid": np.tile(ids, 3), "author": [f"a{k % 7}" for k in range(60)]})
    return papers, wrote


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rounded_ids_are_an_error(dtype) -> None:
    papers, wrote = tables(LARGE)
    rounded = papers.astype({"pid": dtype})
    with pytest.raises(TableError, match=rf"view papers .* id column 'pid': \d+ ids.* {LOST}"):
        read_tables(project(rounded, wrote))
    with pytest.raises(TableError, match=rf"links papers,author .* 'pid': \d+ ids.* {LOST}"):
        read_tables(project(papers, wrote.astype({"pid": dtype})))
    read = read_tables(project(papers, wrote))
    assert read.graph.ids["papers"].tolist() == LARGE.tolist()
    with pytest.raises(TableError, match=rf"id column 'pid': \d+ ids.* {LOST}"):
        list(read_rows(read.graph.tables, "papers", rounded))


def test_exact_numbers_are_ids() -> None:
    papers, wrote = tables(np.arange(20.0) + 2**40)
    assert read_tables(project(papers, wrote)).graph.ids["papers"][0] == 2**40


def test_integers_beyond_64_bits_in_json(tmp_path) -> None:
    papers, wrote = ([*frame.to_dict("records")] for frame in tables(np.arange(20)))
    for row in (*papers, *wrote):
        row["pid"] += 10**22
    (tmp_path / "papers.json").write_text(json.dumps(papers))
    (tmp_path / "wrote.json").write_text(json.dumps(wrote))
    with pytest.raises(
        TableError, match=rf"no link table found.*papers.json: column 'pid'.*{LOST}"
    ):
        sketch_project(tmp_path)


def test_init_names_rounded_ids_of_a_workbook(tmp_path) -> None:
    papers, wrote = tables(LARGE)
    book = openpyxl.Workbook()
    for row in (list(papers), *papers.to_numpy().tolist()):
        book.active.append(row)
    book.save(tmp_path / "papers.xlsx")
    wrote.to_csv(tmp_path / "wrote.csv", index=False)
    reason = sketch_project(tmp_path).skipped["papers.xlsx"]
    assert f"column 'pid': numbers up to {LARGE[-1]} {LOST}" in reason
