#!/usr/bin/env python3
"""Checks that links between documents lead to files, that files shown in documents are as they are there, that the README is short, that
docs/environment.md and the manual name every variable the product reads, that no retired name is back and that comments are no riddles.

usage: tools/check_docs.py [--write] [ROOT]. Prints each breach and exits 1 if there is one. --write copies the shown files into the documents
and lowers the counts in tools/comment_openings.txt to what the files have.
"""
import os
import pathlib
import re
import sys

SHOWN_FILE = re.compile(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```\n", re.S)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]*))?\)")
VARIABLE = re.compile(r'"((?:AUTOTUNE|XDG|CUDA)_[A-Z_]+|HOME|NO_COLOR|VIRTUAL_ENV|PATH)"')
DOCUMENTED = re.compile(r"^\| `([A-Z][A-Z0-9_]+)", re.M)
TABLE = "tools/cli/environment.cpp"
README_WORDS = 700  # including code and tables
PRODUCT = ["src", "tools/cli", "tuner", "db"]

# Names that were replaced: the old name as a pattern, the new name, and the paths in which the old one is refused ("": all).
RETIRED = [
    (r"\b(math_groups|math_group|MathGroup|hopper_math_group)\b", "consumer_warpgroups", ""),
    (r"\b(k_groups|q_groups)\b", "k_warpgroups, q_warpgroups", ""),
    (r"\bturn_k\b", "serpentine_k", ""),
    (r"\bwhole_tiles\b", "overlap_epilogue", ""),
    (r"\bstore_buffers\b", "epilogue_stages", ""),
    (r"\"incremental\"|\$\{incremental\}|\bincremental=\d", "advance_descriptors", ""),
    (r"\"agree\"|\$\{agree\}|\bagree=\d", "warp_max_first", ""),
    (r"\"held\"|\$\{held\}|\bheld=\d", "register_chunks", ""),
    (r"\"drained\"|\$\{drained\}|\bdrained=\d", "copy_to_registers", ""),
    (r"\b(GemmAsk|AddAsk|DescribedAsk)\b", "PlanRequest", ""),
    (r"\b(struct|class) Ask\b", "PlanRequest", "src/"),
    (r"\b(struct|class) Wanted\b", "PlanLookup", "src/"),
    (r"\b(struct|class) Kept\b", "CachedPlan", "src/"),
    (r"\b(struct|class) Unfit\b", "DisqualifiedCandidate", "src/"),
    (r"\b(struct|class) Own\b", "CallScope", "src/"),
    (r"\b(struct|class) Found\b", "ResolvedCandidate", "src/"),
    (r"\b(struct|class) Served\b", "WarmupEntry", "src/"),
    (r"\bfirst_that_works\b", "first_usable", ""),
    (r"\bany_loaded\b", "best_loaded_stand_in", ""),
    (r"\bSubject\b|\bsubject_of\b", "ProblemKey, problem_key_of", "db/"),
    (r"\bPlace\b|\bmake_place\b|\bbind_place\b|\bfind_places\b", "RowKey, make_row_key, bind_row_key, find_row_keys", "db/"),
    (r"\bTaker\b|\btaker\.h\b", "Importer", "db/"),
    (r"\bExcerpt\b", "Subproblem", ""),
    (r"\bawkward_neighbours\b|\bawkward neighbours\b", "edge_case_problems", ""),
    (r"\brun_with_room\b", "run_with_large_stack", ""),
    (r"\bline_up\b", "enqueue", ""),
    (r"\bhurry\(", "raise_priority", ""),
    (r"\bbury\b", "discard_worker", "tuner/"),
    (r"\bset_aside\(", "save_unstored_winner", ""),
    (r"\bcomplain_of\b", "report_unstored", ""),
    (r"\bfewest_words\b", "min_positional", ""),
    (r"\bsaves_on_stop\b", "saves_on_interrupt", ""),
    (r"\bkHopeless\b", "kGiveUpRatio", ""),
    (r"\bkOutOfTheQuestion\b", "kMaxPredictedRatio", ""),
    (r"\bsms_of_clusters\b", "usable_sms", ""),
    (r"\basks_of_a_line\b", "concurrent_requests_per_line", ""),
    (r"\b(lone_store|late_span)\b", "unpaired_store, overlapped_c_read", ""),
    (r"\btoday_utc\b", "now_utc_iso8601", ""),
    (r"\bcheck_endurance\b|\bEnduranceOptions\b", "check_repeatability, RepeatabilityOptions", ""),
    (r"\bladder_rung\b", "complexity_order", ""),
    (r"\bcarry_winners\b", "nothing: identities hash code", ""),
]
PHRASES = re.compile(r"\b(in vain|(?:is|are) felt|for so long|asks (?:for less|most of)|nobody tuned|leaves? late|charged like|nobody's debt|"
                     r"serves a weight|stands once above)\b", re.I)
OPENING = re.compile(r"^\s*// (?:Who|Whoever|What|Which) ", re.M)
# How many such comments files with a base name still have. The numbers may only decrease.
OPENINGS = "tools/comment_openings.txt"
NO_TEXT_OF_OURS = ("CHANGELOG.md", "tools/check_docs.py", "tests/tools/scripts/check_docs_test.py", "tests/data/db/")
WITH_WORDS = {".cpp", ".h", ".hpp", ".cuh", ".cu", ".py", ".pyi", ".sh", ".md", ".txt", ".json", ".sql", ".cmake", ".in"}


def documents(root):
    return [root / "README.md", root / "CONTRIBUTING.md", *root.glob("docs/**/*.md"), *root.glob("examples/**/*.md")]


def changed_files(root):
    """Blocks after a line `<!-- file: PATH -->` that differ from that file."""
    for document in documents(root):
        for path, block in SHOWN_FILE.findall(document.read_text()):
            if not (root / path).is_file():
                yield f"{document.relative_to(root)}: shows {path}, which is no file"
            elif (root / path).read_text() != block:
                yield f"{document.relative_to(root)}: shows another text than {path} has; tools/check_docs.py --write copies the file"


def write_files(root):
    """Copies the files into those blocks."""
    for document in documents(root):
        text = document.read_text()
        changed = SHOWN_FILE.sub(lambda match: match[0][:match.start(2) - match.start()] + (root / match[1]).read_text() + "```\n", text)
        if changed != text:
            document.write_text(changed)


def dead_links(root):
    for document in documents(root):
        for target, anchor in LINK.findall(document.read_text()):
            if "://" in target:
                continue
            path = document.parent / target if target else document
            if not path.exists():
                yield f"{document.relative_to(root)}: the link to {target} leads nowhere"
            elif anchor and path.suffix == ".md" and anchor not in anchors(path):
                yield f"{document.relative_to(root)}: {path.name} has no heading for #{anchor}"


def anchors(path):
    """The headings of a page as links name them: lower case, blanks as dashes, without punctuation."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.S | re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ +(.*?) *$", text, re.M)}


def long_readme(root):
    words = len(re.sub(r"<!--.*?-->", "", (root / "README.md").read_text(), flags=re.S).split())
    if words > README_WORDS:
        yield f"README.md: {words} words, more than {README_WORDS}"


def sources(root):
    for place in PRODUCT:
        path = root / place
        yield from ([path] if path.is_file() else (one for one in path.rglob("*") if one.suffix in (".cpp", ".h")))


def variables_read(root):
    """Names in the product's code, each with a place. The manual's own table does not count, because it only describes them."""
    read = {}
    for path in sources(root):
        text = path.read_text()
        if path == root / TABLE:
            text = re.sub(r"environment_variables\(\) \{.*?\n\}", "", text, flags=re.S)
        for line in text.split("\n"):
            for name in VARIABLE.findall(line.split("//")[0]):
                read.setdefault(name, path.relative_to(root))
    return read


def wrong_variables(root):
    documented = set(DOCUMENTED.findall((root / "docs/environment.md").read_text()))
    manual = set(VARIABLE.findall((root / TABLE).read_text()))
    read = variables_read(root)
    for name, path in sorted(read.items()):
        if name not in documented:
            yield f"docs/environment.md: {name}, which {path} reads, is missing"
        if name not in manual and not name.startswith("AUTOTUNE_TEST_"):  # users do not need variables for tests
            yield f"{TABLE}: {name}, which {path} reads, is missing from environment_variables()"
    texts = "".join(path.read_text(errors="replace") for folder in ("tools", "tests", "src", "tuner", "python", ".ci", "cmake", "benchmarks")
                    for path in (root / folder).rglob("*") if path.is_file())
    for name in sorted(documented - set(read)):
        if not re.search(rf"\b{name}\b", texts):
            yield f"docs/environment.md: nothing reads {name}"


def texts(root):
    """(path, text) of every file that people write. Files named former_* contain names of earlier versions; shipped rows have tests."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(one for one in folders if one not in ("build", ".git", "results"))
        for file in sorted(files):
            path = pathlib.Path(folder, file)
            name = path.relative_to(root).as_posix()
            if path.suffix in WITH_WORDS and not name.startswith(NO_TEXT_OF_OURS) and not file.startswith("former_"):
                yield name, path.read_text(errors="replace")


def retired_names(root):
    # Each pattern is tried only on files that contain one of its words, because trying all patterns on all files would take 20 s.
    known = [(re.compile(pattern), set(re.findall(r"[A-Za-z_]{3,}", re.sub(r"\\.", " ", pattern))), now, folder) for pattern, now, folder in RETIRED]
    for name, text in texts(root):
        words = set(re.findall(r"[A-Za-z_]{3,}", text))
        for pattern, its_words, now, folder in known:
            found = pattern.search(text) if name.startswith(folder) and not its_words.isdisjoint(words) else None
            if found:
                yield f"{name}:{text.count(chr(10), 0, found.start()) + 1}: {found[0]} was replaced by {now}"


def phrases(root):
    for name, text in texts(root):
        for found in PHRASES.finditer(text):
            yield f"{name}:{text.count(chr(10), 0, found.start()) + 1}: '{found[0]}' is no plain English; say what happens"


def openings(root):
    """By base name, so that a file may move: how many comments open with Who, Whoever, What or Which."""
    count = {}
    for name, text in texts(root):
        if name.endswith((".cpp", ".h", ".hpp", ".cuh", ".cu")):
            base = name.rsplit("/", 1)[-1]
            count[base] = count.get(base, 0) + len(OPENING.findall(text))
    return {base: n for base, n in count.items() if n}


def allowed_openings(root):
    path = root / OPENINGS
    lines = path.read_text().split("\n") if path.is_file() else []
    return {base: int(n) for n, base in (line.split() for line in lines if line)}


def wrong_openings(root):
    found, allowed = openings(root), allowed_openings(root)
    for base in sorted(found.keys() | allowed.keys()):
        n, most = found.get(base, 0), allowed.get(base, 0)
        if n > most:
            yield f"{base}: {n} comments open with Who, What or Which, {most} may ({OPENINGS}); name the thing, or say what the code does"
        elif n < most:
            yield f"{OPENINGS}: {base} has {n} such comments, not {most}; tools/check_docs.py --write lowers the number"


def lower_openings(root):
    found, allowed = openings(root), allowed_openings(root)
    left = {base: min(found.get(base, 0), most) for base, most in sorted(allowed.items())}
    if allowed:
        (root / OPENINGS).write_text("".join(f"{n} {base}\n" for base, n in left.items() if n))


def main():
    words = [word for word in sys.argv[1:] if word != "--write"]
    root = pathlib.Path(words[0] if words else pathlib.Path(__file__).resolve().parent.parent)
    if "--write" in sys.argv:
        write_files(root)
        lower_openings(root)
    breaches = [*dead_links(root), *changed_files(root), *long_readme(root), *wrong_variables(root), *retired_names(root), *phrases(root),
                *wrong_openings(root)]
    for breach in breaches:
        print(breach)
    print(f"docs: {len(breaches) or 'no'} breach{'es' if len(breaches) > 1 else ''}")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
