# Every dependency becomes one target here; nothing else calls find_package. If packages are missing, the error names the command
# that installs them. Lines that begin with a space are printed unchanged, so the command can be copied.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR " ${CMAKE_CXX_COMPILER} is GCC ${CMAKE_CXX_COMPILER_VERSION}, and GCC 12 or later is needed: install it and set CXX=g++-12")
endif()
set(autotune_missing "")
# autotune_need(FOUND PACKAGE): records Debian's PACKAGE as missing unless the variable FOUND is true.
macro(autotune_need found package)
  if(NOT ${found})
    list(APPEND autotune_missing ${package})
  endif()
endmacro()

find_package(Threads REQUIRED)
find_package(PkgConfig QUIET)
autotune_need(PkgConfig_FOUND pkg-config)
find_package(nlohmann_json 3.11 QUIET)
autotune_need(nlohmann_json_FOUND nlohmann-json3-dev)
find_package(CLI11 2.1 QUIET)
autotune_need(CLI11_FOUND libcli11-dev)
if(PkgConfig_FOUND)
  pkg_check_modules(SODIUM QUIET IMPORTED_TARGET libsodium)
endif()
autotune_need(SODIUM_FOUND libsodium-dev)
find_package(SQLite3 QUIET)
autotune_need(SQLite3_FOUND libsqlite3-dev)
find_package(fmt 9 QUIET)
autotune_need(fmt_FOUND libfmt-dev)
find_package(spdlog 1.10 QUIET)
autotune_need(spdlog_FOUND libspdlog-dev)
find_package(ZLIB QUIET)
autotune_need(ZLIB_FOUND zlib1g-dev)
find_path(AUTOTUNE_TOML_HEADERS toml++/toml.h)
autotune_need(AUTOTUNE_TOML_HEADERS libtomlplusplus-dev)
if(autotune_missing)
  list(JOIN autotune_missing " " autotune_missing)
  message(FATAL_ERROR " autotune needs libraries that are not here. On Debian 12: sudo apt-get install -y --no-install-recommends ${autotune_missing}\n"
    " Elsewhere: \"Without root\" in docs/install.md")
endif()

# A wheel must also run on machines without SQLite.
option(AUTOTUNE_STATIC_SQLITE "Link SQLite statically too" OFF)
if(AUTOTUNE_STATIC_SQLITE)
  find_library(AUTOTUNE_SQLITE_STATIC libsqlite3.a REQUIRED)
  add_library(autotune_sqlite INTERFACE)
  target_include_directories(autotune_sqlite SYSTEM INTERFACE ${SQLite3_INCLUDE_DIRS})
  target_link_libraries(autotune_sqlite INTERFACE ${AUTOTUNE_SQLITE_STATIC} Threads::Threads ${CMAKE_DL_LIBS} m)
else()
  add_library(autotune_sqlite ALIAS SQLite::SQLite3)
endif()

# Debian 12 has no static libraries of fmt and spdlog, so a portable build compiles their sources.
if(AUTOTUNE_PORTABLE)
  set(AUTOTUNE_FMT fmt::fmt-header-only)
  set(AUTOTUNE_SPDLOG spdlog::spdlog_header_only)
  add_library(autotune_sodium INTERFACE)
  target_include_directories(autotune_sodium SYSTEM INTERFACE ${SODIUM_INCLUDE_DIRS})
  find_library(AUTOTUNE_SODIUM_STATIC libsodium.a REQUIRED)
  target_link_libraries(autotune_sodium INTERFACE ${AUTOTUNE_SODIUM_STATIC})
  find_library(AUTOTUNE_ZLIB_STATIC libz.a REQUIRED)
  add_library(autotune_zlib INTERFACE)
  target_link_libraries(autotune_zlib INTERFACE ${AUTOTUNE_ZLIB_STATIC})
  add_link_options(-static-libstdc++ -static-libgcc -Wl,--strip-debug)
else()
  set(AUTOTUNE_FMT fmt::fmt)
  set(AUTOTUNE_SPDLOG spdlog::spdlog)
  add_library(autotune_sodium ALIAS PkgConfig::SODIUM)
  add_library(autotune_zlib ALIAS ZLIB::ZLIB)
endif()

# toml++ is compiled into the one file that reads TOML, because a portable build has no shared library of it.
add_library(autotune_toml INTERFACE)
target_include_directories(autotune_toml SYSTEM INTERFACE ${AUTOTUNE_TOML_HEADERS})
target_compile_definitions(autotune_toml INTERFACE TOML_HEADER_ONLY=1)

# Only the headers cuda.h and nvrtc.h: the libraries are opened at run time. Every configuration searches for them, because a
# remembered path to a removed toolkit would fail, and a remembered path to wheels, when there is a toolkit now, would mix two
# versions.
unset(AUTOTUNE_CUDA_HEADERS CACHE)
unset(AUTOTUNE_NVRTC_HEADERS CACHE)
find_path(AUTOTUNE_CUDA_HEADERS cuda.h
  HINTS ${AUTOTUNE_CUDA_INCLUDE} $ENV{CUDA_PATH}/include $ENV{CUDA_HOME}/include
  PATHS /usr/local/cuda/include /usr/local/cuda/targets/x86_64-linux/include PATH_SUFFIXES nvidia/cu13/include)
find_path(AUTOTUNE_NVRTC_HEADERS nvrtc.h HINTS ${AUTOTUNE_CUDA_HEADERS} NO_DEFAULT_PATH)
if(NOT AUTOTUNE_CUDA_HEADERS OR NOT AUTOTUNE_NVRTC_HEADERS)
  message(FATAL_ERROR " cuda.h and nvrtc.h are not here. Build with tools/dev, which fetches them, or set CUDA_PATH to a CUDA 13 toolkit")
endif()
add_library(autotune_cuda_headers INTERFACE)
target_include_directories(autotune_cuda_headers SYSTEM INTERFACE ${AUTOTUNE_CUDA_HEADERS} ${AUTOTUNE_NVRTC_HEADERS})

# A folder below the prefix, in which the command and the library search for their compiler. The build tree knows where its own
# compiler was fetched.
set(AUTOTUNE_COMPILER_FOLDER lib/autotune)
set(AUTOTUNE_BUILD_TREE_COMPILER "")
if(AUTOTUNE_NVRTC_LIBRARY AND NOT AUTOTUNE_PORTABLE)
  get_filename_component(AUTOTUNE_BUILD_TREE_COMPILER ${AUTOTUNE_NVRTC_LIBRARY} DIRECTORY)
endif()
