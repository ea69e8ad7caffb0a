#!/usr/bin/env python3
"""Carries lines over with tools/scripts/carry_winners.py between two texts of a template that are only said to compile: what the code of a
config is stands here."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools" / "scripts"))
import carry_winners  # noqa: E402

LINE = ('{"op":"gemm","arch":"sm_90a","problem":{"class":"gemm layout=nn","extents":{"m":1,"n":2,"k":3,"batch":1}},"template":"old",'
        '"family":"gemm/x","config":{"block_m":64,"stages":3},"evidence":{"finalists":[{"config":{"block_m":64,"stages":3}}]}}')


class Text:
    """A text of the template: `code` makes what a config compiles to; a config that it refuses does not compile."""

    def __init__(self, identity, parameters, code):
        self.identity, self.parameters, self.code = identity, parameters, code

    def identities(self, ops):
        return {"gemm/x": self.identity}

    def parameters_of(self, winner):
        return self.parameters

    def code_of(self, winner, config):
        code = self.code(config)
        if code is None:
            raise carry_winners.CommandFailed("not legal")
        return code


OLD = Text("old", [("block_m", "compile", [64, 128]), ("stages", "launch", [2, 3])], lambda config: config["block_m"])


def carried(parameters, code):
    line, behind = carry_winners.Carrier(Text("new", parameters, code), OLD, {"gemm"}).carried(LINE)
    return json.loads(line), behind


def with_parameter(kind, values):
    return [OLD.parameters[0], ("persistent", kind, values), OLD.parameters[1]]


def main():
    failures = []

    def expect(what, found, wanted):
        if found != wanted:
            failures.append(f"{what}: {found}, not {wanted}")

    line, behind = carried(OLD.parameters, lambda config: config["block_m"])
    expect("the same code", (line["template"], behind), ("new", None))
    line, behind = carried(OLD.parameters, lambda config: 1)
    expect("other code", (line["template"], behind is None), ("old", False))
    # 0 is refused, 1 compiles to other code, 2 to the same.
    codes = {0: None, 1: 65, 2: 64}
    line, behind = carried(with_parameter("compile", [0, 1, 2]), lambda config: codes[config["persistent"]])
    expect("a new compile parameter", (list(line["config"].items()), behind),
           ([("block_m", 64), ("persistent", 2), ("stages", 3)], None))
    expect("the finalists", line["evidence"], json.loads(LINE)["evidence"])
    line, behind = carried(with_parameter("launch", [0, 1]), lambda config: config["block_m"])
    expect("a new launch parameter", (line["template"], behind is None), ("old", False))
    print("\n".join(failures) or "carried as expected")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
