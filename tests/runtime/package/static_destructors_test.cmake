# A static with a destructor is destroyed by exit() while other threads still use it: none may be in the LIBRARIES (comma-separated).
# src/core/immortal.h is what to use instead.
string(REPLACE "," ";" libraries "${LIBRARIES}")
foreach(library ${libraries})
  execute_process(COMMAND ${NM} -A -u ${library} OUTPUT_VARIABLE symbols ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]*U __cxa_atexit[^\n]*" found "${symbols}")
  if(found)
    message(SEND_ERROR "a static object with a destructor (use Immortal of src/core/immortal.h): ${found}")
  endif()
endforeach()
