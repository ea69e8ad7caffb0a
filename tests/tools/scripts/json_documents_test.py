#!/usr/bin/env python3
"""benchmarks/scripts/json_documents.py: what the scripts read of the forms that --json prints."""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "benchmarks" / "scripts"))
from json_documents import documents  # noqa: E402

TEXT = """note: the part begins
[
{"a": 1},
{"a": "[{"}
]
{ "items":[
{"a": 3}
],"summary":{"tuned":1}}
{"a": 4}
{"a": 5}
done
"""


def main():
    with tempfile.NamedTemporaryFile("w", suffix=".out") as file:
        file.write(TEXT)
        file.flush()
        found = [one["a"] for one in documents(file.name)]
    if found != [1, "[{", 3, 4, 5]:
        raise SystemExit(f"documents() gives {found}")


if __name__ == "__main__":
    main()
