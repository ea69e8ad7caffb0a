# Headers are most of what a file costs to compile: several at once take half the time for a whole build. A build without
# (`tools/dev portable`) shows a file that forgot to include what it uses.
option(AUTOTUNE_UNITY "Compile the files of a target several at once" ON)

function(autotune_compile_together target files_at_once)
  if(AUTOTUNE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${files_at_once})
    # A class of one file may have members of that file's own types; the compiler takes the file for a header.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# What is passed on does not tell where it was built: source_location and assertions then hold paths below the repository.
if(AUTOTUNE_PORTABLE)
  add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/= -ffile-prefix-map=${PROJECT_BINARY_DIR}/=)
endif()

# autotune_add_library(NAME [PUBLIC deps...] [PRIVATE deps...] [SOURCES files...] [APART | BY_FOLDER]): one static library per component, of
# all .cpp files below its folder. APART: its files repeat names that are theirs alone, so each is compiled alone. BY_FOLDER: only those of one folder
# are compiled together.
function(autotune_add_library name)
  cmake_parse_arguments(ARG "APART;BY_FOLDER" "" "PUBLIC;PRIVATE;SOURCES" ${ARGN})
  if(NOT ARG_SOURCES)
    file(GLOB_RECURSE ARG_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  endif()
  if(NOT ARG_SOURCES)  # a folder whose sources have not landed yet
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
# GCC 12 sees overlapping copies in std::string's operator+ where there are none (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(autotune_warnings INTERFACE -Wno-restrict)
endif()
if(AUTOTUNE_WERROR)
  target_compile_options(autotune_warnings INTERFACE -Werror)
endif()
