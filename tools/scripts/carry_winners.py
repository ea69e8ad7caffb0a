#!/usr/bin/env python3
"""Gives winners the identity of the present template where it compiles to the same machine code as the one they were measured with, so
that a change which leaves their instances alone does not cost their measurements. Rewrites the files; prints the lines that stay behind.

    tools/scripts/carry_winners.py AUTOTUNE OLD_TEMPLATES [--old-command OLD_AUTOTUNE] FILE.jsonl...

AUTOTUNE: the command with the present templates embedded. OLD_TEMPLATES: a kernel_templates folder of the commit that the winners are
of (git worktree). Winners of neither text are left alone. Exit 1 if a line stays behind.

A compile parameter that the family has gained since is added to the winner's config, with the first of its values that compiles to the same
machine code. A new launch parameter leaves no trace in a kernel: such lines stay behind.

Compared is what a GPU is given of each kernel: its code, constant banks, shared memory, registers, stack and launch attributes. Left out
are symbols and constants at namespace scope, whose values are in the code; an instruction that reads their addresses is an error.
"""
import argparse
import itertools
import json
import os
import re
import struct
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

# The symbol ends in a hash of the source, and names of what is local to it carry one more.
HASHES = re.compile(rb"_[0-9a-f]{16}|_cu_[0-9a-f]{8}")
COMPARED = (b".text.", b".nv.info", b".nv.constant0.", b".nv.constant2", b".nv.constant3", b".nv.shared.")
SYMBOL_TABLE, NO_BITS = 2, 8          # section types of ELF
PARAMETER_BANK = 0x0A                 # attribute of .nv.info.KERNEL that begins with the index of a symbol
CONSTANT_FORMS, ADDRESSES = (3, 5), 4  # forms of an instruction that reads a constant bank, and the bank of variables' addresses


class Cubin:
    """The sections of a cubin: (name without hashes, header, bytes) each."""

    def __init__(self, image):
        at, = struct.unpack_from("<Q", image, 0x28)
        count, names = struct.unpack_from("<HH", image, 0x3C)
        headers = [struct.unpack_from("<IIQQQQIIQQ", image, at + 64 * i) for i in range(count)]
        contents = [b"" if h[1] == NO_BITS else image[h[4]:h[4] + h[5]] for h in headers]
        self.sections = [(text_at(contents[names], h[0]), h, bits) for h, bits in zip(headers, contents)]
        _, header, bits = next(section for section in self.sections if section[1][1] == SYMBOL_TABLE)
        self.symbols = [text_at(contents[header[6]], struct.unpack_from("<I", bits, i)[0]) for i in range(0, len(bits), 24)]

    def code(self):
        """What is compared, by section."""
        compared = {}
        for name, header, bits in self.sections:
            if not name.startswith(COMPARED):
                continue
            if name.startswith(b".text.") and reads_addresses(bits):
                raise SystemExit(f"carry_winners.py: {name.decode()} reads addresses of variables, which are not compared")
            value = self.attributes(bits, name == b".nv.info") if name.startswith(b".nv.info") else bits
            compared[name] = (header[5], value)
        return compared

    def attributes(self, bits, of_symbols):
        """Records of an .nv.info section, without the indices of symbols."""
        records, at = [], 0
        while at < len(bits):
            form, attribute, value = struct.unpack_from("<BBH", bits, at)
            at += 4
            if form != 4:
                records.append((attribute, value))
                continue
            payload = bits[at:at + value]
            at += value
            if of_symbols:
                payload = self.symbols[struct.unpack_from("<I", payload)[0]] + payload[4:]
            elif attribute == PARAMETER_BANK:
                payload = payload[4:]
            records.append((attribute, payload))
        return sorted(records, key=str) if of_symbols else records


def text_at(table, offset):
    return HASHES.sub(b"", table[offset:table.index(b"\0", offset)])


def reads_addresses(code):
    words = (struct.unpack_from("<Q", code, at)[0] for at in range(0, len(code), 16))
    return any(word >> 9 & 7 in CONSTANT_FORMS and word >> 54 & 31 == ADDRESSES for word in words)


def words_of(extents):
    """As the command takes them: --shape with the batch before a star and the others in the op's order, and options."""
    options = {"--" + name.replace("_", "-"): str(extents[name]) for name in ("kv_heads", "kv_len") if name in extents}
    shape = "x".join(str(value) for name, value in extents.items() if name not in ("batch", "kv_heads", "kv_len"))
    batch = extents.get("batch", 1)
    return ["--shape", shape if batch == 1 else f"{batch}*{shape}"] + [word for pair in options.items() for word in pair]


