#!/usr/bin/env python3
"""Objects of a portable build, which wheels are made of, do not hold the builder's folder.

usage: builder_paths_test.py SOURCE WORK GENERATOR CUDA_INCLUDE CXX_COMPILER
"""
import json
import pathlib
import shlex
import shutil
import subprocess
import sys

source, work, generator, cuda, compiler = sys.argv[1:]
shutil.rmtree(work, ignore_errors=True)
subprocess.run(["cmake", "-S", source, "-B", work, "-G", generator, "-DAUTOTUNE_PORTABLE=ON", "-DAUTOTUNE_TESTS=OFF", "-DAUTOTUNE_UNITY=OFF",
                f"-DAUTOTUNE_CUDA_INCLUDE={cuda}", f"-DCMAKE_CXX_COMPILER={compiler}", "-DCMAKE_BUILD_TYPE=Release"],
               check=True, stdout=subprocess.DEVNULL)
commands = json.loads(pathlib.Path(work, "compile_commands.json").read_text())
failures = [f"{each['file']} is compiled without -ffile-prefix-map" for each in commands if f"-ffile-prefix-map={source}/=" not in each["command"]]

# A file of the library whose checks contain its path.
(command,) = [each for each in commands if each["file"] == f"{source}/kernel_templates/named_configs.cpp"]
words = shlex.split(command["command"])
subprocess.run(words, cwd=command["directory"], check=True)
made = pathlib.Path(command["directory"], words[words.index("-o") + 1]).read_bytes()
if b"kernel_templates/named_configs.cpp" not in made:
    failures.append("kernel_templates/named_configs.cpp: no check says where it stands, so this test shows nothing")
for folder in (source, work):
    if folder.encode() in made:
        failures.append(f"the object of kernel_templates/named_configs.cpp holds {folder}")
print("\n".join(failures[:10]) or f"{len(commands)} files are compiled without the builder's folder")
sys.exit(1 if failures else 0)
