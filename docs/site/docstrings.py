"""Docstrings for mkdocstrings: formulas in the notation of the other documents, examples as code."""

import re
import textwrap

import griffe

NAMES = re.compile(r"^( +\w+(?:, \w+)*,)\n +(\w+(?:, \w+)*:)", re.MULTILINE)  # of arguments, on two lines
EXAMPLE = re.compile(r"^( *)>>> .*(?:\n\1.*\S.*)*", re.MULTILINE)
BLOCK = re.compile(r"^([ \t]*)\.\. math::[ \t]*(.*(?:\n(?:\1[ \t]+\S.*|[ \t]*(?=\n\1[ \t]+\S)))*)", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Convert every docstring."""

    def on_object(self, *, obj, **_) -> None:
        """Convert that of one object."""
        if obj.docstring is not None:
            obj.docstring.value = converted(obj.docstring.value)


def converted(text: str) -> str:
    r"""Return a docstring with its formulas between dollar signs, each list of names on one line, and examples as code.

    >>> converted("Let :math:`x` be\n\n.. math:: x^2\n    + 1\n\nend")
    'Let $x$ be\n\n$$x^2 + 1$$\n\nend'
    """
    text = NAMES.sub(r"\1 \2", re.sub(r":math:`([^`]*)`", r"$\1$", text))
    text = EXAMPLE.sub(lambda found: f"{found[1]}```python\n{found[0]}\n{found[1]}```", text)
    return BLOCK.sub(lambda found: f"{found[1]}$${' '.join(textwrap.dedent(found[2]).split())}$$", text)
