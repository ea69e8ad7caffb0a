#!/usr/bin/env python3
"""tools/dev on machines that lack something: one line names the remedy, and what other programs print goes to build/log.

usage: dev_machine_test.py SOURCE

Each case is a copy of the script in a folder of its own, with a PATH of programs that are links to real ones or a few lines of shell.
"""
import atexit
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(sys.argv[1])
REAL = ["bash", "sh", "env", "nproc", "sed", "grep", "head", "tail", "tee", "find", "cat", "cksum", "dirname", "basename", "mkdir", "rm", "sort", "id",
        "cut", "tr", "touch", "chmod"]
# The output of programs on a machine on which everything works.
GOOD = {
    "c++": 'case "$1" in -dumpversion) echo 12;; *) echo "c++ (Debian 12.2.0) 12.2.0";; esac',
    "ninja": "true",
    "cmake": '''case "$1" in
  --version) echo "cmake version 3.25.1" ;;
  --preset) echo "$@"; mkdir -p build/$2 && touch build/$2/build.ninja && echo "-- Configuring done" ;;
  --build) mkdir -p build/release/tools && printf '#!/bin/sh\\necho autotune "$@"\\n' >build/release/tools/autotune && chmod +x build/release/tools/autotune
           echo "[0/2] Re-checking globbed directories..."; echo "[1/2] Re-running CMake..."; echo "[1/7] Building one"; echo "[7/7] Linking autotune" ;;
esac''',
    "dpkg-query": 'echo installed',
    "apt-get": 'echo "Get:1 packages"',
    # pip creates the files of the wheels; `python3 -` prints the driver's CUDA version.
    "python3": '''case "$*" in
  "-m pip --version") echo "pip 23.0" ;;
  *nvidia-cuda-nvrtc-cu12*) mkdir -p build/cuda12/nvidia/cuda_nvrtc/lib && touch build/cuda12/nvidia/cuda_nvrtc/lib/libnvrtc.so.12 ;;
  "-m pip install"*) mkdir -p build/cuda/nvidia/cu13/include build/cuda/nvidia/cu13/lib
    touch build/cuda/nvidia/cu13/include/cuda.h build/cuda/nvidia/cu13/include/nvrtc.h build/cuda/nvidia/cu13/lib/libnvrtc.so.13; echo Collecting ;;
  -) echo 0 ;;
esac''',
}
ROOT, NOT_ROOT = {"id": "echo 0"}, {"id": "echo 1000"}
NOT_INSTALLED = "exit 1"


