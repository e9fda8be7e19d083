"""Hooks of `mkdocs build`: pages that are made from other files, and formulas as MathML."""

import html
import json
import re
from pathlib import Path

from docs.site.mathml import convert
from mkdocs.structure.files import File

import adaptkry

ROOT = Path(__file__).parents[2]
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
API = {  # page -> packages whose public names it shows
    "graphs": ("Graphs and splits", ("graphs",)),
    "filters": ("Operators, bases and filters", ("spectral",)),
    "training": ("Training and prediction", ("training", "models")),
    "selection": ("Choosing settings and comparing methods", ("selection",)),
    "scale": ("Graphs larger than memory", ("outofcore",)),
    "integrations": ("scikit-learn and PyG", ("integrations",)),
}


def on_files(files, config):
    """Add the pages that have their text elsewhere."""
    for name, text in made_pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_content(text, page, config, files):  # noqa: ARG001  as MkDocs calls it
    """Write formulas as MathML."""
    return FORMULA.sub(lambda found: convert(html.unescape(found[3]).strip(), found[2] == "["), text)


def made_pages() -> dict[str, str]:
    """Return the pages that have their text elsewhere: README, changelog, contributing, notebooks, API reference."""
    pages = {"index.md": "README.md", "changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
    texts = {page: _from_root(name) for page, name in pages.items()}
    texts |= {f"notebooks/{path.stem}.md": notebook(path) for path in (ROOT / "docs" / "notebooks").glob("*.ipynb")}
    return texts | {f"api/{name}.md": reference(title, packages) for name, (title, packages) in API.items()}


def _from_root(name: str) -> str:
    """Return a document of the root, with links as seen from docs/."""
    text = (ROOT / name).read_text(encoding="utf-8")
    text = text.replace("](docs/", "](").replace(".ipynb)", ".md)")
    return re.sub(r"\]\((CHANGELOG|CONTRIBUTING)\.md", lambda found: f"]({found[1].lower()}.md", text)


def notebook(path: Path) -> str:
    """Return the cells of a notebook as Markdown."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = [("".join(cell["source"]), cell["cell_type"]) for cell in cells]
    parts = [text if kind == "markdown" else f"```python\n{text}\n```" for text, kind in texts]
    return "\n\n".join([*parts, f"This page is the notebook `docs/notebooks/{path.name}`; the tests execute it."])


def reference(title: str, packages: tuple[str, ...]) -> str:
    """Return a page with the docstrings of all public names of some packages."""
    names = [name for name, module in adaptkry._MODULES.items() if module.split(".")[0] in packages]
    parts = [f"::: adaptkry.{adaptkry._MODULES[name]}.{name}" for name in names]
    return "\n\n".join([f"# {title}", "Import these names from `adaptkry`: `import adaptkry as ak`.", *parts])
