"""Write the encoders of a model as ONNX graphs, with a recipe for raw columns."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pmvge import storage
from pmvge.errors import InputError, one_line
from pmvge.export.column_recipe import column_recipe
from pmvge.export.extras import require
from pmvge.export.files import write_bytes, write_json
from pmvge.graph import pair_key
from pmvge.model import EncoderModule, PMvGE
from pmvge.version import __version__

FORMAT = 1  # of recipe.json
RECIPE = "recipe.json"
TOLERANCE = 1e-5  # of onnxruntime against torch, relative to values above 1
ROWS = 5  # that the graphs are checked with; the example that is traced has 2
DTYPES = {"float32": torch.float32, "int64": torch.int64}  # int64: tokens of a user-defined module


def export_onnx(model: PMvGE, folder: str | Path) -> list[Path]:
    """Write one ONNX graph for each view with features, and ``recipe.json``; return the paths.

    A graph maps rows of features (n, ...) of new entities, before input scaling, to their vectors
    and, for each linked view, to query and candidate vectors (:meth:`PMvGE.vectors
    <pmvge.PMvGE.vectors>`). Sparse views take dense rows of full width. Each graph is run with
    onnxruntime and compared with torch before it is kept.

    ``recipe.json`` says how raw columns become features, which graph and outputs a view has, and
    what turns inner products into expected weights. The vectors of known entities, with their
    effects, are written by :func:`export_parquet`.

    Raise InputError if the extra ``export`` is not installed, if no view has features, if a
    user-defined module cannot be exported, or if onnxruntime computes other vectors; raise
    StorageError if a file cannot be written.
    """
    for name in ("onnx", "onnxscript", "onnxruntime"):
        require(name, "the export to ONNX")
    folder = Path(folder)
    facts = model.describe()
    encoded = [view for view, entry in facts["views"].items() if entry["features"] != "none"]
    if not encoded:
        raise InputError(
            "export to ONNX: expected a view with features, got none: there is no encoder; export "
            "the vectors to Parquet instead"
        )
    storage.make_folder(folder, "export")
    views: dict[str, Any] = dict.fromkeys(facts["views"])
    paths = []
    for view in encoded:
        module = model.encoder_module(view)
        file = f"{storage.file_name(view)}.onnx"
        content, dtype = _export(module)
        paths.append(write_bytes(folder / file, content))
        sides = iter(module.output_names[1:])
        views[view] = {
            "encoder": file,
            "input": {"name": "x", "type": dtype, "shape": list(module.row_shape)},
            "outputs": {"vector": "vector", "query": {}, "candidate": {}},
            "columns": column_recipe(model.tables_, view),
        }
        for other in module.partners:
            views[view]["outputs"]["query"][other] = next(sides)
            views[view]["outputs"]["candidate"][other] = next(sides)
    recipe = {
        "format": FORMAT,
        "pmvge": __version__,
        "n_components": facts["n_components"],
        "similarity": facts["similarity"],
        "family": facts["family"],
        "views": views,
        "pairs": _pairs(model),
    }
    return [*paths, write_json(folder / RECIPE, recipe)]


def _pairs(model: PMvGE) -> list[dict[str, Any]]:
    """Return log alpha of each view pair, and the factors of new entities, as logarithms.

    The expected weight of a Poisson link is exp(log_alpha + log_factor + g).
    """
    calibrated = model.describe()["calibrated"]
    return [
        {
            "pair": [a, b],
            "log_alpha": value if np.isfinite(value) else None,
            "log_factors": {
                kind: None if entry is None else float(np.log(entry["factor"]))
                for kind, entry in calibrated[pair_key((a, b))].items()
            },
        }
        for (a, b), value in model.log_alpha_.items()
    ]


def _export(module: EncoderModule) -> tuple[bytes, str]:
    """Return the ONNX graph of an encoder as bytes, and the name of the type of its input."""
    where = f"view {module.view!r}: export to ONNX"
    dtype = _input_type(module, where)
    x = torch.zeros((2, *module.row_shape), dtype=DTYPES[dtype])
    try:
        with _quiet(), torch.no_grad():
            program = torch.onnx.export(
                module,
                (x,),
                input_names=["x"],
                output_names=list(module.output_names),
                dynamic_shapes={"x": {0: torch.export.Dim("rows")}},
                dynamo=True,
                external_data=False,
                verbose=False,
            )
    except Exception as error:  # torch raises exceptions of many types
        raise InputError(
            f"{where}: torch cannot export its encoder: {one_line(error, 300)}; write the forward "
            "method with torch operations only, for any number of rows"
        ) from error
    assert program is not None
    content = _without_traces(program.model_proto).SerializeToString()
    _check(module, content, DTYPES[dtype], where)
    return content, dtype


def _without_traces(graph: Any) -> Any:
    """Return an ONNX model without the stack traces of its nodes, which have paths of files."""
    for part in (graph.graph, *graph.graph.node, *graph.graph.value_info, *graph.graph.input):
        part.ClearField("metadata_props")
    return graph


def _input_type(module: EncoderModule, where: str) -> str:
    """Return the first type of rows that the encoder takes."""
    failure: Exception | None = None
    for name, dtype in DTYPES.items():
        try:
            with torch.no_grad():
                module(torch.zeros((2, *module.row_shape), dtype=dtype))
            return name
        except Exception as error:  # of a user-defined module
            failure = failure or error
    raise InputError(f"{where}: its encoder failed on rows of zeros: {one_line(failure)}")


def _check(module: EncoderModule, content: bytes, dtype: torch.dtype, where: str) -> None:
    """Raise InputError if onnxruntime and torch differ on random rows."""
    runtime = require("onnxruntime", "the export to ONNX")
    generator = torch.Generator().manual_seed(0)
    x = (
        torch.randn((ROWS, *module.row_shape), generator=generator)
        .to(dtype)
        .clamp_min(-torch.inf if dtype.is_floating_point else 0)
    )
    with torch.no_grad():
        expected = [y.numpy() for y in module(x)]
    try:
        session = runtime.InferenceSession(content)
        found = session.run(list(module.output_names), {"x": x.numpy()})
    except Exception as error:  # onnxruntime has many types, too
        raise InputError(f"{where}: onnxruntime cannot run it: {one_line(error)}") from error
    for name, wanted, got in zip(module.output_names, expected, found, strict=True):
        difference = float(np.max(np.abs(wanted - got) / np.maximum(1, np.abs(wanted)), initial=0))
        if not difference <= TOLERANCE:
            raise InputError(
                f"{where}: output {name!r}: expected what torch computes, got a difference of "
                f"{difference:.2g}; does the encoder draw random numbers, or depend on other rows?"
            )


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter: it warns about its own parts, and logs to the error stream."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
