#!/usr/bin/env python3
"""check_changed.py: which tests it takes for a change, from made-up data of ninja and ctest."""
import importlib.util
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
spec = importlib.util.spec_from_file_location("check_changed", ROOT / "tools/scripts/check_changed.py")
check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check)

CORE = "src/core/problem/problem.cpp"
OBJECT = "src/core/problem.o"


class Build:
    """Three programs on a library of src/core; the third one takes minutes to build."""
    steps = {OBJECT: 4.0, "src/core/core.a": 1.0, "tests/core/core_test": 1.0, "tests/db/db_tests": 1.0, "tests/tuner/tuner_test": 1.0, "tuner.o": 500.0}

    def rebuilt(self, program, changed):
        if str(ROOT / CORE) not in changed:
            return {program} if any("/gemm/" in name for name in changed) and "kernel" in program else set()
        return {OBJECT, "src/core/core.a", program} | ({"tuner.o"} if "tuner" in program else set())


def test(number, name, program, label="unit", seconds=1.0, command=()):
    return check.Test(number, name, program, label, seconds, list(command))


TESTS = [test(1, "Problem.A", "tests/core/core_test"), test(2, "Store.A", "tests/db/db_tests"), test(3, "Tune.A", "tests/tuner/tuner_test"),
         test(4, "Store.Long", "tests/db/db_tests", seconds=400.0), test(5, "Fake.A", "tests/gpu/gpu_fake_tests", "fake"),
         test(6, "layers", "", "lint"), test(7, "fleet", "", "lint", command=[str(ROOT / "tests/tools/scripts/fleet_test.py")]),
         test(8, "Families/T.C/gemm_wgmma_sm_80", "tests/kernel_templates/kernel_test", "nvrtc"),
         test(9, "Families/T.C/gemm_wgmma_fp8_sm_80", "tests/kernel_templates/kernel_test", "nvrtc"),
         test(10, "Each/Mutant/mma_tail", "tests/kernel_templates/kernel_test"), test(11, "Plain.A", "tests/kernel_templates/kernel_test")]


def names(*changed, budget=100, tests=TESTS):
    return [each.name for each in check.plan(Build(), list(changed), tests, budget, jobs=2).tests]


failures = []


def expect(what, got, wanted):
    if got != wanted:
        failures.append(f"{what}: {got} instead of {wanted}")


expect("core: its own tests, then those that fit",
       [name for name in names(CORE) if name not in ("Fake.A", "Families/T.C/gemm_wgmma_sm_80", "Families/T.C/gemm_wgmma_fp8_sm_80",
                                                      "Each/Mutant/mma_tail", "Plain.A")],
       ["layers", "Problem.A", "Store.A"])
chosen = check.plan(Build(), [CORE], TESTS, 100, jobs=2)
expect("what does not fit is counted", chosen.left_out, 2)
expect("its program is not built", "tests/tuner/tuner_test" in chosen.programs, False)
expect("no more than the time", chosen.seconds <= 100, True)
expect("the component's own tests run however long the build takes", "Problem.A" in names(CORE, budget=1), True)
expect("a family: its tests and those of no family", names("kernel_templates/gemm/wgmma/kernel.cuh"),
       ["layers", "Plain.A", "Families/T.C/gemm_wgmma_sm_80"])
expect("another family", names("kernel_templates/gemm/wgmma_fp8/kernel.cuh"), ["layers", "Plain.A", "Families/T.C/gemm_wgmma_fp8_sm_80"])
expect("a mutant's name has no op", names("kernel_templates/gemm/mma/kernel.cuh"), ["layers", "Each/Mutant/mma_tail", "Plain.A"])
expect("a script: the test that names it", names("tests/tools/scripts/fleet_test.py"), ["layers", "fleet"])
expect("prose", names("docs/faq.md"), ["layers"])
expect("components", [check.component_of(name) for name in (CORE, "db/store/store.cpp", "tests/jit/a_test.cpp", "README.md")],
       ["core", "db", "jit", None])
for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)
