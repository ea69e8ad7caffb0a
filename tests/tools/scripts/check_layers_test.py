#!/usr/bin/env python3
"""Plants one breach of each kind in a small tree and expects check_layers.py to name it, and nothing in a clean tree."""
import pathlib
import subprocess
import sys
import tempfile

CHECKER = pathlib.Path(__file__).resolve().parents[3] / "tools" / "check_layers.py"

# file, its text, the expected message
BREACHES = [
    ("src/core/a.h", '#include "src/gpu/driver/driver.h"\n', "src/core may not include src/gpu/driver/driver.h"),
    ("src/core/space/a.h", '#include "src/records/winner.h"\n', "src/core may not include src/records/winner.h"),
    ("src/records/a.cpp", '#include "db/winner_store.h"\n', "src/records may not include db/winner_store.h"),
    ("kernel_templates/gemm/a.cpp", '#include "src/catalogue/catalogue.h"\n', "kernel_templates may not include src/catalogue/catalogue.h"),
    ("db/store/a.cpp", '#include "src/catalogue/catalogue.h"\n', "db may not include src/catalogue/catalogue.h"),
    ("src/jit/a.cpp", "#include <sodium.h>\n", "sodium.h belongs to src/catalogue"),
    ("tuner/worker/protocol/a.cpp", '#include "db/winner_store.h"\n', "tuner/worker may not include db/winner_store.h"),
    ("tools/cli/output/text/a.cpp", '#include "tools/cli/shared/rows.h"\n', "tools/cli/output may not include tools/cli/shared/rows.h"),
    ("tools/cli/shared/a.cpp", '#include "tools/cli/commands/tune.h"\n', "tools/cli/shared may not include tools/cli/commands/tune.h"),
    ("src/runtime/a.cpp", '#include "tuner/session/tune.h"\n', "src/runtime may not include tuner/session/tune.h"),
    ("tuner/session/a.cpp", '#include "src/runtime/plan.h"\n', "tuner/session may not include src/runtime/plan.h"),
    ("kernel_templates/gemm/a.cpp", "#include <cuda.h>\n", "cuda.h belongs to src/gpu"),
    ("tuner/session/a.cpp", "#include <sqlite3.h>\n", "sqlite3.h belongs to db"),
    ("tuner/session/a.cpp", '#include "db/store/store.h"\n', "db/store/store.h belongs to db"),
    ("src/jit/a.cpp", '#include "tests/support/gpu_gate.h"\n', "products know nothing of tests"),
    ("tuner/session/a.cpp", 'void f() { std::cout << "x"; }\n', "tuner/session prints"),
    ("db/a.cpp", 'void f() { std::fprintf(stderr, "x"); }\n', "db prints"),
    ("tuner/session/a.cpp", '#include "kernel_templates/gemm/op/gemm_problem.h"\n', "serves every op and may not include"),
    ("tools/cli/a.cpp", 'bool f() { return problem.op == "gemm"; }\n', "tools/cli names an op"),
    ("db/a.cpp", 'auto f() { return family("add/vector"); }\n', "db names an op"),
    ("src/jit/a.cpp", "auto f() { return gemm::View(problem); }\n", "src/jit names an op"),
    ("src/core/a.cpp", 'auto f() { return problem.extent("m"); }\n', "asks a problem for a part by name"),
    ("src/gpu/a.cpp", 'auto f() { return std::getenv("HOME"); }\n', "src/gpu reads the environment"),
    ("src/runtime/a.cpp", 'auto f() { return std::getenv("HOME"); }\n', "secure_getenv, not getenv"),
    ("src/gpu/a.cpp", 'bool f() { return problem.op == "gemm"; }\n', "src/gpu names an op"),
    ("src/dispatch/a.cpp", '#include "src/jit/compiler.h"\n', "src/dispatch may not include src/jit/compiler.h"),
    ("src/dispatch/a.cpp", '#include "src/gpu/driver/driver.h"\n', "src/dispatch may not include src/gpu/driver/driver.h"),
    ("src/dispatch/a.cpp", "#include <cuda.h>\n", "cuda.h belongs to src/gpu"),
    ("src/dispatch/a.cpp", '#include "src/runtime/plan/plan.h"\n', "src/dispatch may not include src/runtime/plan/plan.h"),
    ("src/jit/a.cpp", '#include "src/dispatch/dispatcher.h"\n', "src/jit may not include src/dispatch/dispatcher.h"),
    ("src/runtime/plan/a.cpp", 'auto f() { return "gemm"; }\n', "src/runtime names an op"),
    ("src/rivals/a.cpp", '#include "kernel_templates/gemm/op/gemm_problem.h"\n', "serves every op and may not include"),
    ("kernel_templates/gemm/a.cpp", '#include "src/gpu/blas.h"\n', "kernel_templates may not include src/gpu/blas.h"),
    ("kernel_templates/gemm/rivals/a.cpp", '#include "tuner/measure/meter.h"\n', "rivals may not include tuner/measure/meter.h"),
    ("tuner/a.cpp", "int a;\n", "lies in no room of tuner/"),
    ("tuner/search/a.cpp", '#include "tuner/measure/racing.h"\n', "tuner/search may not include tuner/measure/racing.h"),
    ("tuner/measure/a.cpp", '#include "tuner/search/search.h"\n', "tuner/measure may not include tuner/search/search.h"),
    ("tuner/measure/a.cpp", '#include "tuner/verify/verifier.h"\n', "tuner/measure may not include tuner/verify/verifier.h"),
    ("tuner/worker/a.cpp", '#include "tuner/session/tune.h"\n', "tuner/worker may not include tuner/session/tune.h"),
    ("tools/cli/plot/a.cpp", '#include "tools/cli/cli.h"\n', "tools/cli/plot may not include tools/cli/cli.h"),
    ("tools/cli/input/a.cpp", '#include "tools/cli/output/terminal/table.h"\n', "tools/cli/input may not include tools/cli/output/terminal/table.h"),
    ("tools/cli/output/a.cpp", '#include "tools/cli/help/help.h"\n', "tools/cli/output may not include tools/cli/help/help.h"),
    ("tools/cli/a.cpp", '#include "tools/cli/commands/tune.h"\n', "tools/cli may not include tools/cli/commands/tune.h"),
]
# The ops that the tree contains.
OPS = [("kernel_templates/gemm/op/op.cpp", ""), ("kernel_templates/add/op/op.cpp", "")]
CLEAN = [
    ("tools/cli/a.cpp", '#include "tuner/session/tune.h"\nvoid f() { std::cout << "x"; }\n'),
    ("tuner/session/a.cpp", '#include "src/core/problem/problem.h"\n// std::cout << x, getenv("x")\nvoid f() { std::snprintf(t, 1, "x"); }\n'),
    ("src/gpu/driver/a.cpp", "#include <cuda.h>\n"),
    ("src/jit/b.cpp", '#include "src/catalogue/catalogue.h"\n'),
    ("db/text/a.cpp", '#include "db/store/rows.h"\n#include "src/records/json_line.h"\n'),
    ("tools/cli/shared/a.cpp", '#include "tools/cli/output/terminal/table.h"\n'),
    ("kernel_templates/gemm/rivals/a.cpp", '#include "kernel_templates/gemm/op/gemm_problem.h"\n#include "src/gpu/blas.h"\n'),
    ("tools/cli/commands/a.cpp", '#include "tools/cli/output/terminal/table.h"\n#include "tools/cli/session.h"\n'),
    ("tools/cli/b.cpp", 'auto f() { return help("autotune --op gemm --family gemm/mma"); }  // "gemm"\n'),
    ("src/runtime/ops/b.cpp", 'auto f() { return "gemm"; }\n'),
    ("src/runtime/plan/b.cpp", '#include "src/dispatch/dispatcher.h"\n'),
    ("tuner/session/b.cpp", '#include "src/dispatch/offers.h"\n'),
    ("src/runtime/c.cpp", 'auto f() { return ::secure_getenv("HOME"); }\n'),
    ("tests/a.cpp", "#include <sqlite3.h>\n"),
    ("kernel_templates/gemm/mma/mutants.cpp", '#include "tests/kernel_templates/planted_mutants.h"\n'),
]


def check(files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in [*OPS, *files]:
            path = pathlib.Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([CHECKER, root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


def main():
    failed = 0
    for name, text, expected in BREACHES:
        code, said = check([(name, text)])
        if code != 1 or expected not in said:
            print(f"{name}: expected '{expected}', got {code}: {said}")
            failed += 1
    code, said = check(CLEAN)
    if code != 0:
        print(f"clean tree refused: {said}")
        failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