class Machine:
    def __init__(self, **programs):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dev_machine."))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "bin").mkdir()
        (self.folder / "tools").mkdir()
        (self.folder / "CMakePresets.json").write_text("{}")
        shutil.copy(SOURCE / "tools/dev", self.folder / "tools/dev")
        for name in REAL:
            (self.folder / "bin" / name).symlink_to(shutil.which(name))
        for name, text in (GOOD | programs).items():
            program = self.folder / "bin" / name
            program.unlink(missing_ok=True)
            if text is not None:
                program.write_text(f"#!/bin/bash\n{text}\n")
                program.chmod(0o755)

    def dev(self, *words, **environment):
        """Returns exit code, standard output and standard error."""
        values = {"PATH": str(self.folder / "bin"), "HOME": str(self.folder), "AUTOTUNE_DEV_CUDA": "wheels"} | environment
        done = subprocess.run([self.folder / "tools/dev", *words], env=values, cwd=self.folder, text=True, capture_output=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def log(self, name):
        return (self.folder / "build/log" / f"{name}.log").read_text()


failures = 0


def check(is_right, what):
    global failures
    if not is_right:
        failures += 1
        print(f"line {sys._getframe(1).f_lineno}: {what}")


def fails_with(machine, last_line, **environment):
    code, _, said = machine.dev("run", "--version", **environment)
    check(code == 1 and said.rstrip("\n").split("\n")[-1] == f"tools/dev: {last_line}", f"expected\n  {last_line}\ngot {code}:\n{said}")
    return said


# The first run prints one line for each step; the output of programs is in the logs.
machine = Machine()
code, out, said = machine.dev("run", "--version")
check(code == 0 and out == "autotune --version\n", (code, out, said))
check(said.split("\n")[:-1] == [
    "tools/dev: no CUDA 13 toolkit found; fetching NVRTC and the CUDA headers (about 90 MB) into build/cuda (log: build/log/cuda.log)",
    "tools/dev: configuring build/release (log: build/log/configure-release.log)",
    f"tools/dev: building autotune for the first time: about {(800 // len(os.sched_getaffinity(0)) + 59) // 60} min on {len(os.sched_getaffinity(0))} cores",
    "tools/dev: building build/release, 7 steps (log: build/log/build-release.log)",
], said)
check("Collecting" in machine.log("cuda") and "Configuring done" in machine.log("configure-release"), "logs of pip and cmake")
check("[7/7] Linking autotune" in machine.log("build-release"), "log of the build")

# When packages are installed, apt's output is in a log, too.
root = Machine(**{"dpkg-query": NOT_INSTALLED}, **ROOT)
code, out, said = root.dev("run", "--version")
check(code == 0 and "about 1 min (log: build/log/packages.log): g++ cmake" in said and "Get:1" not in said and "Get:1 packages" in root.log("packages"), said)

said = Machine(**{"dpkg-query": NOT_INSTALLED}, **NOT_ROOT).dev("run", "--version")[2]
check("Install them with\n  sudo apt-get update && sudo apt-get install -y --no-install-recommends g++ cmake" in said, said)

# No network.
fails_with(Machine(**{"dpkg-query": NOT_INSTALLED, "apt-get": 'echo "W: Failed to fetch http://deb.debian.org/x  Temporary failure resolving deb.debian.org"; [ "$1" = update ]'},
                   **ROOT),
           'no network: apt-get reached no server. Connect this machine, or see "Without root" in docs/install.md')
no_pypi = GOOD["python3"].replace('"-m pip install"*)', '"-m pip install"*) echo "Failed to establish a new connection: Name or service not known"; exit 1;')
said = fails_with(Machine(python3=no_pypi),
                  "no network: pip could not fetch nvidia-cuda-nvrtc==13.0.* nvidia-cuda-runtime==13.0.* nvidia-cuda-crt==13.0.*. Connect this machine, or "
                  "install a CUDA 13 toolkit and set CUDA_PATH")
check("Failed to establish" not in said, said)

# After other failures it shows the last 20 lines and the path of the log.
failing = GOOD["python3"].replace('"-m pip install"*)', '"-m pip install"*) for i in $(printf "%s " {1..30}); do echo "line $i"; done; exit 1;')
said = fails_with(Machine(python3=failing),
                  "pip could not fetch nvidia-cuda-nvrtc==13.0.* nvidia-cuda-runtime==13.0.* nvidia-cuda-crt==13.0.*. Install a CUDA 13 toolkit and set CUDA_PATH "
                  "instead (all of its output: build/log/cuda.log)")
check("line 11\n" in said and "line 10\n" not in said, said)
broken_build = GOOD["cmake"].replace('echo "[7/7] Linking autotune"', 'echo "x.cpp:1: error: wrong"; exit 1')
said = fails_with(Machine(cmake=broken_build), "build/release could not be built (all of its output: build/log/build-release.log)")
check("x.cpp:1: error: wrong\n" in said, said)
broken_configure = GOOD["cmake"].replace("mkdir -p build/$2 &&", 'echo "CMake Error: wrong"; exit 1;')
said = fails_with(Machine(cmake=broken_configure), "cmake could not configure build/release (all of its output: build/log/configure-release.log)")
check("CMake Error: wrong\n" in said, said)

# Tools that are too old or missing.
old_gcc = 'case "$1" in -dumpversion) echo 11;; *) echo "c++ (Ubuntu 11.4.0) 11.4.0";; esac'
machine = Machine(**{"c++": old_gcc})
fails_with(machine, f"{machine.folder}/bin/c++ is GCC 11, and GCC 12 or later is needed: install it and say CXX=g++-12 tools/dev ...")
code, _, said = Machine(**{"c++": old_gcc, "g++-12": GOOD["c++"]}).dev("run", "--version", CXX="g++-12")
check(code == 0, said)
code, _, said = Machine(**{"c++": 'case "$1" in -dumpversion) echo 4.2.1;; *) echo "Debian clang version 16";; esac'}).dev("run", "--version")
check(code == 0, said)
fails_with(Machine(**{"c++": None}), "there is no C++ compiler 'g++': install g++ 12 or later, or name one: CXX=/path/to/g++ tools/dev ...")
fails_with(Machine(cmake='echo "cmake version 3.22.1"'),
           "this is CMake 3.22.1, and CMake 3.25 or later is needed: python3 -m pip install 'cmake>=3.25'")
fails_with(Machine(ninja=None), "there is no ninja: install ninja-build, or python3 -m pip install ninja")
fails_with(Machine(python3='case "$*" in -) echo 0;; *) exit 1;; esac'),
           "python3 has no pip: install python3-pip, or install a CUDA 13 toolkit and set CUDA_PATH", AUTOTUNE_DEV_PACKAGES="skip")

# If the home cannot be written, the build still works: ccache gets a folder in build.
machine = Machine(ccache='echo "/proc/none/.cache/ccache"', cmake=GOOD["cmake"].replace('--build)', '--build) echo "CCACHE_DIR=$CCACHE_DIR";'))
code, _, said = machine.dev("run", "--version", HOME="/proc/none")
check(code == 0 and f"CCACHE_DIR={machine.folder}/build/ccache\n" in machine.log("build-release"), machine.log("build-release"))
machine = Machine(ccache='echo "$HOME/.cache/ccache"', cmake=GOOD["cmake"].replace('--build)', '--build) echo "CCACHE_DIR=$CCACHE_DIR";'))
code, _, said = machine.dev("run", "--version")
check(code == 0 and "CCACHE_DIR=\n" in machine.log("build-release"), machine.log("build-release"))

# With a driver of CUDA 12 it fetches an NVRTC that the driver supports.
machine = Machine(python3=GOOD["python3"].replace("-) echo 0", "-) echo 12040"))
code, _, said = machine.dev("run", "--version")
check(code == 0 and "tools/dev: the driver is of CUDA 12.4; fetching NVRTC 12.9 (about 90 MB), which it can use, into build/cuda12 (log: build/log/cuda12.log)" in said, said)
check("-DAUTOTUNE_NVRTC_LIBRARY=" + str(machine.folder / "build/cuda12/nvidia/cuda_nvrtc/lib/libnvrtc.so.12") in machine.log("configure-release"), "cmake's arguments")

# After the driver is updated, the next call fetches the newer NVRTC.
(machine.folder / "bin/python3").write_text("#!/bin/bash\n" + GOOD["python3"] + "\n")
code, _, said = machine.dev("run", "--version")
check(code == 0 and "configuring build/release" in said, said)
check("-DAUTOTUNE_NVRTC_LIBRARY=" + str(machine.folder / "build/cuda/nvidia/cu13/lib/libnvrtc.so.13") in machine.log("configure-release"), "cmake's arguments")
code, _, said = machine.dev("run", "--version")
check("configuring" not in said, said)

# `tools/dev test` shows only tests that fail, and leaves out GPU tests if there is no GPU.
CTEST = '''case "$*" in
  *--show-only*) echo "Total Tests: 1026" ;;
  *) echo "$@" >>../../asked
     echo "      Start  1: Suite.Passes"
     echo "  1/3 Test  #1: Suite.Passes ......   Passed    0.05 sec"
     echo "      Start  2: Suite.IsSkipped"
     echo "  2/3 Test  #2: Suite.IsSkipped ...***Skipped   0.01 sec"
     echo "      Start  3: Suite.Fails"
     echo "  3/3 Test  #3: Suite.Fails .......***Failed    0.01 sec"
     echo "expected 1, got 2"
     echo "67% tests passed, 1 tests failed out of 3"; exit 8 ;;
esac'''
machine = Machine(ctest=CTEST)
code, out, said = machine.dev("test")
check(code == 8 and out == "  3/3 Test  #3: Suite.Fails .......***Failed    0.01 sec\nexpected 1, got 2\n67% tests passed, 1 tests failed out of 3\n", (code, out))
check("tools/dev: running the tests; all of ctest's output is in build/log/test.log\n" in said, said)
asked = (machine.folder / "asked").read_text()
if not any(pathlib.Path(device).exists() for device in ("/dev/nvidiactl", "/dev/dxg")):
    check("tools/dev: no GPU here: leaving out the 1026 tests that need one\n" in said, said)
    check("--label-exclude ^(soak|gpu|sanitizer)$" in asked and f"--output-log {machine.folder}/build/log/test.log" in asked, asked)
machine.dev("test", AUTOTUNE_REQUIRE_GPU="1")
check("--label-exclude soak\n" in (machine.folder / "asked").read_text(), "all GPU tests are asked for")
machine.dev("test", "-R", "gpu")
check("--label-exclude soak -R gpu\n" in (machine.folder / "asked").read_text(), "arguments go to ctest")

print("all cases" if not failures else f"{failures} wrong")
sys.exit(1 if failures else 0)
