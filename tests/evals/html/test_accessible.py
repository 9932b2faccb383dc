"""The pages for everyone: names, roles, contrast and focus. Axe judges them, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page
from tests.browser import DESKTOP, PHONE, axe_script
from tests.evals.html.conftest import OpenPage
from tests.evals.html.eval_views import support_eval, written

#: WCAG 2 AA for normal text.
CONTRAST = 4.5

#: The contrast of every element with text of its own, over the first background behind it.
CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
  const over = (top, under) => [0, 1, 2].map((n) => top[n] * top[3] + under[n] * (1 - top[3]));
  const behind = (one) => one === null ? [255, 255, 255] : (() => { const own = rgba(getComputedStyle(one).backgroundColor); return own[3] === 1 ? own : over(own, behind(one.parentElement)); })();
  const light = (rgb) => { const [r, g, b] = rgb.map((part) => { part /= 255; return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const contrast = (one) => { const pair = [light(behind(one)), light(rgba(getComputedStyle(one).color))].sort((a, b) => b - a); return (pair[0] + 0.05) / (pair[1] + 0.05); };
  return [...document.body.querySelectorAll("*")]
    .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) && one.checkVisibility() && !one.disabled && !one.matches("script, noscript"))
    .map((one) => [contrast(one), one.tagName + "." + one.className + " " + one.textContent.slice(0, 40)]);
}"""


def low_contrasts(page: Page) -> list[Any]:
    found = page.evaluate(CONTRASTS)
    assert len(found) > 40
    return [each for each in found if each[0] < CONTRAST]


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_enough_contrast(tmp_path: Path, open_page: OpenPage, dark: bool) -> None:
    page = open_page(written(tmp_path, support_eval()), dark=dark)
    assert low_contrasts(page) == []
    page.get_by_label("Status", exact=True).select_option("Failed")
    page.locator(".is-fail").first.click()
    assert low_contrasts(page) == []


def test_the_page_has_landmarks_names_and_one_way_in(tmp_path: Path, open_page: OpenPage) -> None:
    page = open_page(written(tmp_path, support_eval()))
    for role in ("banner", "main", "search"):
        assert page.get_by_role(role).count() == 1, role
    assert page.locator("html").get_attribute("lang") == "en"
    unnamed = page.evaluate(
        "() => [...document.querySelectorAll('button, input, select, table, dialog')].filter((one) =>"
        " !(one.ariaLabel || one.getAttribute('aria-labelledby') || one.textContent.trim() || one.labels?.length || one.caption)).length"
    )
    assert unnamed == 0
    assert page.locator("[role=gridcell][tabindex='0']").count() == 1, "Tab reaches the matrix once"
    grid = page.get_by_role("grid")
    assert grid.get_attribute("aria-rowcount") == "49"
    page.locator("[role=gridcell]").first.focus()
    page.keyboard.press("ArrowDown")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_serious(
    tmp_path: Path, open_page: OpenPage, size: tuple[int, int], dark: bool
) -> None:
    page = open_page(written(tmp_path, support_eval()), size, dark=dark)
    assert serious(page) == []
    page.locator("[role=gridcell]").nth(1).click()
    assert serious(page) == []


def serious(page: Page) -> list[str]:
    """What axe finds, from serious on."""
    page.evaluate(axe_script())
    found: list[dict[str, Any]] = page.evaluate("async () => (await axe.run()).violations")
    return [
        f"{each['id']}: {node['html'][:200]}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]
