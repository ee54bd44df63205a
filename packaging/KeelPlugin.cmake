# keel_add_plugin(NAME SOURCES FILE... [LIBRARIES LIB...] [LEVEL core|async|replay|compile]
#                 [QUICK])
#
# A plugin NAME.so of C sources, which sees the device ABI's headers alone and exports its
# entry function alone. Installs it in the folder keel beside libkeel: in Keel's prefix where no
# other is asked for, or in a prefix that has a libkeel of its own.
# If the suite is installed and tests are on, adds the test NAME_conformance: the rules up to
# LEVEL (all that the plugin claims); QUICK leaves out what takes long.
function(keel_add_plugin name)
  cmake_parse_arguments(arg "QUICK" "LEVEL" "SOURCES;LIBRARIES" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "keel_add_plugin(${name}): SOURCES are missing, or these words are not"
      " known: \"${arg_UNPARSED_ARGUMENTS}\"; usage: keel_add_plugin(NAME SOURCES FILE..."
      " [LIBRARIES LIB...] [LEVEL core|async|replay|compile] [QUICK])")
  endif()
  add_library(${name} MODULE ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE Keel::device_api ${arg_LIBRARIES})
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX ".so" C_VISIBILITY_PRESET hidden
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
  target_compile_features(${name} PRIVATE c_std_11)
  if(CMAKE_INSTALL_PREFIX_INITIALIZED_TO_DEFAULT)
    set(CMAKE_INSTALL_PREFIX ${Keel_PREFIX} CACHE PATH "Where it is installed" FORCE)
  endif()
  install(TARGETS ${name} LIBRARY DESTINATION ${Keel_LIBDIR}/keel)
  if(TARGET Keel::conformance)
    set(options --out ${CMAKE_CURRENT_BINARY_DIR}/${name}_conformance)
    if(arg_LEVEL)
      list(APPEND options --level ${arg_LEVEL})
    endif()
    if(arg_QUICK)
      list(APPEND options --quick)
    endif()
    add_test(NAME ${name}_conformance
      COMMAND Keel::conformance $<TARGET_FILE:${name}> ${options})
    set_tests_properties(${name}_conformance PROPERTIES TIMEOUT 7200)
  endif()
endfunction()
