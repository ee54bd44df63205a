# How Keel's targets are made: one function a kind, so that folders stay short.
include(GNUInstallDirs)

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O3 -g -DNDEBUG")

set(KEEL_WARNINGS -Wall -Wextra -Wpedantic -Wstrict-prototypes
                  -Wmissing-prototypes -Wvla)
# gcc's plain -Wshadow also warns of a variable named as a type
if(CMAKE_C_COMPILER_ID STREQUAL GNU)
  list(APPEND KEEL_WARNINGS -Wshadow=local)
else()
  list(APPEND KEEL_WARNINGS -Wshadow)
endif()
if(KEEL_WERROR)
  list(APPEND KEEL_WARNINGS -Werror)
endif()

function(keel_settings target)
  target_compile_options(${target} PRIVATE ${KEEL_WARNINGS})
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(${target} PRIVATE -march=x86-64-v2)
  endif()
  if(KEEL_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${KEEL_SANITIZE}
                           -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(${target} PRIVATE -fsanitize=${KEEL_SANITIZE})
  endif()
endfunction()

# keel_strict(TARGET): without a conversion that may change a value and is not written
function(keel_strict target)
  target_compile_options(${target} PRIVATE -Wconversion)
endfunction()

# keel_program(NAME SOURCES...): an application that links libkeel
function(keel_program name)
  add_executable(${name} ${ARGN})
  keel_settings(${name})
  target_link_libraries(${name} PRIVATE keel)
endfunction()

# keel_bench(NAME SOURCES...): a benchmark in the build's folder bench
function(keel_bench name)
  keel_program(${name} ${ARGN})
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/plugins ${PROJECT_SOURCE_DIR}/device_api
    ${PROJECT_SOURCE_DIR}/host/src)
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
  target_link_libraries(${name} PRIVATE keel_system m ${CMAKE_DL_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
endfunction()

# keel_plugin(NAME SOURCES...): lib/keel/NAME.so, which sees device_api alone
function(keel_plugin name)
  add_library(${name} MODULE ${ARGN})
  keel_settings(${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/device_api/include
    ${PROJECT_SOURCE_DIR}/plugins ${PROJECT_SOURCE_DIR}/device_api
    ${PROJECT_SOURCE_DIR}/host/src)
  set_target_properties(${name} PROPERTIES PREFIX "" INSTALL_RPATH ""
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/keel)
endfunction()

# keel_test(NAME SOURCES...): a cmocka program, run by ctest; sanitized builds and
# those with KEEL_SHORT_TESTS are slow and define KEEL_SANITIZED
function(keel_test name)
  add_executable(${name} ${ARGN})
  keel_settings(${name})
  if(KEEL_SANITIZE OR KEEL_SHORT_TESTS)
    target_compile_definitions(${name} PRIVATE KEEL_SANITIZED)
  endif()
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/host/tests)
  target_link_libraries(${name} PRIVATE keel_internal cmocka)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120)
endfunction()

# KEEL_SIZED SIZE WHOLE COMMAND...: a test's command whose last word is SIZE, or in the world WHOLE
set(KEEL_SIZED sh ${PROJECT_SOURCE_DIR}/cmake/ci/sized.sh)

# A Python that has the package: the first in PATH, or Debian's, where another comes first;
# else empty.
function(keel_find_python out package)
  find_package(Python3 COMPONENTS Interpreter)
  set(found "")
  foreach(python ${Python3_EXECUTABLE} /usr/bin/python3)
    execute_process(COMMAND ${python} -c "import ${package}" RESULT_VARIABLE lacks ERROR_QUIET)
    if(NOT lacks)
      set(found ${python})
      break()
    endif()
  endforeach()
  set(${out} "${found}" PARENT_SCOPE)
endfunction()
