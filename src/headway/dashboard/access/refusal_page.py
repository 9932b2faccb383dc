"""The pages of somebody without access: plain markup without a script."""

from __future__ import annotations

from typing import Final

_SHELL: Final = '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Headway</title>'

REFUSAL_PAGE: Final = f"""{_SHELL}
<h1>This page needs the address with the token</h1>
<p>Open the URL that <code>headway ui</code> printed in its terminal. It ends with <code>?token=…</code>, and is needed once for each browser.</p>
<p>Is the terminal gone? Start <code>headway ui</code> again: it prints a new one.</p>
</html>
"""
#: Leads on to the address without the token, from this site.
FORWARD_PAGE: Final = f"{_SHELL}<p>Opening the dashboard …</p></html>\n"
