"""The source must not run what it reads or fetch what it does not check, tested by its syntax.

Related tests: SQL injection in tables/sources/, hostile names in model/test_attacks.py and (in a
browser) report/test_attacks.py, archives in datasets/test_unpacking.py and test_bombs.py, forged
models in model/test_forged_folders.py, downloads in datasets/test_downloads.py.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pmvge

SOURCE = Path(pmvge.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

# -- functions that can run or fetch data ---------------------------------------------------

MODULES = {
    *("pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"),
    *("yaml", "ruamel", "requests", "httpx", "urllib3", "ftplib", "telnetlib", "xmlrpc", "imp"),
}
CALLS = {
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen", "tempfile.mktemp"),
    *("torch.load", "torch.save", "torch.jit.load", "torch.package", "torch.hub.load"),
    *("subprocess.getoutput", "subprocess.getstatusoutput", "runpy.run_path", "runpy.run_module"),
    *("shutil.unpack_archive", "ssl._create_unverified_context", "numpy.fromregex"),
    *("urllib.request.urlopen", "urllib.request.urlretrieve"),  # only download() opens URLs
}
METHODS = {
    *("extractall", "extract", "read_pickle", "to_pickle", "load_extension", "install_extension"),
    *("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list"),
}
KEYWORDS = {"allow_pickle", "trust_remote_code", "weights_only"}
NEVER = {("shell", True), ("verify", False), ("check_hostname", False)}


def offences(source: str) -> list[str]:
    """Return the uses in a source of the names above, under any import alias."""
    tree = ast.parse(source)
    known: dict[str, str] = {}
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known |= {alias.asname: alias.name for alias in node.names if alias.asname}
            found += [a.name for a in node.names if a.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            known |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
            found += [node.module] if node.module.split(".")[0] in MODULES else []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += [node.value] if "http://" in node.value else []
        elif isinstance(node, ast.Name | ast.Attribute):
            name, dot, rest = ast.unparse(node).partition(".")
            full = known.get(name, name) + dot + rest
            found += [full] if full in CALLS or full.rpartition(".")[2] == "CERT_NONE" else []
            found += [full] if isinstance(node, ast.Attribute) and node.attr in METHODS else []
        elif isinstance(node, ast.keyword):
            value = node.value.value if isinstance(node.value, ast.Constant) else None
            found += [str(node.arg)] if node.arg in KEYWORDS or (node.arg, value) in NEVER else []
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_source_file_uses_unsafe_functions(path: Path) -> None:
    assert offences(path.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from joblib import load",
        "import marshal as m",
        "import yaml",
        "import requests",
        "eval(text)",
        "run = exec",
        "compile(text, 'x', 'exec')",
        "import torch\ntorch.load(path)",
        "import torch as t\nt.load(path)",
        "from torch import load\nload(path)",
        "from torch import load as read\nread(path)",
        "import numpy as np\nnp.load(path, allow_pickle=True)",
        "import numpy as np\nnp.load(path, allow_pickle=False)",
        "import pandas as pd\npd.read_pickle(path)",
        "import os\nos.system(command)",
        "import subprocess\nsubprocess.run(command, shell=True)",
        "from tempfile import mktemp\nmktemp()",
        "archive.extractall(folder)",
        "from urllib.request import urlopen\nurlopen(address)",
        "SOURCE = 'http://example.org/data.zip'",
        "f'http://{host}/'",
        "import ssl\ncontext.verify_mode = ssl.CERT_NONE",
        "client.get(address, verify=False)",
        "import torch.distributed as dist\ndist.all_gather_object(parts, one)",
    ],
)
def test_unsafe_source_is_detected(source: str) -> None:
    assert offences(source)


@pytest.mark.parametrize(
    "source", ["import re\nre.compile('x')", "import numpy as np\nnp.load(path)", "model.eval()"]
)
def test_harmless_source_is_accepted(source: str) -> None:
    assert offences(source) == []
