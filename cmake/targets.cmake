# Headers take most of the time to compile a file. Compiling several files together halves the time of a whole build. A build
# without this (`tools/dev portable`) detects files that do not include what they use.
option(AUTOTUNE_UNITY "Compile the files of a target several at once" ON)

function(autotune_compile_together target files_at_once)
  if(AUTOTUNE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${files_at_once})
    # With unity builds the compiler takes a file for a header, and warns of classes whose members have types in an unnamed
    # namespace.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# Paths in source_location and assertions are relative to the repository, so that binaries do not contain the build folder.
if(AUTOTUNE_PORTABLE)
  add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/= -ffile-prefix-map=${PROJECT_BINARY_DIR}/=)
endif()

# autotune_add_library(NAME [PUBLIC deps...] [PRIVATE deps...] [SOURCES files...] [APART | BY_FOLDER]): one static library per
# component, from all .cpp files below its folder. APART: each file is compiled alone, because files define the same names.
# BY_FOLDER: only files of one folder are compiled together.
function(autotune_add_library name)
  cmake_parse_arguments(ARG "APART;BY_FOLDER" "" "PUBLIC;PRIVATE;SOURCES" ${ARGN})
  if(NOT ARG_SOURCES)
    file(GLOB_RECURSE ARG_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  endif()
  if(NOT ARG_SOURCES)  # the folder has no sources yet
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(${name} INTERFACE ${ARG_PUBLIC})
    return()
  endif()
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE} autotune_warnings)
  if(NOT ARG_APART)
    autotune_compile_together(${name} 12)
  endif()
  if(ARG_BY_FOLDER AND AUTOTUNE_UNITY)
    set_target_properties(${name} PROPERTIES UNITY_BUILD_MODE GROUP)
    foreach(source ${ARG_SOURCES})
      get_filename_component(folder ${source} DIRECTORY)
      string(MAKE_C_IDENTIFIER "${folder}" group)
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
    endforeach()
  endif()
endfunction()

add_library(autotune_warnings INTERFACE)
target_compile_options(autotune_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast
  -Woverloaded-virtual)
# GCC 12 warns of overlapping copies in std::string's operator+, although there are none (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(autotune_warnings INTERFACE -Wno-restrict)
endif()
if(AUTOTUNE_WERROR)
  target_compile_options(autotune_warnings INTERFACE -Werror)
endif()
