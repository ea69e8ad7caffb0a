# Installs the library into a new folder, builds the example from there alone, and runs it. Arguments: BUILD, SOURCE, WORK, GENERATOR.
function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nended with ${code}:\n${out}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
foreach(component library development)
  step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix --component ${component})
endforeach()
step(${CMAKE_COMMAND} -S ${SOURCE}/examples/tuned_gemm -B ${WORK}/build -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${WORK}/prefix
  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
step(${CMAKE_COMMAND} --build ${WORK}/build)

execute_process(COMMAND ${WORK}/build/tuned_gemm RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err)
if(code EQUAL 0 AND out MATCHES "the answer is right")
  message(STATUS "ran on a GPU: ${out}")
elseif(code EQUAL 3 AND err MATCHES "no GPU: ")
  message(STATUS "${err}")
else()
  message(FATAL_ERROR "the example ended with ${code}:\n${out}${err}")
endif()
