# Checks that a test's home is below the build folder, whatever its caller's home is. Argument: HOME.
if(NOT "$ENV{HOME}" STREQUAL "${HOME}" OR NOT IS_DIRECTORY "${HOME}")
  message(FATAL_ERROR "HOME of a test is '$ENV{HOME}', not '${HOME}'")
endif()
foreach(variable XDG_DATA_HOME XDG_CACHE_HOME XDG_STATE_HOME AUTOTUNE_DB AUTOTUNE_CACHE_DIR)
  if(DEFINED ENV{${variable}})
    message(FATAL_ERROR "${variable} of the caller is set in a test: $ENV{${variable}}")
  endif()
endforeach()
