# exit() destroys statics while other threads still use them, so the LIBRARIES (separated by commas) may contain no static with a
# destructor. Use src/core/immortal.h instead.
string(REPLACE "," ";" libraries "${LIBRARIES}")
foreach(library ${libraries})
  execute_process(COMMAND ${NM} -A -u ${library} OUTPUT_VARIABLE symbols ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]*U __cxa_atexit[^\n]*" found "${symbols}")
  if(found)
    message(SEND_ERROR "a static object with a destructor (use Immortal of src/core/immortal.h): ${found}")
  endif()
endforeach()
