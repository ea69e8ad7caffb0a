# `ninja docs` makes pages from the public headers if doxygen is installed (Debian: doxygen). A public function without a comment
# is an error. tools/check_api.py checks the contents of comments without doxygen.
if(CMAKE_SCRIPT_MODE_FILE)
  execute_process(COMMAND ${DOXYGEN} ${DOXYFILE} ERROR_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
  # Members may be explained by their struct's comment, and move constructors need no explanation.
  string(REGEX MATCHALL "[^\n]*\\(function\\)[^\n]* is not documented[^\n]*\n" bare "${said}")
  list(FILTER bare EXCLUDE REGEX "&&")
  if(bare)
    message(FATAL_ERROR ${bare})
  endif()
  message(STATUS "the reference is ${PAGES}/index.html")
  return()
endif()

find_program(AUTOTUNE_DOXYGEN doxygen)
mark_as_advanced(AUTOTUNE_DOXYGEN)
if(AUTOTUNE_DOXYGEN)
  set(doxyfile ${PROJECT_BINARY_DIR}/docs/Doxyfile)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/Doxyfile.in ${doxyfile} @ONLY)
  add_custom_target(docs COMMAND ${CMAKE_COMMAND} -DDOXYGEN=${AUTOTUNE_DOXYGEN} -DDOXYFILE=${doxyfile} -DPAGES=${PROJECT_BINARY_DIR}/docs/html
    -P ${CMAKE_CURRENT_LIST_FILE} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM)
endif()
