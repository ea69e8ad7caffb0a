# ctest runs this file, and the tests that it starts inherit this environment. The tests' home stays from one run to the next,
# because compilers and pip store files there. The configuration of the caller's pip still applies.
function(autotune_private_home home)
  foreach(file $ENV{XDG_CONFIG_HOME}/pip/pip.conf $ENV{HOME}/.config/pip/pip.conf $ENV{HOME}/.pip/pip.conf)
    if(NOT DEFINED ENV{PIP_CONFIG_FILE} AND EXISTS ${file})
      set(ENV{PIP_CONFIG_FILE} ${file})
    endif()
  endforeach()
  file(MAKE_DIRECTORY ${home})
  set(ENV{HOME} ${home})
  foreach(variable XDG_DATA_HOME XDG_CACHE_HOME XDG_STATE_HOME XDG_CONFIG_HOME AUTOTUNE_DB AUTOTUNE_CACHE_DIR)
    unset(ENV{${variable}})
  endforeach()
  set(ENV{AUTOTUNE_LOCK_DIR} ${home}/locks)  # scripted GPUs have the same UUIDs in every checkout on a host
endfunction()
