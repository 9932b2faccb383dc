"""`[review]` in headway.toml, and the instructions for parts of a tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.config import load
from headway.config.settings import ReviewConfig, ReviewInstruction
from headway.errors import ConfigError, UsageError
from headway.reviews.files.instructions import Instructions

REVIEW = """
[review]
concurrency = "auto"
include = ["src/**"]
exclude = ["*.gen.py"]
max_file_size = "2MB"
max_part_tokens = 5000
out_dir = "out/reviews"

[[review.instructions]]
path = "tests/**"
text = '''
A test needs no docstring.
It sleeps nowhere.
'''

[[review.instructions]]
path = "*.py"
text = "Python 3.11."
"""


def loaded(directory: Path, text: str) -> ReviewConfig:
    path = directory / "headway.toml"
    path.write_text(text, encoding="utf-8")
    return load(path, directory, {}).review


def test_every_key_is_read(tmp_path: Path) -> None:
    review = loaded(tmp_path, REVIEW)
    assert (review.concurrency, review.include, review.exclude) == (0, ("src/**",), ("*.gen.py",))
    assert (review.max_file_size, review.max_part_tokens, review.out_dir) == (2_000_000, 5000, "out/reviews")
    instructions = Instructions(review.instructions)
    assert instructions.of_file("tests/a/test_b.py") == (
        "A test needs no docstring.\nIt sleeps nowhere.\n\nPython 3.11."
    )
    assert instructions.of_file("src/a.py") == "Python 3.11."
    assert instructions.of_file("src/a.js") == ""


def test_the_defaults_are_those_of_the_page(tmp_path: Path) -> None:
    assert loaded(tmp_path, "") == ReviewConfig()
    text = 'concurrency = 4\nmax_file_size = "1MB"\nmax_part_tokens = 30000\nout_dir = ".headway/reviews"\n'
    assert loaded(tmp_path, "[review]\n" + text) == ReviewConfig()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[review]\nconcurrency = 0", 'review.concurrency: expected "auto" or a whole number of 1 or more'),
        ("[review]\ninclude = 'a'", "review.include: expected a list of patterns"),
        ("[review]\nout_dir = '/tmp'", "review.out_dir: expected a folder below the tree"),
        ("[review]\nconcurency = 1", "review.concurency: unknown key; did you mean 'concurrency'"),
        ("[review]\ninstructions = 'a'", "review.instructions: expected tables"),
        ("[[review.instructions]]\npath = 'a'", r"review.instructions\[0\].text: missing"),
        (
            "[[review.instructions]]\npath = 'a'\ntext = ' '",
            r"review.instructions\[0\].text: expected a text",
        ),
        ("[reviews]\nconcurrency = 1", "reviews: unknown table; did you mean 'review'"),
    ],
)
def test_an_error_names_the_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        loaded(tmp_path, text)


def test_a_wrong_pattern_of_an_instruction_is_named() -> None:
    with pytest.raises(UsageError, match="'!' is not a pattern"):
        Instructions([ReviewInstruction("!", "text")])