class CommandFailed(Exception):
    pass


class Tool:
    """The command with one text of the templates."""

    def __init__(self, autotune, templates, folder):
        self.command = [autotune]
        self.templates = ["--templates", templates] if templates else []
        self.environment = dict(os.environ, AUTOTUNE_CACHE_DIR=os.path.join(folder, "cache"), XDG_DATA_HOME=folder)

    def run(self, *words):
        command = self.command + list(words) + self.templates
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise CommandFailed(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def identities(self, ops):
        documents = [json.loads(self.run("families", "--op", op, "--json")) for op in sorted(ops)]
        return {family["name"]: family["template_identity"] for document in documents for family in document["families"]}

    @staticmethod
    def words_for(winner):
        op, *options = winner["problem"]["class"].split()
        words = ["--op", op, *words_of(winner["problem"]["extents"]), "--family", winner["family"], "--arch", winner["arch"]]
        for option in options:
            words += ["--" + option.split("=")[0], option.split("=")[1]]
        return words

    def parameters_of(self, winner):
        """Of the winner's family for its problem, in order: (name, kind, values) each."""
        family, = json.loads(self.run("families", *self.words_for(winner), "--json"))["families"]
        return [(each["name"], each["kind"], each["values"]) for each in family["parameters"]]

    def code_of(self, winner, config):
        """Of the instance of the winner's family with that config."""
        with tempfile.TemporaryDirectory() as kept:
            words = ["compile", *self.words_for(winner), "--count", "1", "--keep", kept]
            for name, value in config.items():
                words += ["--param", f"{name}={value}"]
            said = self.run(*words)
            cubins = [name for name in os.listdir(kept) if name.endswith(".cubin")]
            if len(cubins) != 1:
                raise CommandFailed(f"one kernel was expected of {' '.join(words)}\n{said}")
            with open(os.path.join(kept, cubins[0]), "rb") as file:
                return Cubin(file.read()).code()


def completed(config, parameters):
    """The config in the order of the parameters, with each value of those that it lacks; none where one of them is of a launch."""
    lacking = {name: (kind, values) for name, kind, values in parameters if name not in config}
    if any(kind != "compile" for kind, _ in lacking.values()):
        return
    for chosen in itertools.product(*(values for _, values in lacking.values())):
        bound = {**config, **dict(zip(lacking, chosen))}
        yield {name: bound[name] for name, _, _ in parameters}


class Carrier:
    def __init__(self, now, before, ops):
        self.now, self.before = now, before
        self.identities_now, self.identities_before = now.identities(ops), before.identities(ops)

    def config_of_same_code(self, winner):
        """The winner's config as the family has it now; None if it does not compile to the same code."""
        before = self.before.code_of(winner, winner["config"])
        for config in completed(winner["config"], self.now.parameters_of(winner)):
            try:
                if self.now.code_of(winner, config) == before:
                    return config
            except CommandFailed:
                if config == winner["config"]:
                    raise
        return None

    def carried(self, line):
        """The line as it is to be, and its problem if it stays behind."""
        winner = json.loads(line)
        identity = self.identities_now[winner["family"]]
        if winner["template"] == identity or winner["template"] != self.identities_before[winner["family"]]:
            return line, None
        config = self.config_of_same_code(winner)
        if config is None:
            return line, " ".join([winner["family"], *words_of(winner["problem"]["extents"]), winner["problem"]["class"]])
        line = re.sub(r'"config":\{[^}]*\}', '"config":' + json.dumps(config, separators=(",", ":")), line, count=1)
        return line.replace(f'"template":"{winner["template"]}"', f'"template":"{identity}"'), None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("autotune")
    parser.add_argument("old_templates")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--old-command", help="the command of that commit, where its families bind other facts or have other parameters")
    options = parser.parse_args()
    lines = {}
    for path in options.files:
        with open(path, encoding="utf-8") as file:
            lines[path] = [line for line in file.read().splitlines() if line]
    ops = {json.loads(line)["op"] for of_file in lines.values() for line in of_file}
    behind = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        carrier = Carrier(Tool(options.autotune, None, folder), Tool(options.old_command or options.autotune, options.old_templates, folder), ops)
        for path, of_file in lines.items():
            results = list(pool.map(carrier.carried, of_file))
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(line + "\n" for line, _ in results)
            for problem in (problem for _, problem in results if problem):
                behind += 1
                print(problem, flush=True)
    raise SystemExit(1 if behind else 0)


if __name__ == "__main__":
    try:
        main()
    except CommandFailed as failed:
        raise SystemExit(f"carry_winners.py: {failed}") from failed
