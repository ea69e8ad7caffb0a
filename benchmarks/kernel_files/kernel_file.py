"""Reads a kernel file of one step, for the programs beside this one: they launch its kernel without autotune."""
import pathlib
import re
import sys
import tomllib

FUNCTIONS = {"ceil_div": lambda a, b: -(-a // b), "round_up": lambda a, b: -(-a // b) * b, "min": min, "max": max}
DEVICE = {"smem_per_block": 232448, "sms": 132, "warp": 32}


def python_of(expression):
    """An expression of a kernel file in Python's words. Integers alone: / is //."""
    text = expression.replace("&&", " and ").replace("||", " or ")
    text = re.sub(r"!(?!=)", " not ", text)
    text = re.sub(r"(?<!/)/(?!/)", "//", text)
    choice = re.fullmatch(r"(.*?)\?(.*):(.*)", text)
    if choice:
        condition, then, otherwise = (part.strip() for part in choice.groups())
        text = f"(({then}) if ({condition}) else ({otherwise}))"
    return text.strip()


class File:
    """What a kernel file says of one problem. Parameters stay names; everything else becomes a number."""

    def __init__(self, path, shape, attributes):
        self.path = pathlib.Path(path)
        self.said = tomllib.loads(self.path.read_text())
        op = self.said["op"]
        self.known = dict(DEVICE)
        self.known.update(zip(op["extents"], (int(extent) for extent in shape.split("x"))))
        for attribute in self.said.get("attribute", []):
            self.known[attribute["name"]] = int(attributes.get(attribute["name"], attribute["default"]))
        self.parameters = {p["name"]: self.values(p) for p in self.said["parameter"]}
        self.lets = {name: f"({python_of(text)})" for name, text in self.said.get("let", {}).items()}
        for tensor in self.said["tensor"]:
            for i, stride in enumerate(self.strides(tensor)):
                self.known[f"{tensor['name']}.stride{i}"] = stride
        if len(self.said["step"]) != 1:
            sys.exit(f"{path}: a file of one step is needed")
        self.step = self.said["step"][0]

    @staticmethod
    def values(parameter):
        return [0, 1] if parameter.get("type") == "bool" else parameter["values"]

    def text(self, expression):
        """The expression with lets, extents and attributes put in."""
        text = python_of(expression)
        for _ in self.lets:
            text = re.sub(r"\b[A-Za-z_]\w*\b", lambda m: self.lets.get(m[0], m[0]), text)
        return re.sub(r"\b[A-Za-z_][\w.]*\b", lambda m: str(self.known.get(m[0], m[0])), text)

    def number(self, expression, **parameters):
        return eval(self.text(expression), dict(FUNCTIONS), parameters)

    def strides(self, tensor):
        if "strides" in tensor:
            return [self.number(text) for text in tensor["strides"]]
        steps, step = [], 1
        for extent in reversed(tensor["shape"]):
            steps.append(step)
            step *= self.number(extent)
        return steps[::-1]

    def elements(self, tensor):
        return 1 + sum((self.number(e) - 1) * s for e, s in zip(tensor["shape"], self.strides(tensor)))

    def restrictions(self):
        return [self.text(constraint["holds"]) for constraint in self.said.get("constraint", [])]

    def source(self):
        return self.path.with_suffix(".cu").read_text()

    def defines(self):
        """AUTOTUNE, and the lets that the source uses and no parameter changes."""
        words = set(re.findall(r"\w+", self.source()))
        found = ["-DAUTOTUNE"]
        for name in self.lets:
            if name in words and not set(re.findall(r"[A-Za-z_]\w*", self.text(name))) & set(self.parameters):
                found.append(f"-D{name}={self.number(name)}")
        return found

    def arguments(self, numpy):
        random = numpy.random.default_rng(1)
        tensors = {tensor["name"]: tensor for tensor in self.said["tensor"]}
        found = []
        for argument in self.step["args"]:
            if argument in tensors:
                found.append(random.standard_normal(self.elements(tensors[argument]), dtype=numpy.float32))
            else:
                kind, expression = argument.split(":", 1)
                found.append({"i32": numpy.int32, "f32": numpy.float32, "i64": numpy.int64}[kind](self.number(expression)))
        return found
