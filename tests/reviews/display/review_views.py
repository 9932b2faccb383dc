"""Reviews as views, built from records: a readable one for pictures and filters, hostile ones, and large ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import structs

from headway.reviews.findings.fingerprint import fingerprint
from headway.reviews.records import (
    SEVERITIES,
    FileReview,
    FileStatus,
    Finding,
    ReviewTotals,
    ReviewView,
)

AXES = ("correctness", "security", "performance", "readability")
START = 1_794_000_000.0


def finding(path: str = "src/shop/cart.py", **changes: Any) -> Finding:
    """A finding; `changes` are its fields."""
    base = Finding(
        file=path,
        axis="security",
        rule="sql-injection",
        severity="high",
        confidence=0.9,
        start_line=41,
        end_line=42,
        quote="    query = f\"SELECT * FROM carts WHERE owner = '{owner}'\"\n    return db.execute(query).fetchall()",
        message="The owner comes from the request and becomes part of the query. A visitor can read every cart with `' OR 1=1 --`.",
        suggestion='Pass it as a parameter: db.execute("SELECT * FROM carts WHERE owner = ?", (owner,)).',
        axes=("security",),
    )
    made = structs.replace(base, **changes)
    return structs.replace(made, fingerprint=fingerprint(made.rule, made.file, made.quote))


def shop_files() -> tuple[FileReview, ...]:
    """Five files of a small shop, in all states."""
    cart = (
        finding(severity="critical", axes=("correctness", "security")),
        finding(axis="correctness", axes=("correctness",), rule="off-by-one", severity="high", confidence=0.75, start_line=77, end_line=77,
                quote="    for place in range(1, len(items)):", message="The first item is skipped: prices are summed from the second one on.",
                suggestion="Start at 0, or iterate over the items."),
        finding(axis="performance", axes=("performance",), rule="query-in-loop", severity="medium", confidence=0.8, start_line=90, end_line=93,
                quote="    for item in items:\n        stock = db.execute(STOCK, (item.id,)).fetchone()\n        if stock is None:\n            missing.append(item)",
                message="One query for each item of the cart. A cart of 200 items takes 200 round trips.", suggestion="Load the stock of all items with one query."),
        finding(axis="readability", axes=("readability",), rule="magic-value", severity="low", confidence=0.6, start_line=12, end_line=12,
                quote="    return price * 1.19", message="1.19 is the German VAT rate, which the name does not say.", suggestion="VAT_DE = 1.19"),
        finding(axis="readability", axes=("readability",), rule="unclear-contract", severity="info", confidence=0.4, start_line=20, end_line=20,
                quote="def checkout(cart, options=None):", message="What `options` may have cannot be seen.", suggestion=""),
        finding(rule="weak-cryptography", severity="high", start_line=140, end_line=140, quote="    token = uuid4().hex", mark="refuted",
                mark_reason="uuid4 takes its random numbers from the operating system."),
        finding(rule="secret-in-code", severity="high", start_line=400, end_line=400, quote="API_KEY = 'live-…'", mark="no_such_line"),
    )  # fmt: skip
    mail = (
        finding("src/shop/mail.py", axis="correctness", axes=("correctness",), rule="lost-error", severity="medium", confidence=0.85, start_line=33, end_line=35,
                quote="    except Exception:\n        pass", message="A mail that cannot be sent is lost without a trace.", suggestion="Log it and raise."),
        finding("src/shop/mail.py", rule="secret-in-log", severity="high", start_line=51, end_line=51, quote="    log.info('login %s %s', user, password)",
                message="The password is written to the log.", suggestion="Leave it out.", mark="ignored", mark_reason="only in the demo"),
    )  # fmt: skip
    done: dict[str, FileStatus] = dict.fromkeys(AXES, "DONE")
    return (
        FileReview(path="src/shop/cart.py", hash="a1", status="DONE", updated_utc=START + 60, axes=done, findings=cart, cost_usd=0.041, tokens=18_230),
        FileReview(path="src/shop/legacy.py", hash="a4", status="TIMEOUT", updated_utc=START + 95, error="no answer within 600 s",
                   axes={**done, "security": "TIMEOUT"}, cost_usd=0.02, tokens=9_000),
        FileReview(path="src/shop/mail.py", hash="a2", status="CACHED", updated_utc=START + 5, axes=dict.fromkeys(AXES, "CACHED"), findings=mail, cost_usd=0.0),
        FileReview(path="src/shop/models.py", hash="a3", status="DONE", updated_utc=START + 80, axes=done, cost_usd=0.017, tokens=8_120),
        FileReview(path="src/shop/payments.py", hash="a5", status="ERROR", updated_utc=START + 90, error="429 after 5 retries: rate limit of the account",
                   axes={**done, "security": "ERROR", "performance": "ERROR"}, cost_usd=0.011, tokens=4_400),
    )  # fmt: skip


def view_of(files: Callable[[], Iterator[FileReview]], **changes: Any) -> ReviewView:
    """A view with these files, and the totals that follow from them."""
    status = [review.status for review in files()]
    totals = ReviewTotals(
        files=len(status),
        reviewed=status.count("DONE"),
        cached=status.count("CACHED"),
        failed=status.count("ERROR") + status.count("TIMEOUT"),
        skipped=status.count("PENDING") + status.count("IN_PROGRESS"),
        cost_usd=sum(review.cost_usd or 0.0 for review in files()),
        tokens=sum(review.tokens for review in files()),
        left_out=len(changes.get("left_out", {})),
    )
    values: dict[str, Any] = {
        "job": "review-shop",
        "state": "complete",
        "root": "/srv/work/shop",
        "created_utc": START,
        "finished_utc": START + 100,
        "axes": AXES,
        "model": "claude-sonnet-4",
        "left_out": {},
        **changes,
    }
    return ReviewView(files=files, totals=totals, **values)


def shop_review(**changes: Any) -> ReviewView:
    """The review of the shop."""
    left_out = {"package-lock.json": "generated", "logo.png": "binary", "vendor/": "vendored"}
    return view_of(lambda: iter(shop_files()), left_out=left_out, **changes)


def large_review(files: int, findings: int) -> ReviewView:
    """Many files with many findings each, made while they are read."""

    def each() -> Iterator[FileReview]:
        for number in range(files):
            path = f"src/part{number // 100:03}/module{number:05}.py"
            found = tuple(
                finding(path, severity=SEVERITIES[(number + place) % 5], axis=AXES[place % 4], start_line=10 * place + 1, end_line=10 * place + 2,
                        quote=f"value_{place} = compute({number})", message=f"Finding {place} of file {number}: the value may be missing.")
                for place in range(findings)
            )  # fmt: skip
            yield FileReview(
                path=path, hash=f"h{number}", status="DONE", axes=dict.fromkeys(AXES, "DONE"), findings=found, cost_usd=0.01, tokens=1000,
            )  # fmt: skip

    return view_of(each)


#: Text that tries to end scripts and fences, to become markup, links and mentions, to change the terminal and the order of text.
HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>```\n~~~\n@everyone #1 [click](https://evil.example) https://evil.example "
    "\x1b[2J\u202eback <!-- --> &lt; `unfinished {0} \ud800 $x$ ![i](http://evil.example/i.png)"
)


def hostile_review() -> ReviewView:
    """A review whose texts are all hostile."""
    path = f"src/{HOSTILE}.py".replace("://", ":/")
    found = finding(path, message=HOSTILE, suggestion=f"{HOSTILE}\n{HOSTILE}", quote=HOSTILE, severity="high")
    marked = finding(
        path, message=HOSTILE, rule="race", quote=f"x {HOSTILE}", mark="refuted", mark_reason=HOSTILE
    )
    files = (
        FileReview(path=path, hash="h", status="DONE", axes={HOSTILE: "DONE"}, findings=(found, marked)),
        FileReview(path=f"{path}2", hash="h", status="ERROR", error=HOSTILE, axes={HOSTILE: "ERROR"}),
    )
    return view_of(
        lambda: iter(files),
        left_out={HOSTILE: HOSTILE},
        axes=("security", HOSTILE),
        model=HOSTILE,
        job=HOSTILE,
    )
