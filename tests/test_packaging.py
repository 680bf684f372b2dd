"""What is installed is what was promised: locks, versions and the console script agree with pyproject.toml."""

import importlib
import importlib.metadata
import re
import shutil
import tomllib
from pathlib import Path

import pytest
import yaml
from hatchling.metadata.core import CoreMetadata, ProjectMetadata
from hatchling.plugin.manager import PluginManager
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import offdyn

pytestmark = pytest.mark.smoke

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# lock -> extras it holds beside the run-time dependencies
EXTRAS_OF = {"run": [], "dev": ["render", "slurm", "optuna", "dev"], "cluster": ["ray", "slurm"]}
PYTHONS = ["3.11", "3.12", "3.13"]


def entries(lock: str) -> list[str]:
    """The lock's requirements, each with its hashes, as one logical line."""
    lines = (ROOT / "requirements" / f"{lock}.txt").read_text().replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def pins(lock: str, python: str) -> dict[str, str]:
    """Package -> version that the lock gives to one Python on Linux."""
    environment = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
    found = [Requirement(entry.split("--hash")[0]) for entry in entries(lock)]
    applying = [one for one in found if one.marker is None or one.marker.evaluate(environment)]
    versions = {canonicalize_name(one.name): next(iter(one.specifier)).version for one in applying}
    assert len(versions) == len(applying), f"requirements/{lock}.txt gives Python {python} two versions of one package"
    return versions


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("lock", EXTRAS_OF)
def test_every_lock_satisfies_what_pyproject_asks_for(lock: str, python: str) -> None:
    asked = PROJECT["dependencies"] + [
        line for extra in EXTRAS_OF[lock] for line in PROJECT["optional-dependencies"][extra]
    ]
    locked = pins(lock, python)
    unmet = [
        line
        for line in map(Requirement, asked)
        if not line.specifier.contains(locked.get(canonicalize_name(line.name), "0"), prereleases=True)
    ]
    assert not unmet, f"requirements/{lock}.txt lacks {unmet}: run make lock"


@pytest.mark.parametrize("python", PYTHONS)
def test_both_locks_agree_on_every_version(python: str) -> None:
    run, dev = pins("run", python), pins("dev", python)
    assert run == {name: dev.get(name) for name in run}


@pytest.mark.parametrize("python", ["3.12", "3.13"])
def test_newer_pythons_get_the_versions_of_the_gpu_results(python: str) -> None:
    held_back = {"jax": "0.11.2", "jaxlib": "0.11.2", "numpy": "2.5.2"}
    assert held_back.items() <= pins("run", python).items()


@pytest.mark.parametrize("lock", EXTRAS_OF)
def test_every_locked_package_is_pinned_with_a_hash(lock: str) -> None:
    assert entries(lock)
    for entry in entries(lock):
        assert re.match(r"[A-Za-z0-9._-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", entry), entry[:80]


def test_requirement_files_name_no_host() -> None:
    for file in sorted((ROOT / "requirements").iterdir()):
        assert "://" not in file.read_text(), f"{file.name} holds a URL"


def test_one_version_everywhere() -> None:
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert newest is not None
    assert newest[1] == offdyn.__version__
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == offdyn.__version__


def test_the_installed_package_is_the_version_in_the_tree() -> None:
    assert importlib.metadata.version("offdyn") == offdyn.__version__


def test_the_console_script_imports() -> None:
    for target in PROJECT["scripts"].values():
        module, function = target.split(":")
        assert callable(getattr(importlib.import_module(module), function))


LINK = re.compile(r"\]\(([^)]+)\)")


def metadata(root: Path) -> CoreMetadata:
    """What a wheel built here says of itself."""
    return ProjectMetadata(str(root), PluginManager()).core


def test_no_link_of_the_long_description_leads_to_a_file_beside_it() -> None:
    said = metadata(ROOT).readme
    assert "pip install" in said
    assert "[Getting started]" in (ROOT / "README.md").read_text()
    assert [link for link in LINK.findall(said) if "://" not in link] == []


def test_where_the_address_is_known_links_are_absolute_and_the_index_shows_it(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "CITATION.cff"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "offdyn").mkdir()
    shutil.copy(ROOT / "offdyn" / "__init__.py", tmp_path / "offdyn")
    with (tmp_path / "CITATION.cff").open("a") as citation:
        citation.write('repository-code: "https://example.org/offdyn/"\n')
    made = metadata(tmp_path)
    assert made.urls["Repository"] == "https://example.org/offdyn"
    links = LINK.findall(made.readme)
    assert "https://example.org/offdyn/raw/main/docs/pictures/tasks.png" in links
    assert "https://example.org/offdyn/blob/main/docs/index.md" in links
    assert all(link.startswith("https://") for link in links)
