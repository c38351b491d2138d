"""What the source may not do, by its syntax: run what it reads, or fetch what it does not check.

Beside it: tables/test_pasted_sql.py, that nothing is pasted into SQL; test_attacks.py, what hostile
names do, and report/test_attacks.py, in a browser; datasets/test_unpacking.py and test_bombs.py,
archives; test_forged_folders.py, models; datasets/test_download.py, what is fetched.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pmvge

SOURCE = Path(pmvge.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

# -- nothing that is read is run ------------------------------------------------------------

MODULES = {
    *("pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"),
    *("yaml", "ruamel", "requests", "httpx", "urllib3", "ftplib", "telnetlib", "xmlrpc", "imp"),
}
CALLS = {
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen", "tempfile.mktemp"),
    *("torch.load", "torch.save", "torch.jit.load", "torch.package", "torch.hub.load"),
    *("subprocess.getoutput", "subprocess.getstatusoutput", "runpy.run_path", "runpy.run_module"),
    *("shutil.unpack_archive", "ssl._create_unverified_context", "numpy.fromregex"),
    *("urllib.request.urlopen", "urllib.request.urlretrieve"),  # download() alone opens addresses
}
METHODS = {
    *("extractall", "extract", "read_pickle", "to_pickle", "load_extension", "install_extension"),
    *("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list"),
}
KEYWORDS = {"allow_pickle", "trust_remote_code", "weights_only"}
NEVER = {("shell", True), ("verify", False), ("check_hostname", False)}


def offences(source: str) -> list[str]:
    """What of the lists above a source has, whatever the names that it was imported under."""
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
            whole = known.get(name, name) + dot + rest
            found += [whole] if whole in CALLS or whole.rpartition(".")[2] == "CERT_NONE" else []
            found += [whole] if isinstance(node, ast.Attribute) and node.attr in METHODS else []
        elif isinstance(node, ast.keyword):
            value = node.value.value if isinstance(node.value, ast.Constant) else None
            found += [str(node.arg)] if node.arg in KEYWORDS or (node.arg, value) in NEVER else []
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_file_of_the_package_can_run_what_it_reads(path: Path) -> None:
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
def test_it_would_be_seen(source: str) -> None:
    assert offences(source)


@pytest.mark.parametrize(
    "source", ["import re\nre.compile('x')", "import numpy as np\nnp.load(path)", "model.eval()"]
)
def test_what_is_harmless_is_not(source: str) -> None:
    assert offences(source) == []
