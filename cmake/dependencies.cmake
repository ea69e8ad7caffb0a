# Every dependency becomes one target here; nothing else calls find_package.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
find_package(SQLite3 REQUIRED)
# A wheel has to run where no SQLite is installed.
option(AUTOTUNE_STATIC_SQLITE "Link SQLite statically too" OFF)
if(AUTOTUNE_STATIC_SQLITE)
  find_library(AUTOTUNE_SQLITE_STATIC libsqlite3.a REQUIRED)
  add_library(autotune_sqlite INTERFACE)
  target_include_directories(autotune_sqlite SYSTEM INTERFACE ${SQLite3_INCLUDE_DIRS})
  target_link_libraries(autotune_sqlite INTERFACE ${AUTOTUNE_SQLITE_STATIC} Threads::Threads ${CMAKE_DL_LIBS} m)
else()
  add_library(autotune_sqlite ALIAS SQLite::SQLite3)
endif()
find_package(fmt 9 REQUIRED)
find_package(spdlog 1.10 REQUIRED)
find_package(ZLIB REQUIRED)
find_path(AUTOTUNE_TOML_HEADERS toml++/toml.h REQUIRED)

# fmt and spdlog have no static library on Debian 12: a portable build compiles them in.
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

# toml++ compiled in where it is used: one file reads TOML, and a portable build has no shared copy.
add_library(autotune_toml INTERFACE)
target_include_directories(autotune_toml SYSTEM INTERFACE ${AUTOTUNE_TOML_HEADERS})
target_compile_definitions(autotune_toml INTERFACE TOML_HEADER_ONLY=1)

# cuda.h and nvrtc.h, headers only: the libraries are opened at run time. Searched in every configuration: a path remembered from a
# toolkit that is gone, or from wheels where a toolkit came, would fail or mix two versions.
unset(AUTOTUNE_CUDA_HEADERS CACHE)
unset(AUTOTUNE_NVRTC_HEADERS CACHE)
find_path(AUTOTUNE_CUDA_HEADERS cuda.h
  HINTS ${AUTOTUNE_CUDA_INCLUDE} $ENV{CUDA_PATH}/include $ENV{CUDA_HOME}/include
  PATHS /usr/local/cuda/include /usr/local/cuda/targets/x86_64-linux/include PATH_SUFFIXES nvidia/cu13/include REQUIRED)
find_path(AUTOTUNE_NVRTC_HEADERS nvrtc.h HINTS ${AUTOTUNE_CUDA_HEADERS} REQUIRED NO_DEFAULT_PATH)
add_library(autotune_cuda_headers INTERFACE)
target_include_directories(autotune_cuda_headers SYSTEM INTERFACE ${AUTOTUNE_CUDA_HEADERS} ${AUTOTUNE_NVRTC_HEADERS})

# Below the prefix; the command and the library search their compiler there. The build tree's own is known where it was fetched.
set(AUTOTUNE_COMPILER_FOLDER lib/autotune)
set(AUTOTUNE_BUILD_TREE_COMPILER "")
if(AUTOTUNE_NVRTC_LIBRARY AND NOT AUTOTUNE_PORTABLE)
  get_filename_component(AUTOTUNE_BUILD_TREE_COMPILER ${AUTOTUNE_NVRTC_LIBRARY} DIRECTORY)
endif()
