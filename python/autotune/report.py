"""The command's page of winners, rivals and searches, in a notebook."""

import html
import os
import tempfile
from typing import Any, Optional

from ._checked import Path
from .command import run_json
from .tuning import _flags


class Report:
    """A self-contained HTML page. The last expression of a notebook's cell shows it; `save` writes it."""

    def __init__(self, page: str):
        self.page = page

    def save(self, path: str) -> str:
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.page)
        return path

    def _repr_html_(self) -> str:
        # The page gets a frame of its own, so that its styles do not change the notebook's. It runs no script and fetches
        # nothing.
        return f'<iframe sandbox srcdoc="{html.escape(self.page)}" style="width:100%;height:720px;border:0"></iframe>'


def report(*, database: Optional[Path] = None, **options: Any) -> Report:
    """The page of `autotune report --html`; options are its flags. Raises CommandError."""
    with tempfile.TemporaryDirectory(prefix="autotune-report-") as folder:
        path = os.path.join(folder, "report.html")
        run_json(["report", "--html", path, *_flags(dict(db=database, **options))])
        with open(path, encoding="utf-8") as file:
            return Report(file.read())
