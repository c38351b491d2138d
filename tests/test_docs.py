"""Check the documentation: its code runs, and the names, files and tests in it exist."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer

import pmvge
import pmvge.baselines
import pmvge.tables
from pmvge import PMvGE, errors
from pmvge.cli.app import app
from pmvge.datasets import DATASETS
from pmvge.examples import EXAMPLES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
METHODS = DOCS / "site" / "methods.py"
TEXTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
SOURCE = ROOT / "src" / "pmvge"


@pytest.mark.slow
def test_the_readme_example_runs(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "History:" in done.stdout


def test_the_home_page_has_the_example_and_the_picture_of_the_readme():
    readme, home = (ROOT / "README.md").read_text(), (DOCS / "index.md").read_text()
    (code,) = re.findall(r"```python\n.*?```", readme, flags=re.DOTALL)
    assert code in home
    assert "docs/images/explorer.png" in readme
    assert home.index("images/explorer.png") < home.index(code) < home.index("\n## ")


def test_every_test_on_the_paper_page_exists():
    text = (DOCS / "paper.md").read_text()
    file = None
    names = re.findall(r"`((?:\w+/)?test_\w+\.py)?(?:::)?(test_\w+)?`", text)
    named = [(a, b) for a, b in names if a or b]
    assert len(named) > 20
    for path, test in named:
        file = path or file
        source = (ROOT / "tests" / str(file)).read_text()
        assert not test or f"def {test}(" in source, (file, test)


def test_every_function_on_the_paper_page_exists():
    text = (DOCS / "paper.md").read_text()
    folders = {path.stem for path in SOURCE.iterdir()}
    names = re.findall(r"`(\w+)\.(\w+)(?:\([^`]*\))?`", text)
    functions = [(folder, name) for folder, name in names if folder in folders and name != "py"]
    assert len(functions) > 20
    for folder, name in functions:
        assert hasattr(importlib.import_module(f"pmvge.{folder}"), name), (folder, name)


@pytest.mark.parametrize("page", [*TEXTS, *PAGES], ids=lambda page: page.stem)
def test_links_between_pages_exist(page):
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", page.read_text()):
        path = page.parent / target if target else page
        assert path.exists(), target
        if anchor and path.suffix == ".md" and path.name != "api.md":  # made by mkdocstrings
            assert anchor in anchors(path), (target, anchor)


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*TEXTS, *PAGES], ids=lambda page: page.stem)
def test_files_named_in_pages_exist(page):
    known = ("tests/", "benchmarks/", "docs/", "src/", *folders_of_the_package())
    for name in re.findall(r"`([\w./-]+/[\w.-]*)`", page.read_text()):
        if name.startswith(known) and "NAME" not in name:
            assert any((base / name).exists() for base in (ROOT, SOURCE, ROOT / "tests")), name


def folders_of_the_package() -> list[str]:
    found = SOURCE.iterdir()
    return [f"{path.name}/" for path in found if path.is_dir() and path.name != "__pycache__"]


def test_the_architecture_page_names_every_folder_and_root_module():
    text = (DOCS / "architecture.md").read_text()
    modules = [path.stem for path in SOURCE.glob("*.py") if not path.stem.startswith("_")]
    for name in (*folders_of_the_package(), *modules):
        assert f"`{name}`" in text, name


ARCHAIC = (
    "foretold", "foretell", "mend", "mended", "amid", "anew", "strangers", "the dead", "a life",
    "who knows", "told of", "lent", "judge", "judged", "of the user's",
)  # fmt: skip


def test_no_archaic_words():
    pattern = re.compile(rf"\b(?:{'|'.join(ARCHAIC)})\b", re.IGNORECASE)
    files = [*TEXTS, *PAGES, *(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.toml")]
    found = {
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in files
        for match in pattern.finditer(path.read_text())
    }
    assert not found


# -- the code of the pages ----------------------------------------------------------------------

BLOCK = re.compile(
    r"(?P<mark><!-- not run: [^>]+ -->\n)?^```(?P<kind>python|bash|console)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)

# Importing torch takes seconds: one process imports it, and every command is a fork of it.
SERVER = """
import json, os, signal, socket, sys, traceback, warnings
from pathlib import Path
import pmvge.cli, pmvge.model, pmvge.report, pmvge.tables
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
while True:
    client, _ = listener.accept()
    if os.fork():
        client.close()
        continue
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sent, descriptors, *_ = socket.recv_fds(client, 1 << 20, 3)
    folder, environment, arguments = json.loads(sent)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.chdir(folder)
    os.environ.update(environment)
    code = 0
    try:
        if arguments[0] == "pmvge":
            sys.argv = arguments
            pmvge.cli.main()
        else:
            warnings.simplefilter("error")
            page = compile(Path(arguments[1]).read_text(), arguments[1], "exec")
            exec(page, {"__name__": "__main__"})
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else bool(stop.code)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    client.sendall(bytes([code]))
    os._exit(0)
