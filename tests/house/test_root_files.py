"""The files that hosts and tools read in the root: citation, container, form of an objection."""

import json
import re
import subprocess
import tomllib

import pytest
import yaml
from house import ROOT

from ppkit.verdicts import ledger, statements


def read_yaml(name: str) -> dict:
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


def test_the_citation_has_the_version_and_the_four_papers():
    citation = read_yaml("CITATION.cff")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == project["version"]
    titles = {" ".join(paper["title"].split()) for paper in citation["references"]}
    assert titles == set(statements.titles().values())
    assert all(paper["authors"] and paper["year"] for paper in citation["references"])


def test_the_newest_release_of_the_changelog_is_this_version_and_its_day():
    releases = re.findall(r"(?m)^## (\S+) - (\S+)$", (ROOT / "CHANGELOG.md").read_text())
    citation = read_yaml("CITATION.cff")
    assert releases[0] == (citation["version"], str(citation["date-released"]))


def test_a_paper_has_the_same_title_authors_and_doi_on_the_page_of_references():
    page = " ".join((ROOT / "docs/references.md").read_text("utf-8").split())
    for paper in read_yaml("CITATION.cff")["references"]:
        assert " ".join(paper["title"].split()) in page
        for author in paper["authors"]:
            assert f"{author['given-names'][0]}. " in page and author["family-names"] in page
        dois = [paper["doi"]] if "doi" in paper else []
        dois += [one["value"] for one in paper.get("identifiers", [])]
        for doi in dois:
            assert f"https://doi.org/{doi}" in page


def test_the_form_of_an_objection_asks_for_three_things_and_for_authors():
    fields = {
        field["id"]: field
        for field in read_yaml(".github/ISSUE_TEMPLATE/object_to_a_verdict.yml")["body"]
        if field["type"] != "markdown"
    }
    required = {
        name for name, field in fields.items() if field.get("validations", {}).get("required")
    }
    assert required == {"row", "why", "settles"}
    assert fields["author"]["attributes"]["options"]


def test_the_example_row_of_the_form_is_a_row():
    form = read_yaml(".github/ISSUE_TEMPLATE/object_to_a_verdict.yml")
    row = next(field for field in form["body"] if field.get("id") == "row")
    example = row["attributes"]["description"].split()[-1]
    assert example in {row.id for row in ledger.merge([])}


def test_the_container_makes_the_environment():
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text("utf-8"))
    assert container["postCreateCommand"] == "make environment"
    assert container["image"].startswith("python:3.11")


@pytest.mark.processes
def test_no_file_names_the_host_of_a_package_registry():
    """What is installed comes from the index that the machine is set up with."""
    hosts = [".".join(("pypi", "org")), ".".join(("files", "pythonhosted", "org"))]
    kept = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, kept.stdout.decode().split("\0")):
        text = (ROOT / name).read_bytes()
        assert [host for host in hosts if host.encode() in text] == [], name


@pytest.mark.processes
@pytest.mark.parametrize("package", ["ppkit", "spnn_system", "tools", "tests"])
def test_git_ignores_no_source(package):
    """A line such as `runs/` in .gitignore hides a folder of that name at every depth."""
    asked = ["git", "check-ignore", "--no-index", "--stdin"]
    files = [path for path in (ROOT / package).rglob("*") if "__pycache__" not in path.parts]
    sources = [path.relative_to(ROOT).as_posix() for path in files if path.is_file()]
    found = subprocess.run(asked, cwd=ROOT, input="\n".join(sources).encode(), capture_output=True)
    assert sources and found.stdout.decode().split() == []
