"""Files that are too long: parts at definitions, no line lost or doubled."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.reviews.files.definitions import definition_starts
from headway.reviews.files.splitting import head_of, part_lines, parts_of

PYTHON = """\
import os

LIMIT = 3


# Says what the class is.
@decorated
class First:
    x = 1

    def one(self):
        return 1

    @property
    def two(self):
        return 2


def second():
    def inner():
        return 3

    return inner
"""
SCRIPT = """\
import a from "a";

/** Adds. */
export function add(x, y) {
  const sum = x + y;
  return sum;
}

// A class.
class Store {
  get(key) {
    return this.map[key];
  }
}

const arrow = () => {
  return 1;
};
"""
TYPED = """\
interface Shape {
  area(): number;
}

export abstract class Base<T> {
  // Makes one.
  make(): T {
    return null as T;
  }
}

type Name = string;
"""
GO = """\
package main

import "fmt"

// T is a type.
type T struct {
\tx int
}

// M prints.
func (t T) M() {
\tfmt.Println(t.x)
}
"""
RUST = """\
use std::fmt;

/// A point.
#[derive(Debug)]
struct Point {
    x: i32,
}

impl Point {
    /// Makes one.
    fn new() -> Self {
        Point { x: 0 }
    }
}
"""
JAVA = """\
package a;

/** A box. */
public class Box {
    private int size;

    /** Opens. */
    @Override
    public void open() {
        size = 1;
    }
}
"""
C = """\
#include <stdio.h>

/* A point. */
struct point {
    int x;
};

static int
add(int a, int b)
{
    struct point p;
    return a + b;
}
"""


@pytest.mark.parametrize(
    ("path", "text", "starts"),
    [
        ("a.py", PYTHON, {6: 0, 11: 1, 14: 1, 19: 0, 20: 1}),
        ("a.js", SCRIPT, {3: 0, 9: 0, 11: 1, 16: 0}),
        ("a.jsx", SCRIPT, {3: 0, 9: 0, 11: 1, 16: 0}),
        ("a.ts", TYPED, {1: 0, 5: 0, 6: 1, 12: 0}),
        ("a.tsx", TYPED, {1: 0, 5: 0, 6: 1, 12: 0}),
        ("a.go", GO, {5: 0, 10: 0}),
        ("a.rs", RUST, {3: 0, 9: 0, 10: 1}),
        ("A.java", JAVA, {3: 0, 7: 1}),
        ("a.c", C, {3: 0, 8: 0}),
        ("a.txt", PYTHON, {}),
    ],
)
def test_definitions_begin_with_their_comments_and_decorators(
    path: str, text: str, starts: dict[int, int]
) -> None:
    assert definition_starts(path, text.splitlines()) == starts


def functions(count: int, lines: int) -> list[str]:
    """A Python file of functions of the same length, with two empty lines between them."""
    text: list[str] = ["import os", "", ""]
    for number in range(count):
        text += [f"def f{number}():", *["    x = 1"] * (lines - 1), "", ""]
    return text


def test_a_file_that_fits_is_one_part() -> None:
    lines = functions(3, 5)
    size = sum(len(line) + 1 for line in lines)
    assert [(part.first_line, part.last_line) for part in parts_of("a.py", lines, size)] == [(1, len(lines))]
    assert len(parts_of("a.py", lines, size - 1)) == 2
    assert len(parts_of("a.py", lines, 0)) == 1


def test_parts_begin_at_definitions() -> None:
    lines = functions(40, 10)
    parts = parts_of("a.py", lines, 1000)
    assert len(parts) > 4
    assert [part.number for part in parts] == list(range(len(parts)))
    assert all(lines[part.first_line - 1].startswith("def f") for part in parts[1:])


def test_a_function_that_fits_is_not_torn() -> None:
    lines = [*functions(1, 4), *functions(1, 60)[3:]]
    parts = parts_of("a.py", lines, 640)
    assert [part.first_line for part in parts] == [1, 10]


def test_a_long_class_is_split_at_its_methods() -> None:
    lines = ["class C:"]
    for number in range(30):
        lines += [f"    def m{number}(self):", *["        x = 1"] * 9, ""]
    parts = parts_of("a.py", lines, 1500)
    assert all(lines[part.first_line - 1].startswith("    def m") for part in parts[1:])


def test_the_last_part_is_not_a_rest_of_a_few_lines() -> None:
    lines = functions(20, 10)
    size = sum(len(line) + 1 for line in lines)
    first, second = parts_of("a.py", lines, size - 50)
    assert second.last_line - second.first_line > 50
    assert first.last_line + 1 == second.first_line


def test_other_languages_are_split_at_empty_lines_and_indentation() -> None:
    lines = []
    for number in range(30):
        lines += [f"block {number}", *["  inner", "", "  more"] * 3, ""]
    parts = parts_of("a.cfg", lines, 400)
    assert all(lines[part.first_line - 1].startswith("block") for part in parts[1:])


def test_the_head_is_what_comes_before_the_first_definition() -> None:
    lines = functions(3, 5)
    assert head_of("a.py", lines, 1000) == ("import os",)
    assert head_of("a.py", PYTHON.splitlines(), 1000) == ("import os", "", "LIMIT = 3")
    assert head_of("a.py", PYTHON.splitlines(), 12) == ("import os",)
    assert head_of("a.py", functions(1, 5)[3:], 1000) == ()
    assert len(head_of("a.cfg", ["x = 1"] * 500, 10_000)) == 60


@pytest.mark.parametrize(
    "text", ["def f(:\n" * 300, "((((" * 5_000, "{" * 20_000 + "\n" + "x\n" * 100, "\x00\ud800\n" * 500]
)
@pytest.mark.parametrize("path", ["a.py", "a.ts", "a.c", "a.rs"])
def test_a_file_with_errors_is_split_all_the_same(path: str, text: str) -> None:
    lines = text.split("\n")
    parts = parts_of(path, lines, 300)
    assert rejoined(lines, path, 300) == lines
    assert parts[-1].last_line == len(lines)


LINES = st.lists(
    st.sampled_from(
        ["", "x", "def f():", "class C:", "    def m(self):", "        return 1", "# note", "y" * 90, "@d"]
    ),
    min_size=1,
    max_size=120,
)


def rejoined(lines: Sequence[str], path: str, most: int) -> list[str]:
    return [line for part in parts_of(path, lines, most) for line in part_lines(lines, part)]


@given(LINES, st.integers(1, 400), st.sampled_from(["a.py", "a.txt"]))
def test_no_line_is_lost_or_doubled_and_every_part_fits(lines: list[str], most: int, path: str) -> None:
    assert rejoined(lines, path, most) == lines
    for part in parts_of(path, lines, most):
        size = sum(len(line) + 1 for line in part_lines(lines, part))
        assert size <= most or part.first_line == part.last_line
