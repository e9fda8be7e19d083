r"""Formulas of the documents as MathML, which browsers show without a script: the part of LaTeX that is used here.

>>> convert(r"\tau^2")
'<math><msup><mi>τ</mi><mn>2</mn></msup></math>'
>>> convert(r"\unknown")
Traceback (most recent call last):
...
ValueError: the formula \unknown has \unknown, which docs/site/mathml.py does not know. Add it there.
"""

import re
from html import escape
from html.entities import html5

# LaTeX -> name of the HTML entity, where the names differ
ENTITIES = {
    "to": "rarr", "dots": "hellip", "ldots": "hellip", "cdots": "ctdot", "cdot": "middot", "infty": "infin",
    "{": "lcub", "}": "rcub", "lVert": "Vert", "rVert": "Vert", "|": "Vert", "-": "minus", "*": "ast",
}  # fmt: skip
FUNCTIONS = ("min", "max", "ln", "log", "exp", "cos", "sin", "arccos", "det", "dim", "arg", "lim", "sup")
WITH_LIMITS = ("sum", "prod", "min", "max", "lim", "sup")
SPACES = {"qquad": 2.0, "quad": 1.0, ",": 0.17, ";": 0.28, " ": 0.25, "!": 0.0, ":": 0.22, "\n": 0.25}
STYLES = {"mathbf": "bold", "mathcal": "scr", "mathbb": "opf", "mathrm": "", "text": "", "operatorname": ""}
IGNORED = ("left", "right", "big", "Big", "bigl", "bigr", "displaystyle")
ACCENTS = {"bar": "macr", "hat": "Hat", "tilde": "tilde"}
TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|\d+(?:\.\d+)?|\S", re.DOTALL)


def convert(formula: str, display: bool = False) -> str:
    """Return a formula in LaTeX as MathML; refuse commands that are not known."""
    try:
        content = "".join(_row(TOKEN.findall(formula), ""))
    except KeyError as error:
        raise ValueError(
            f"the formula {formula} has \\{error.args[0]}, which docs/site/mathml.py does not know. Add it there."
        ) from None
    except IndexError:
        raise ValueError(f"the formula {formula} must end after its last argument or brace. Complete it.") from None
    return f'<math display="block">{content}</math>' if display else f"<math>{content}</math>"


def _row(tokens: list[str], end: str) -> list[str]:
    """Read atoms with their subscripts and superscripts up to the closing token, or to the end."""
    parts: list[str] = []
    while end or tokens:
        if tokens[0] == end:
            tokens.pop(0)
            break
        first = tokens[0]
        part = "<mrow></mrow>" if first in ("_", "^") else _atom(tokens)
        parts.append(_with_scripts(part, tokens, first.removeprefix("\\") in WITH_LIMITS))
    return parts


def _with_scripts(base: str, tokens: list[str], has_limits: bool) -> str:
    """Put the subscript and superscript that follow on a base."""
    found = {}
    while tokens and tokens[0] in ("_", "^"):
        sign = tokens.pop(0)
        found[sign] = _argument(tokens)
    if not found:
        return base
    low, high = ("under", "over") if has_limits else ("sub", "sup")
    tag = "m" + (low if "_" in found else "") + (high if "^" in found else "")
    return f"<{tag}>{base}{found.get('_', '')}{found.get('^', '')}</{tag}>"


def _argument(tokens: list[str]) -> str:
    r"""Read an argument: an atom, or the first digit of a number, as in \tfrac12."""
    if tokens[0].isdigit():
        tokens[:1] = tokens[0]
    return _atom(tokens)


def _atom(tokens: list[str]) -> str:
    """Read one token, a group in braces, or a command with its arguments."""
    token = tokens.pop(0)
    if token == "{":
        return f"<mrow>{''.join(_row(tokens, '}'))}</mrow>"
    if token.startswith("\\"):
        return _command(token[1:], tokens)
    if token[0].isdigit():
        return f"<mn>{token}</mn>"
    return f"<mi>{token}</mi>" if token.isalpha() else f"<mo>{_sign(token) if token in '-*' else escape(token)}</mo>"


def _command(name: str, tokens: list[str]) -> str:
    """Read the arguments of a command."""
    if name in ("frac", "tfrac"):
        return f"<mfrac>{_argument(tokens)}{_argument(tokens)}</mfrac>"
    if name == "sqrt":
        return f"<msqrt>{_argument(tokens)}</msqrt>"
    if name in ACCENTS:
        return f'<mover accent="true">{_argument(tokens)}<mo>{html5[ACCENTS[name] + ";"]}</mo></mover>'
    if name in STYLES:
        return _styled(re.sub(r"<.*?>", "", _argument(tokens)), STYLES[name])
    if name in SPACES:
        return f'<mspace width="{SPACES[name]}em"/>'
    if name in IGNORED:
        return ""
    text = name if name in FUNCTIONS else _sign(name)
    return f"<mi>{text}</mi>" if text.isalpha() and name not in WITH_LIMITS else f"<mo>{text}</mo>"


def _sign(name: str) -> str:
    """Return the character of a command."""
    entity = ENTITIES.get(name, name) + ";"
    if entity not in html5:
        raise KeyError(name)
    return html5[entity]


def _styled(text: str, style: str) -> str:
    """Return letters in a style, as characters: MathML has no other way that all browsers know."""
    if not style:
        return f'<mi mathvariant="normal">{text}</mi>'
    if style != "bold":
        return f"<mi>{''.join(html5[f'{letter}{style};'] for letter in text)}</mi>"
    starts = [(0x1D7CE, "0") if c.isdigit() else (0x1D400, "A") if c.isupper() else (0x1D41A, "a") for c in text]
    bold = "".join(chr(start + ord(c) - ord(first)) for c, (start, first) in zip(text, starts, strict=True))
    return f"<mi>{bold}</mi>"
