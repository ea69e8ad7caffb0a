# If libraries are missing, CMake's error must contain the command that installs them, on one line. Arguments: SOURCE, WORK,
# GENERATOR.
file(REMOVE_RECURSE ${WORK})
file(WRITE ${WORK}/project/CMakeLists.txt "
cmake_minimum_required(VERSION 3.25)
project(missing LANGUAGES C CXX)
if(OLD_COMPILER)
  set(CMAKE_CXX_COMPILER_VERSION 11.4.0)
endif()
include(${SOURCE}/cmake/dependencies.cmake)
")
file(WRITE ${WORK}/cuda/cuda.h "")
file(WRITE ${WORK}/cuda/nvrtc.h "")

# fails_with(LINE ARGS...): checks that configuring with these arguments fails and prints the line.
function(fails_with line)
  file(REMOVE_RECURSE ${WORK}/build)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${WORK}/project -B ${WORK}/build -G ${GENERATOR} ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err)
  string(FIND "${err}" "\n   ${line}\n" at)
  if(code EQUAL 0 OR at EQUAL -1)
    message(FATAL_ERROR "with ${ARGN}: ended with ${code}, without the line\n${line}\nbut:\n${err}")
  endif()
endfunction()

set(cuda -DAUTOTUNE_CUDA_INCLUDE=${WORK}/cuda)
set(install "autotune needs libraries that are not here. On Debian 12: sudo apt-get install -y --no-install-recommends")
fails_with("${install} libcli11-dev" ${cuda} -DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON)
fails_with("${install} pkg-config nlohmann-json3-dev libsodium-dev zlib1g-dev" ${cuda} -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON
  -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON -DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON)
fails_with("${install} libsqlite3-dev libfmt-dev libspdlog-dev" ${cuda} -DCMAKE_DISABLE_FIND_PACKAGE_SQLite3=ON -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON
  -DCMAKE_DISABLE_FIND_PACKAGE_spdlog=ON)
fails_with("Elsewhere: \"Without root\" in docs/install.md" ${cuda} -DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON)
