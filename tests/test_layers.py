"""One arrow, never back: cli → workflows → domains → core → specs → {errors, resources}."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "zoo"
DOMAINS = ("molecules", "proteins", "medical", "equivariant")
# What each layer may import beside itself. `__init__` (the root) is the version and a table of strings: it imports
# nothing, and nothing below the user imports it.
BELOW = {"errors": set(), "resources": {"errors"}}
BELOW["specs"] = {"errors", "resources"}
BELOW["core"] = {"specs", *BELOW["specs"]}
BELOW.update({domain: {"core", *BELOW["core"]} for domain in DOMAINS})
BELOW["workflows"] = {*DOMAINS, *BELOW["molecules"]}
BELOW["cli"] = {"workflows", *BELOW["workflows"]}
BELOW["__main__"] = {"cli"}
BELOW["root"] = set()


def layer_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "root"


def imported(tree: ast.AST, package: list[str]) -> set[tuple[int, str]]:
    """Every module of ``zoo`` that a file imports, at the top or inside a function, with its line."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(node.lineno, alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            # `from zoo import resources` imports the module zoo.resources. The version is a constant of the root and
            # open to all; its other names lead up to the workflows.
            names = [alias.name for alias in node.names if (module, alias.name) != ("zoo", "__version__")]
            found |= {(node.lineno, f"zoo.{n}" if module == "zoo" and n in BELOW else module) for n in names}
    return {(line, name) for line, name in found if name.split(".")[0] == "zoo"}


def wrong_arrows(package: Path) -> list[str]:
    wrong = []
    for path in sorted(package.rglob("*.py")):
        if "_bundled" in path.parts:
            continue
        parts = ["zoo", *path.relative_to(package).with_suffix("").parts]
        own = "root" if parts == ["zoo", "__init__"] else parts[1]
        for line, module in sorted(imported(ast.parse(path.read_text(encoding="utf-8")), parts[:-1])):
            target = layer_of(module)
            if target != own and target not in BELOW[own]:
                wrong.append(f"{path.relative_to(package.parent)}:{line}: {own} imports {module}")
    return wrong


def test_no_wrong_arrow_in_the_package():
    assert wrong_arrows(PACKAGE) == []


def test_the_package_is_read_at_all():
    """A checker that finds no file finds no fault."""
    files = {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")}
    assert {"cli.py", "core", "specs", "workflows", "molecules", "errors.py", "resources.py"} <= files


def test_every_folder_of_the_package_is_a_known_layer():
    layers = {p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name not in ("__pycache__", "_bundled")}
    assert layers <= set(BELOW)


@pytest.mark.parametrize(
    ("place", "code", "fault"),
    [
        ("specs/a.py", "import zoo.core.types\n", "specs imports zoo.core.types"),
        ("core/a.py", "from zoo.molecules import featurise\n", "core imports zoo.molecules"),
        ("core/a.py", "def f():\n    from zoo.workflows import train\n", "core imports zoo.workflows"),
        ("molecules/a.py", "from zoo.proteins.data import x\n", "molecules imports zoo.proteins.data"),
        ("molecules/a.py", "from ..proteins import x\n", "molecules imports zoo.proteins"),
        ("molecules/a.py", "from zoo import workflows\n", "molecules imports zoo.workflows"),
        ("workflows/a.py", "from zoo.cli import main\n", "workflows imports zoo.cli"),
        ("errors.py", "from zoo.specs import base\n", "errors imports zoo.specs"),
        ("resources.py", "import zoo.specs\n", "resources imports zoo.specs"),
        ("__init__.py", "from zoo.workflows.train import train\n", "root imports zoo.workflows.train"),
        ("core/a.py", "import zoo\n", "core imports zoo"),
        ("core/a.py", "from zoo import __version__, train\n", "core imports zoo"),
        ("specs/deep/a.py", "from ...core import types\n", "specs imports zoo.core"),
    ],
)
def test_the_checker_catches_a_wrong_arrow(tmp_path, place, code, fault):
    file = tmp_path / "zoo" / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(code)
    (found,) = wrong_arrows(tmp_path / "zoo")
    assert found.endswith(fault)


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("cli.py", "from zoo import __version__\nfrom zoo.workflows import train\n"),
        ("workflows/a.py", "from zoo import resources\nfrom zoo.molecules.domain import DOMAIN\n"),
        ("molecules/a.py", "from zoo.core.types import Batch\nfrom .graph import x\nimport torch\n"),
        ("core/a.py", "from zoo.errors import ZooError\nfrom . import types\nfrom zoo import __version__\n"),
    ],
)
def test_the_checker_allows_the_right_arrows(tmp_path, place, code):
    file = tmp_path / "zoo" / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(code)
    assert wrong_arrows(tmp_path / "zoo") == []


OF_DOMAINS = re.compile(r"protein|residue|amino|peptide|molecul|smiles|rdkit|atom(?!ic)|bond|\besm", re.IGNORECASE)


def words_of_domains(tree: ast.AST) -> list[tuple[int, str]]:
    """Every name and text in code, docstrings left out, that speaks of one domain, with its line."""
    documented = {
        id(node.body[i].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        for i in range(len(node.body))
        if isinstance(node.body[i], ast.Expr)
    }
    found = []
    for node in ast.walk(tree):
        text = None
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            text = node.value
        elif isinstance(node, ast.Name | ast.arg | ast.Attribute | ast.FunctionDef | ast.ClassDef | ast.keyword):
            text = getattr(node, "id", None) or getattr(node, "arg", None) or getattr(node, "attr", None)
            text = text or getattr(node, "name", None)
        if text is not None and OF_DOMAINS.search(text):
            found.append((node.lineno, text))
    return found


def test_the_core_names_no_domain_but_in_its_table():
    found = {}
    for path in sorted((PACKAGE / "core").rglob("*.py")):
        words = words_of_domains(ast.parse(path.read_text(encoding="utf-8")))
        if words:
            found[path.name] = {text for _, text in words}
    table = {name for domain in ("molecules", "proteins") for name in (domain, f"zoo.{domain}.domain:DOMAIN")}
    assert found == {"domain.py": table}


def test_words_of_domains_are_seen():
    code = (
        'def f(residues):\n    """Of atoms."""\n    return residues.n_atoms + len("smiles") + atomic + f"{x} bonds"\n'
    )
    assert {text for _, text in words_of_domains(ast.parse(code))} == {"residues", "n_atoms", "smiles", " bonds"}
