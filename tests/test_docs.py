"""The README and the pages in docs/ say what is so.

Every ```python block runs: the blocks of a page in order, in one namespace, as a reader would paste
them. The README's two commands, .ci/run and the relative links are checked too.
"""

import re
import sys
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    path
    for path in (
        ROOT / "README.md",
        ROOT / "CHANGES.md",
        ROOT / "benchmarks" / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    )
    if path.exists()
]
FENCE = re.compile(r"^(?P<indent> *)(?P<mark>`{3,}|~{3,})(?P<info>[^`\n]*)$")
PYTHON_NAMES = ("python", "py", "python3", "pycon")


@dataclass(frozen=True)
class Block:
    language: str  # the first word after the fence; "" for none
    line: int  # of its first line of text, counted from 1
    text: str


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks of a Markdown page, those indented in lists and notes too."""
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    number = 0
    while number < len(lines):
        opening = FENCE.match(lines[number])
        number += 1
        if not opening:
            continue
        start = number
        closing = re.compile(rf"^ *{re.escape(opening['mark'][0])}{{{len(opening['mark'])},}} *$")
        while number < len(lines) and not closing.match(lines[number]):
            number += 1
        assert number < len(lines), f"{page.name}:{start}: this block never ends"
        words = opening["info"].strip().strip("{}").split()
        text = textwrap.dedent("\n".join(lines[start:number]))
        found.append(Block(words[0].lstrip(".") if words else "", start + 1, text))
        number += 1
    return found


def python_blocks(page: Path) -> list[Block]:
    for block in blocks_of(page):
        where = f"{page.name}:{block.line}"
        assert block.language in ("python", *set(TEXT_LANGUAGES)), (
            f"{where}: a block of language {block.language!r}, which no test runs. "
            f"Call it python, or one of {TEXT_LANGUAGES}"
        )
    return [block for block in blocks_of(page) if block.language == "python"]


TEXT_LANGUAGES = ("bash", "text", "toml", "yaml", "mermaid")


def run_page(page: Path) -> int:
    """Execute the page's python blocks in one fresh module; return how many there were."""
    module = types.ModuleType("__main__")
    blocks = python_blocks(page)
    real_main = sys.modules["__main__"]
    sys.modules["__main__"] = module  # dataclasses and pickle look their module up by name
    try:
        for block in blocks:
            # Blank lines in front, so that a traceback tells the line in the page.
            source = "\n" * (block.line - 1) + block.text
            exec(compile(source, str(page), "exec"), module.__dict__)
    finally:
        sys.modules["__main__"] = real_main
    return len(blocks)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a block may write a file
    run_page(page)


def test_pages_have_blocks() -> None:
    """A collector that finds nothing would pass every page."""
    assert {page.name for page in PAGES} >= {"README.md", "index.md", "derivatives.md"}
    without = {page.name for page in PAGES if page.parent != ROOT and not python_blocks(page)}
    assert without <= {"README.md", "architecture.md", "api.md"}
    assert python_blocks(ROOT / "README.md")


@pytest.mark.parametrize(
    "fence",
    [
        "```python\nassert value == 2\n```\n",
        "````python\nassert value == 2\n````\n",
        "~~~python\nassert value == 2\n~~~\n",
        "``` python title='x'\nassert value == 2\n```\n",
        "1. A list:\n\n    ```python\n    assert value == 2\n    ```\n",
    ],
)
def test_runner_finds_a_failing_block(tmp_path: Path, fence: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n```python\nvalue = 1\n```\n\n{fence}", encoding="utf-8")
    with pytest.raises(AssertionError) as caught:
        run_page(page)
    last = caught.traceback[-1]
    assert str(last.path) == str(page)
    assert "assert value == 2" in page.read_text().splitlines()[last.lineno]


@pytest.mark.parametrize("language", ["", *sorted(set(PYTHON_NAMES) - {"python"}), "Python"])
def test_runner_rejects_a_block_it_would_skip(tmp_path: Path, language: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```{language}\nassert False\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="which no test runs"):
        run_page(page)


def test_blocks_of_a_page_share_names_and_pages_do_not(tmp_path: Path) -> None:
    first, second = tmp_path / "first.md", tmp_path / "second.md"
    first.write_text("```python\nx = 1\n```\n```python\nassert x == 1\n```\n", encoding="utf-8")
    second.write_text("```python\nx\n```\n", encoding="utf-8")
    assert run_page(first) == 2
    with pytest.raises(NameError):
        run_page(second)


# The README's commands


def readme_commands() -> list[str]:
    blocks = [block for block in blocks_of(ROOT / "README.md") if block.language == "bash"]
    lines = [line for block in blocks for line in block.text.splitlines()]
    return [line for line in lines if line.startswith("python3 -m venv ")]


def test_readme_has_two_commands() -> None:
    commands = readme_commands()
    assert len(commands) == 2, commands
    example, test = commands
    script = re.search(r"examples/\w+\.py", example)
    assert script, example
    assert (ROOT / script[0]).is_file()
    assert '-e ".[examples]"' in example
    assert '-e ".[test]"' in test
    assert test.endswith("-m pytest")


def test_ci_runs_the_readme_test_command() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert lines.count(readme_commands()[1]) == 1


# Links

LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)|!\[[^\]]*\]\((?P<image>[^)\s]+)\)")


def prose_of(page: Path) -> Iterator[tuple[int, str]]:
    """The lines outside of fenced blocks, numbered from 1, without `code`."""
    fenced: set[int] = set()
    for block in blocks_of(page):
        fenced.update(range(block.line - 1, block.line + block.text.count("\n") + 2))
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if number not in fenced:
            yield number, re.sub(r"`[^`]*`", lambda code: code[0].replace("(", ""), line)


def anchors_of(page: Path) -> set[str]:
    headings = (line for _, line in prose_of(page) if re.match(r"#{1,6} ", line))
    plain = (re.sub(r"[^\w\s-]", "", line.lstrip("# ").lower()) for line in headings)
    return {re.sub(r"\s+", "-", words.strip()) for words in plain}


def broken_links(page: Path) -> list[str]:
    broken: list[str] = []
    for number, line in prose_of(page):
        for link in LINK.finditer(line):
            target = link["target"] or link["image"]
            if re.match(r"[a-z][a-z+.-]*:", target):
                continue  # another site: no test needs the network
            file, _, anchor = target.partition("#")
            path = (page.parent / file) if file else page
            if not path.exists():
                broken.append(f"{page.name}:{number}: no file {target}")
            elif anchor and anchor not in anchors_of(path):
                broken.append(f"{page.name}:{number}: no heading for {target}")
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_link_checker_rejects(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One two\n[a](none.md) [b](#one-two) [c](#three) [d](https://x.org/none)\n"
        "```text\n[e](none.md)\n```\n![f](none.png)\n",
        encoding="utf-8",
    )
    assert broken_links(page) == [
        "page.md:2: no file none.md",
        "page.md:2: no heading for #three",
        "page.md:6: no file none.png",
    ]


def test_every_page_is_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if not re.search(rf": {re.escape(page)}$", menu, re.M)} == set()
