"""Predict which kinases an inhibitor binds, if the inhibitor and the kinase are both new."""

import csv

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from pmvge import MultiViewGraph, PMvGE

drugs, kinases = np.load("drugs.npz"), np.load("kinases.npz")
with open("bindings.csv", newline="") as stream:
    bindings = [(row["drug_id"], row["kinase_id"]) for row in csv.DictReader(stream)]
row_of = {name: row for row, name in enumerate(drugs["drug_id"])}
column_of = {name: column for column, name in enumerate(kinases["kinase_id"])}
rows = [row_of[drug] for drug, _ in bindings]
columns = [column_of[kinase] for _, kinase in bindings]

graph = MultiViewGraph(
    views={"drug": drugs["similarity"], "kinase": kinases["similarity"]},
    links={("drug", "kinase"): (rows, columns)},
    ids={"drug": drugs["drug_id"], "kinase": kinases["kinase_id"]},
)
print(graph)

model = PMvGE(random_state=0, progress=False).fit(graph)
new_drugs, new_kinases = np.load("later/new_drugs.npz"), np.load("later/new_kinases.npz")
expected = model.intensity("drug", new_drugs["similarity"], "kinase", new_kinases["similarity"])
print(expected.shape, "pairs of a new drug and a new kinase")

W = np.zeros((len(drugs["drug_id"]), len(kinases["kinase_id"])))
W[rows, columns] = 1
(a, U), (b, V) = (np.linalg.eigh(side["similarity"].astype(float)) for side in (drugs, kinases))
a, b = np.maximum(a, 0), np.maximum(b, 0)
ridge = U @ ((U.T @ W @ V) / (np.outer(a, b) + 30)) @ V.T
ridge = new_drugs["similarity"] @ ridge @ new_kinases["similarity"].T

nearest_drug = new_drugs["similarity"].argmax(axis=1)
nearest_kinase = new_kinases["similarity"].argmax(axis=1)
neighbours = W[np.ix_(nearest_drug, nearest_kinase)]

truth = np.zeros(expected.shape)
with open("later/new_bindings.csv", newline="") as stream:
    for row in csv.DictReader(stream):
        at = np.flatnonzero(new_drugs["drug_id"] == row["drug_id"])
        truth[at, new_kinases["kinase_id"] == row["kinase_id"]] = 1
for name, score in (("pmvge", expected), ("Kronecker ridge", ridge), ("neighbours", neighbours)):
    precision = average_precision_score(truth.ravel(), score.ravel())
    area = roc_auc_score(truth.ravel(), score.ravel())
    print(f"{name:16} AP {precision:.3f}   AUC {area:.3f}")

best = np.argsort(-expected, axis=None)[:20]
print(f"of the 20 pairs with the largest expected weights, {truth.ravel()[best].sum():.0f} bind;")
print(f"of 20 random pairs, {20 * truth.mean():.1f} would")

model.save("model")
