"""Find the metabolites that go with a microbe, from samples in which both were measured."""

import csv

import numpy as np
from scipy.stats import spearmanr

from pmvge import PMvGE
from pmvge.tables import LinkTable, Project, ViewTable, read_tables

views = {
    "microbes": ViewTable("microbes.csv", id="microbe_id", features={}),
    "metabolites": ViewTable("metabolites.csv", id="metabolite_id", features={}),
    "samples": ViewTable(),
}
links = {
    ("samples", "microbes"): LinkTable(
        "sample_microbes.csv", ("sample_id", "microbe_id"), weight="percent"
    ),
    ("samples", "metabolites"): LinkTable(
        "sample_metabolites.csv", ("sample_id", "metabolite_id"), weight="percent"
    ),
}
graph = read_tables(Project(views, links)).graph
print(graph)

model = PMvGE(n_components=32, random_state=0, progress=False).fit(graph)

with open("microbes.csv", newline="") as stream:
    sequences = {row["microbe_id"]: row["sequence"] for row in csv.DictReader(stream)}
start = "TACGAAGGGTGCAAGCGTTAATCGGAATTACTGGGCGTAAAGCGCGCGTAGGTGGTTCAGCAAG"
(pseudomonas,) = (name for name, text in sequences.items() if text.startswith(start))

with open("metabolites.csv", newline="") as stream:
    masses = {row["metabolite_id"]: float(row["mass"]) for row in csv.DictReader(stream)}
MADE_BY_PSEUDOMONAS = {  # mass of the protonated molecule
    "HHQ": 244.1696,
    "HQNO": 260.1645,
    "NQNO": 288.1958,
    "pyocyanin": 211.0866,
    "pyochelin": 325.0675,
    "rhamnolipid, one sugar": 505.3371,
    "rhamnolipid, two sugars": 651.3950,
}

best, similarity = model.search(
    "microbes", ids=[pseudomonas], among="metabolites", k=len(masses), by="similarity"
)
rank = {name: place for place, name in enumerate(best[0], 1)}

microbe = model.ids_["microbes"].tolist().index(pseudomonas)
x = graph.links["samples", "microbes"].matrix().toarray()[:, microbe]
Y = graph.links["samples", "metabolites"].matrix().toarray()
correlation = np.array([spearmanr(x, y).statistic for y in Y.T])
by_correlation = model.ids_["metabolites"][np.argsort(-correlation)]
rank_by_correlation = {name: place for place, name in enumerate(by_correlation, 1)}

print(f"rank among {len(masses)} metabolites:  pmvge  correlation")
for title, mass in MADE_BY_PSEUDOMONAS.items():
    for name, found in masses.items():
        if abs(found - mass) < 0.005:
            print(f"{title:32} {rank[name]:5}  {rank_by_correlation[name]:11}")

model.save("model")
