"""What is said more than once about a release is said alike: its version, and what it depends on."""

import re
import tomllib
from typing import Any

import pytest
from conftest import ROOT

import unmix as um

yaml = pytest.importorskip("yaml")
CONDA_NAMES = {"matplotlib": "matplotlib-base"}  # the one without a window toolkit


@pytest.fixture(scope="module")
def recipe() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "release" / "conda" / "recipe.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_citation_and_recipe_name_the_version_of_the_code(recipe: dict[str, Any]) -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == recipe["context"]["version"] == um.__version__


def as_in_conda(requirement: str) -> str:
    name, bound = re.fullmatch(r"([\w-]+)(.*)", requirement).groups()
    return f"{CONDA_NAMES.get(name, name)} {bound}"


def test_the_recipe_needs_what_the_project_needs(recipe: dict[str, Any], project: dict[str, Any]) -> None:
    needs = recipe["requirements"]
    assert needs["run"] == ["python", *map(as_in_conda, project["project"]["dependencies"])]
    assert set(map(as_in_conda, project["build-system"]["requires"])) <= set(needs["host"])


def test_every_python_that_wheels_are_tried_with_is_declared(project: dict[str, Any]) -> None:
    declared = re.findall(r"Python :: 3\.(\d+)", "\n".join(project["project"]["classifiers"]))
    tried = [re.fullmatch(r"cp3(\d+)-\*", name)[1] for name in project["tool"]["cibuildwheel"]["build"]]
    assert declared == tried
    assert project["project"]["requires-python"] == f">=3.{declared[0]}"
