r"""Convert the LaTeX of pages and docstrings to MathML, which needs no JavaScript.

Pages write $`x_i`$ and ```math blocks, as on GitHub; docstrings write :math:`x_i` and
``.. math::``. As a hook of mkdocs this module rewrites pages, as an extension of griffe docstrings.
An unknown command raises ValueError and stops the build.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from html import escape
from typing import Any

import griffe

SYMBOLS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "Gamma": "Γ", "delta": "δ", "ell": "ℓ", "eta": "η",
    "epsilon": "ϵ", "lambda": "λ",
    "mu": "μ", "pi": "π", "psi": "ψ", "sigma": "σ", "Sigma": "Σ", "tau": "τ", "theta": "θ",
    "phi": "φ", "kappa": "κ", "rho": "ρ", "omega": "ω", "nu": "ν", "infty": "∞",
}  # fmt: skip
OPERATORS = {
    "langle": "⟨", "rangle": "⟩", "in": "∈", "sim": "∼", "ge": "≥", "le": "≤", "cdot": "·",
    "odot": "⊙",
    "dots": "…", "to": "→", "times": "×", "top": "⊤", "sum": "∑", "int": "∫", "prod": "∏",
    "approx": "≈",
    "notin": "∉", "mid": "∣", "{": "{", "}": "}", "|": "‖", "ne": "≠", "mapsto": "↦", "circ": "∘",
    "leftarrow": "←", "partial": "∂", "pm": "±", "propto": "∝", "ll": "≪", "gg": "≫", "neg": "¬",
}  # fmt: skip
FUNCTIONS = ("exp", "log", "arg", "max", "min", "deg", "cos", "sin", "sinh", "cosh",
             "coth", "tanh", "arcosh")  # fmt: skip
SPACES = {"quad": "1em", "qquad": "2em", ",": "0.17em", " ": "0.25em"}
SKIPPED = ("bigl", "bigr", "Bigl", "Bigr", "left", "right", "limits")
ACCENTS = {"hat": "^", "tilde": "~", "bar": "¯"}
SCRIPT = {"D": "𝒟", "I": "ℐ", "W": "𝒲"}
TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|\d+(?:\.\d+)?|\s+|.", re.DOTALL)


def mathml(latex: str, *, block: bool = False) -> str:
    r"""Return a formula as MathML; \\ begins a new line of a block."""
    lines = [_row(iter(TOKEN.findall(line))) for line in latex.split(r"\\")]
    if block:
        shown = "".join(f'<math display="block">{line}</math>' for line in lines)
        return f'<div class="formula">{shown}</div>'
    return f"<math>{''.join(lines)}</math>"


def _row(tokens: Iterator[str], until: str = "") -> str:
    """Convert atoms up to the token ``until``, each with its scripts."""
    parts: list[str] = []
    scripts: dict[str, str] = {}
    large = False

    def close() -> None:
        nonlocal scripts
        if scripts:
            base = parts.pop()
            low, high = scripts.get("_"), scripts.get("^")
            names = ("munder", "mover", "munderover") if large else ("msub", "msup", "msubsup")
            name = names[2 if low and high else 0 if low else 1]
            parts.append(f"<{name}>{base}{low or ''}{high or ''}</{name}>")
            scripts = {}

    for token in tokens:
        if token == until:
            break
        if token.isspace():
            continue
        if token in "_^":
            scripts[token] = _argument(tokens)
            continue
        if token == "'":
            scripts["^"] = "<mo>′</mo>"
            continue
        close()
        atom = _atom(token, tokens)
        if atom:
            parts.append(atom)
            large = token in ("\\sum", "\\prod", "\\max", "\\min")
    close()
    return "<mrow>" + "".join(parts) + "</mrow>"


def _argument(tokens: Iterator[str]) -> str:
    token = next(token for token in tokens if not token.isspace())
    return _row(tokens, "}") if token == "{" else _atom(token, tokens)


def _words(tokens: Iterator[str]) -> str:
    """Return the plain letters of a braced argument."""
    assert next(tokens) == "{"
    letters = []
    for token in tokens:
        if token == "}":
            break
        letters.append(token)
    return "".join(letters)


def _atom(token: str, tokens: Iterator[str]) -> str:
    if token == "{":
        return _row(tokens, "}")
    if not token.startswith("\\"):
        kind = "mi" if token.isalpha() else "mn" if token[0].isdigit() else "mo"
        shown = {"-": "−", "*": "∗"}.get(token, token)
        fence = ' stretchy="false"' if shown in "()[]|" else ""
        return f"<{kind}{fence}>{escape(shown)}</{kind}>"
    name = token[1:]
    if name in SKIPPED:
        return ""
    if name in SYMBOLS:
        return f"<mi>{SYMBOLS[name]}</mi>"
    if name in OPERATORS:
        fence = ' stretchy="false"' if name in ("langle", "rangle", "{", "}", "|") else ""
        return f"<mo{fence}>{OPERATORS[name]}</mo>"
    if name in FUNCTIONS:
        space = '<mspace width="0.17em"/>' if name in ("exp", "log") else ""
        return f"<mrow><mi>{name}</mi>{space}</mrow>"
    if name in SPACES:
        return f'<mspace width="{SPACES[name]}"/>'
    if name in ("frac", "tfrac"):
        return f"<mfrac>{_argument(tokens)}{_argument(tokens)}</mfrac>"
    if name == "sqrt":
        return f"<msqrt>{_argument(tokens)}</msqrt>"
    if name in ACCENTS:
        return f'<mover accent="true">{_argument(tokens)}<mo>{ACCENTS[name]}</mo></mover>'
    if name in ("text", "mathrm", "operatorname"):
        words = _words(tokens)
        edge = (
            "\u00a0" * words.startswith(" "),
            "\u00a0" * words.endswith(" "),
        )  # MathML drops blanks
        return f"<mtext>{edge[0]}{escape(words.strip())}{edge[1]}</mtext>"
    if name == "mathcal":
        following = next(token for token in tokens if not token.isspace())
        letter = following if following != "{" else next(tokens)
        if following == "{":
            assert next(tokens) == "}"
        return f"<mi>{SCRIPT[letter]}</mi>"
    raise ValueError(f"formula: unknown command \\{name}; add it to docs/site/formulas.py")


def _inline(latex: str) -> str:
    return f"<span>{mathml(latex)}</span>"  # at the start of a line <math> would be a block


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Convert the formulas of a page; a hook of mkdocs."""
    markdown = re.sub(
        r"^```math\n(.*?)^```$",
        lambda found: mathml(found[1], block=True),
        markdown,
        flags=re.DOTALL | re.MULTILINE,
    )
    return re.sub(r"\$`([^`]+)`\$", lambda found: _inline(found[1]), markdown)


def of_docstring(text: str) -> str:
    """Return a docstring with its formulas as MathML and its other roles as plain code."""

    def displayed(found: re.Match[str]) -> str:
        block = mathml(textwrap.dedent(found[2]), block=True)
        return f"{found[1]}{block}\n"

    text = re.sub(
        r"^([ ]*)\.\. math::((?:.*\S.*\n?)(?:\1[ ]+\S.*\n?)*|\s*\n(?:\1[ ]+\S.*\n?)+)",
        displayed,
        text,
        flags=re.MULTILINE,
    )
    text = re.sub(r":math:`([^`]+)`", lambda found: _inline(found[1]), text)
    return re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text)


class Formulas(griffe.Extension):
    """A griffe extension that converts the formulas of docstrings."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Rewrite the docstring of every object that has one."""
        if obj.docstring:
            obj.docstring.value = of_docstring(obj.docstring.value)
