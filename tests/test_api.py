"""The public names: imported lazily, complete and typed; and the library does not print."""

import ast
import inspect
import json
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

import adaptkry as ak

SOURCE = Path(ak.__file__).parent


def type_checking_imports() -> dict[str, str]:
    """Name -> module of the imports that type checkers see."""
    tree = ast.parse(Path(ak.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert all(alias.asname == alias.name for node in imports for alias in node.names)  # else private to pyright
    return {alias.name: str(node.module).removeprefix("adaptkry.") for node in imports for alias in node.names}


def test_type_checkers_see_the_names_that_the_package_has():
    assert type_checking_imports() == ak._MODULES


def test_every_public_name_resolves_and_is_listed():
    names = "Graph load Splits Operator Basis Filter fit open_data Run Result RunInfo load_run Recipe tune compare"
    names += " propagate BasisFolder AdaptKryClassifier KrylovBasis KrylovConv __version__"
    assert set(names.split()) <= set(ak.__all__)
    assert set(ak.__all__) <= set(dir(ak))
    for name in ak.__all__:
        value = getattr(ak, name)
        assert value is getattr(ak, name)
        if callable(value):
            assert value.__module__.startswith("adaptkry.")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'adaptkry' has no attribute 'fitt'"):
        _ = ak.fitt  # type: ignore[attr-defined]


def test_help_and_signature_of_fit_are_those_of_the_function():
    assert "Train a method on many splits as one batch" in pydoc.render_doc(ak.fit)
    assert "device" in inspect.signature(ak.fit).parameters


@pytest.mark.slow
def test_pyright_sees_true_types_and_refuses_unknown_names(tmp_path):
    pyright = Path(sys.executable).with_name("pyright")
    if not pyright.exists():
        pytest.skip("pyright is not installed")
    (tmp_path / "user.py").write_text(
        "import adaptkry as ak\n"
        "reveal_type(ak.csbm(nodes=10))\n"
        "reveal_type(ak.load_run('x'))\n"
        "reveal_type(ak.KrylovConv)\n"
        "ak.fitt\n"
    )
    config = {
        "venvPath": str(Path(sys.prefix).parent),
        "venv": Path(sys.prefix).name,
        "extraPaths": [str(SOURCE.parent)],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    printed = subprocess.run([pyright, "-p", tmp_path], capture_output=True, text=True, check=False).stdout
    for part in ('is "Graph"', 'is "Run | Ensemble"', 'is "type[KrylovConv]"', '"fitt" is not a known attribute'):
        assert part in printed
    assert printed.count(" error: ") == 1


def test_the_library_never_prints():
    """Only the command line writes to the terminal; the library logs."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] in ("cli", "__main__.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            packages = {name.split(".")[0] for name in names}
            if text in ("print", "sys.stdout", "sys.stderr") or packages & {"rich", "typer"}:
                found.append(f"{path.relative_to(SOURCE)}:{node.lineno}")  # type: ignore[attr-defined]
    assert found == []
