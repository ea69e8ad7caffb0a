# The files that `cmake --install` installs: the library, its headers, the CMake package, pkg-config, the shipped winners, the
# command.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS autotune_shared EXPORT autotuneTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
install(FILES include/autotune/autotune.h include/autotune/autotune.hpp include/autotune/verdicts.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/autotune COMPONENT development)

set(AUTOTUNE_PACKAGE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/autotune)
install(EXPORT autotuneTargets NAMESPACE autotune:: DESTINATION ${AUTOTUNE_PACKAGE_FOLDER} COMPONENT development)
configure_package_config_file(cmake/autotuneConfig.cmake.in ${PROJECT_BINARY_DIR}/package/autotuneConfig.cmake
  INSTALL_DESTINATION ${AUTOTUNE_PACKAGE_FOLDER})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/autotuneConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/autotuneConfig.cmake ${PROJECT_BINARY_DIR}/package/autotuneConfigVersion.cmake
  DESTINATION ${AUTOTUNE_PACKAGE_FOLDER} COMPONENT development)
# A relative path, so that `cmake --install --prefix` may use another prefix.
file(RELATIVE_PATH AUTOTUNE_PC_TO_PREFIX /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
configure_file(cmake/autotune.pc.in ${PROJECT_BINARY_DIR}/package/autotune.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/autotune.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# The library searches for winners in share/autotune/winners, one or two folders above its own.
if(EXISTS ${PROJECT_SOURCE_DIR}/db/winners)
  install(DIRECTORY db/winners/ DESTINATION ${CMAKE_INSTALL_DATADIR}/autotune/winners COMPONENT library
    FILES_MATCHING PATTERN "*.jsonl")
endif()
# Everything that `cmake --install` needs. `tools/dev run` builds it, so that installing works after the first command.
add_custom_target(autotune_product DEPENDS autotune autotune_shared)

# The compiler that was fetched for a build without a toolkit, so that the installed command and library have one too.
if(AUTOTUNE_NVRTC_LIBRARY)
  get_filename_component(nvrtc_folder ${AUTOTUNE_NVRTC_LIBRARY} DIRECTORY)
  file(GLOB nvrtc_files ${nvrtc_folder}/libnvrtc-builtins.so.* ${nvrtc_folder}/../../../nvidia_cuda_nvrtc*.dist-info/licenses/License.txt)
  install(FILES ${AUTOTUNE_NVRTC_LIBRARY} ${nvrtc_files} DESTINATION ${AUTOTUNE_COMPILER_FOLDER} COMPONENT compiler)
endif()
if(TARGET autotune)
  install(TARGETS autotune RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
  if(AUTOTUNE_COMMAND_FILES)
    install(FILES ${AUTOTUNE_COMMAND_FILES}/autotune DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT command)
    install(FILES ${AUTOTUNE_COMMAND_FILES}/_autotune DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT command)
    install(FILES ${AUTOTUNE_COMMAND_FILES}/autotune.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command)
  endif()
  install(DIRECTORY examples/shapes DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT command)
endif()

# The Python package. A wheel cannot contain links, and the library finds the winners beside itself as in every installation. The
# package's functions for ops are generated from the output of the built command.
find_package(Python3 3.9 COMPONENTS Interpreter)
if(TARGET autotune AND Python3_Interpreter_FOUND)
  set(python_ops ${PROJECT_BINARY_DIR}/package/python/ops.py)
  add_custom_command(OUTPUT ${python_ops} DEPENDS autotune ${PROJECT_SOURCE_DIR}/python/generate_ops.py
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/python/generate_ops.py $<TARGET_FILE:autotune> ${python_ops})
  add_library(autotune_quick_calls MODULE python/quick_calls.cpp)
  target_include_directories(autotune_quick_calls PRIVATE include)
  target_link_libraries(autotune_quick_calls PRIVATE autotune_warnings)
  set_target_properties(autotune_quick_calls PROPERTIES PREFIX "" OUTPUT_NAME quick_calls CXX_VISIBILITY_PRESET hidden)
  add_library(autotune_torch_calls MODULE python/torch_calls.cpp)
  target_include_directories(autotune_torch_calls PRIVATE include)
  target_link_libraries(autotune_torch_calls PRIVATE autotune_warnings ${CMAKE_DL_LIBS})
  set_target_properties(autotune_torch_calls PROPERTIES PREFIX "" OUTPUT_NAME torch_calls CXX_VISIBILITY_PRESET hidden)
  add_custom_target(autotune_python ALL DEPENDS ${python_ops} autotune_shared autotune_quick_calls autotune_torch_calls)
  install(FILES ${python_ops} DESTINATION . COMPONENT python EXCLUDE_FROM_ALL)
  install(FILES $<TARGET_FILE:autotune_quick_calls> $<TARGET_FILE:autotune_torch_calls> DESTINATION lib COMPONENT python EXCLUDE_FROM_ALL)
  install(FILES $<TARGET_FILE:autotune_shared> DESTINATION lib RENAME libautotune.so COMPONENT python EXCLUDE_FROM_ALL)
  install(PROGRAMS $<TARGET_FILE:autotune> DESTINATION bin COMPONENT python EXCLUDE_FROM_ALL)
  install(DIRECTORY db/winners/ DESTINATION share/autotune/winners COMPONENT python EXCLUDE_FROM_ALL FILES_MATCHING PATTERN "*.jsonl")
  if(AUTOTUNE_PORTABLE AND CMAKE_STRIP)  # this saves a quarter of the wheel's size
    install(CODE "execute_process(COMMAND ${CMAKE_STRIP} \${CMAKE_INSTALL_PREFIX}/lib/libautotune.so \${CMAKE_INSTALL_PREFIX}/lib/quick_calls.so \${CMAKE_INSTALL_PREFIX}/lib/torch_calls.so
      \${CMAKE_INSTALL_PREFIX}/bin/autotune)"
      COMPONENT python EXCLUDE_FROM_ALL)
  endif()
endif()