"""
CLIENT = """#!{python} -SE
import json, os, socket, sys
if sys.argv[1:2] == ["serve"]:  # a server is stopped by a signal to its own process
    os.execv({python!r}, [{python!r}, "-m", "pmvge", *sys.argv[1:]])
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
environment = {{k: os.environ[k] for k in ("PATH", "COLUMNS", "PAGE") if k in os.environ}}
content = json.dumps([os.getcwd(), environment, [{name!r}, *sys.argv[1:]]])
socket.send_fds(server, [content.encode()], [0, 1, 2])
sys.exit((server.recv(1) or b"\\1")[0])
"""


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder for the PATH with the commands ``pmvge`` and ``run-page``."""
    folder = tmp_path_factory.mktemp("bin")
    address = str(folder / "socket")
    for name in ("pmvge", "run-page"):
        text = CLIENT.format(python=sys.executable, address=address, name=name)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, address],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
    yield folder
    server.terminate()
    server.wait()
    server.stdout.close()


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return the kind and the code of the blocks of a page, without those marked "not run"."""
    found = BLOCK.finditer(page.read_text())
    return [(block["kind"], block["code"]) for block in found if not block["mark"]]


def script(page: Path) -> str:
    """Return one Python program of all blocks; shell blocks run in bash and keep their folder."""
    lines = ["import os as _os, pathlib as _pathlib, subprocess as _subprocess"]
    for kind, code in blocks(page):
        if kind == "python":
            lines.append(code)
            continue
        shell = f"trap 'pwd > $PAGE/folder' EXIT\n{code}"
        lines.append(f"_subprocess.run(['bash', '-e', '-c', {shell!r}], check=True)")
        lines.append("_os.chdir(_pathlib.Path(_os.environ['PAGE'], 'folder').read_text().strip())")
    return "\n".join(lines)


# The picture of a gallery page is drawn from the names that its code defines.
DRAW = """
import sys as _sys
_sys.path.insert(0, {folder!r})
from gallery_pictures import PICTURES as _pictures
_pictures[{name!r}][0](globals())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem
)
def test_the_code_of_the_pages_runs(page, tmp_path, tools):
    if page.parent.name == "gallery":
        need_data(page.stem)
    code = script(page)
    if page.parent.name == "gallery":
        code += DRAW.format(folder=str(DOCS / "site"), name=page.stem)
    (tmp_path / "page.py").write_text(code)
    here = tmp_path / "here"
    here.mkdir()
    path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [tools / "run-page", tmp_path / "page.py"],
        cwd=here,
        env={**os.environ, "PATH": path, "COLUMNS": "100", "PAGE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    if page.parent.name == "gallery":
        check_output(page.read_text(), done.stdout)
    if page.stem == "quickstart":
        check_shortened_output(page.read_text(), done.stdout + done.stderr)


def need_data(name: str) -> None:
    """Skip the test if the data of an example are not here."""
    data = DATASETS[str(EXAMPLES[name].dataset)]
    if data.archives and ("PMVGE_DATA" not in os.environ or not data.installed_path()):
        pytest.skip(f"{data.name} is not here: set PMVGE_DATA to a folder with {data.name!r}")
    if name == "microbes":
        pytest.importorskip("biom", reason="needs the extra interop")


NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
OUTPUT = re.compile(
    r"(?P<mark>^<!-- fitted: [^>]+ -->\n)?^```text\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)


def check_output(page: str, printed: str) -> None:
    """Check that a page shows what its code prints.

    Blocks with the mark "fitted" depend on the fit, which another processor rounds in another way:
    most of their lines have the same words, and numbers in these lines are close.
    """
    shown = [
        (line, block["mark"] is not None)
        for block in OUTPUT.finditer(page)
        for line in block["text"].splitlines()
    ]
    found = printed.splitlines()[-len(shown) :]
    pairs = [(line, other) for (line, fitted), other in zip(shown, found, strict=True) if fitted]
    for (line, fitted), other in zip(shown, found, strict=True):
        assert fitted or line == other
    same = [(a, b) for a, b in pairs if words(a) == words(b)]
    assert len(same) >= 0.7 * len(pairs), found
    for line, other in same:
        assert numbers_are_close(line, other), (line, other)


def check_shortened_output(page: str, printed: str) -> None:
    """Check that the lines that a page shows are among those that its code prints.

    Most are, with numbers that are close: a fit differs a little on another processor.
    """
    shown = [line for block in OUTPUT.finditer(page) for line in block["text"].splitlines() if line]
    lines = printed.splitlines()
    missing = [
        line
        for line in shown
        if not any(words(line) == words(o) and numbers_are_close(line, o) for o in lines)
    ]
    assert len(missing) <= 0.2 * len(shown), missing


def words(line: str) -> list[str]:
    """Return the words of a line, with # for every number."""
    return NUMBER.sub("#", line).split()


def numbers_are_close(line: str, other: str) -> bool:
    """Return whether two lines with the same words have similar numbers."""
    pairs = zip(NUMBER.findall(line), NUMBER.findall(other), strict=True)
    # Ranks of hundreds can move a little, scores by some hundredths.
    return all(
        float(number.replace(",", ""))
        == pytest.approx(float(wanted.replace(",", "")), rel=0 if "." in wanted else 0.3, abs=0.06)
        for wanted, number in pairs
    )


def test_only_fitted_output_may_differ():
    block = "```text\nlikes: Babe\nAUC 0.75\nrank 9\nusers 3\n```\n"
    fitted = f"<!-- fitted: may differ -->\n{block}"
    for printed in (
        "likes: Babe\nAUC 0.76\nrank 9\nusers 3",
        "likes: Fargo\nAUC 0.75\nrank 9\nusers 3",
    ):
        check_output(fitted, printed)
        with pytest.raises(AssertionError):
            check_output(block, printed)
    with pytest.raises(AssertionError):
        check_output(fitted, "likes: Babe\nAUC 0.95\nrank 9\nusers 3")
    with pytest.raises(AssertionError):
        check_output(fitted, "likes: Fargo\nloss 0.75\nrank 9\nusers 3")


def test_shortened_output_is_part_of_the_output():
    page = "```text\nAUC 0.75\nusers 3\n```\n"
    check_shortened_output(page, "note\nAUC 0.76\nmore\nusers 3")
    for printed in ("AUC 0.76", "AUC 0.95\nusers 3", "loss 0.75\nusers 3"):
        with pytest.raises(AssertionError):
            check_shortened_output(page, printed)


# -- the pages are complete ---------------------------------------------------------------------


def commands() -> list[tuple[str, click.Command]]:
    """Return every command with the heading of its section."""
    found = []
    for name, command in typer.main.get_command(app).commands.items():
        inner = getattr(command, "commands", {"": command})
        found += [(name, command), *((name, part) for part in inner.values())]
    return found


def section(text: str, heading: str) -> str:
    """Return the part of a page below a heading."""
    (found,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return found


@pytest.mark.parametrize(("heading", "command"), commands())
def test_the_page_of_commands_names_every_option(heading, command):
    text = section((DOCS / "cli.md").read_text(), heading)
    assert str(command.name) in text or command.name == heading
    for parameter in command.params:
        if "--help" in parameter.opts:
            continue
        for option in [*parameter.opts, *parameter.secondary_opts]:
            wanted = option if option.startswith("-") else option.upper().strip("_")
            assert re.search(rf"(?<![\w-]){re.escape(wanted)}(?![\w-])", text), wanted


def test_the_page_of_commands_names_the_common_options():
    text = (DOCS / "cli.md").read_text()
    for parameter in typer.main.get_command(app).params:
        for option in parameter.opts:
            assert f"`{option}`" in text, option


def test_the_page_of_settings_has_the_defaults():
    text = section((DOCS / "settings.md").read_text(), "All settings")
    listed = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", text, re.MULTILINE))
    assert listed == {name: repr(value) for name, value in PMvGE().get_params(deep=False).items()}


# Names that a folder exports for other folders of the package, not for users.
INTERNAL = {
    "pmvge.baselines": ["leading_axes"],
    "pmvge.tables": [
        "JoinSummary", "Notes", "check_saved_tables", "describe_values", "fold_columns",
        "link_pairs", "pair_of", "parse_toml", "project_text", "read_labels",
        "saved_id",
    ],
}  # fmt: skip


def test_the_reference_has_every_public_name():
    entries = re.findall(r"^::: ([\w.]+)", (DOCS / "api.md").read_text(), re.MULTILINE)
    for module in (pmvge, pmvge.tables, pmvge.baselines):
        for name in {*module.__all__}.difference(INTERNAL.get(module.__name__, [])):
            assert f"{module.__name__}.{name}" in entries, name


def test_the_reference_lists_every_method_of_the_estimator_once():
    text = (DOCS / "api.md").read_text().partition("::: pmvge.PMvGE\n")[2].partition(":::")[0]
    listed = re.findall(r"^ +- (\w+)$", text, re.MULTILINE)
    assert listed[0] == "fit"
    assert sorted(listed) == sorted(public_methods(PMvGE))


def public_methods(class_: type) -> set[str]:
    """Return the public methods of a class that this package defines, with those of its mixins."""
    return {
        name
        for name, value in inspect.getmembers(class_, inspect.isroutine)
        if not name.startswith("_") and str(value.__module__).startswith("pmvge.")
    }


def test_the_gallery_has_a_page_for_every_script():
    scripts = {name for name, example in EXAMPLES.items() if example.script is not None}
    pages = {page.stem for page in (DOCS / "gallery").glob("*.md")} - {"index"}
    assert pages == scripts
    listed = (DOCS / "gallery" / "index.md").read_text()
    assert all(f"({name}.md)" in listed for name in pages)


def test_the_page_of_methods_is_up_to_date():
    page = runpy.run_path(str(METHODS))["page"]()
    assert (DOCS / "methods.md").read_text() == page, f"run: python {METHODS.relative_to(ROOT)}"


def test_the_troubleshooting_page_names_every_error_class():
    text = (DOCS / "troubleshooting.md").read_text()
    for name, value in vars(errors).items():
        if isinstance(value, type) and value.__module__ == errors.__name__:
            assert f"`{name}`" in text, name


def templates() -> list[str]:
    """Return all string literals of the source, with NUL for each formatted value."""
    found = []
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (getattr(part, "value", "") for part in node.values)
                found.append("".join(part if isinstance(part, str) else "\0" for part in parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


@pytest.mark.parametrize(
    ("page", "heading"),
    [("troubleshooting.md", "## Files and sources"), ("guides/out-of-core.md", "| message |")],
)
def test_every_message_in_the_pages_is_in_the_source(page, heading):
    text = (DOCS / page).read_text().partition(heading)[2]
    assert text
    known = templates()
    for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE):
        for message in re.findall(r"`([^`]+)`", row):
            parts = [re.escape(part) for part in message.split("...") if part.strip()]
            pattern = re.compile(".*".join(parts), re.DOTALL)
            assert any(pattern.search(template) for template in known), message


@pytest.mark.slow
def test_the_site_loads_nothing_from_other_servers(tmp_path):
    pytest.importorskip("mkdocs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) > len(PAGES)  # 404.html, too
    fetched = r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(?:https?:)?//|<link\b[^>]*https?://"
    for page in pages:
        text = page.read_text()
        assert not re.search(fetched, text), page
        assert ":math:" not in text, page
        assert ".. math::" not in text, page
    for sheet in (tmp_path / "site").rglob("*.css"):
        assert not re.search(r"url\(\"?(?:https?:)?//|@import", sheet.read_text()), sheet


def test_scripts_import_what_exists():
    """Benchmarks, examples and scripts of the site are not run by the tests."""
    scripts = [*ROOT.glob("benchmarks/*.py"), *ROOT.glob("examples/*.py"), *DOCS.glob("site/*.py")]
    for script in scripts:
        for node in ast.walk(ast.parse(script.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "pmvge":
                module = importlib.import_module(str(node.module))
                for name in node.names:
                    if not hasattr(module, name.name):
                        importlib.import_module(f"{node.module}.{name.name}")
