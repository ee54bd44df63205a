# What `cmake --install` puts where, in components that are packages (KeelPackages.cmake):
# runtime, dev, tools, conformance, and plugin-NAME for each plugin.
include(CMakePackageConfigHelpers)
set(keel_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Keel)

set_target_properties(keel PROPERTIES EXPORT_NAME host)
add_library(keel_device_api INTERFACE)
target_include_directories(keel_device_api INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(keel_device_api PROPERTIES EXPORT_NAME device_api)
install(TARGETS keel EXPORT KeelTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
install(TARGETS keel_device_api EXPORT KeelTargets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/device_api/include/kd ${PROJECT_SOURCE_DIR}/host/include/keel
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev FILES_MATCHING PATTERN "*.h")

# find_package(Keel): Keel::device_api, Keel::host, Keel::conformance, keel_add_plugin
install(EXPORT KeelTargets NAMESPACE Keel:: DESTINATION ${keel_cmake_dir} COMPONENT dev)
configure_package_config_file(${PROJECT_SOURCE_DIR}/packaging/KeelConfig.cmake.in
  ${CMAKE_BINARY_DIR}/packaging/KeelConfig.cmake INSTALL_DESTINATION ${keel_cmake_dir}
  PATH_VARS CMAKE_INSTALL_BINDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/packaging/KeelConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/packaging/KeelConfig.cmake
  ${CMAKE_BINARY_DIR}/packaging/KeelConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/packaging/KeelPlugin.cmake
  DESTINATION ${keel_cmake_dir} COMPONENT dev)

file(RELATIVE_PATH keel_pc_up /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)
foreach(module keel keel-device-api)
  configure_file(${PROJECT_SOURCE_DIR}/packaging/${module}.pc.in
    ${CMAKE_BINARY_DIR}/packaging/${module}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/packaging/${module}.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
endforeach()

# programs; they find libkeel and the plugins from where they are, in any prefix
install(TARGETS keel_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
install(FILES ${PROJECT_SOURCE_DIR}/packaging/keel.bash
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT tools RENAME keel)
if(TARGET keel_conformance)
  install(TARGETS keel_conformance
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT conformance)
  install(TARGETS sim fault stub_needs_library stub_no_entry stub_exports_more
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/keel-conformance COMPONENT conformance)
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/keel.bash
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    COMPONENT conformance RENAME keel-conformance)
endif()

set(keel_plugins)
foreach(plugin cpu opencl vulkan cuda)
  if(TARGET ${plugin})
    list(APPEND keel_plugins ${plugin})
    install(TARGETS ${plugin}
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/keel COMPONENT plugin-${plugin})
  endif()
endforeach()

# manual pages, of what --help says
find_program(HELP2MAN help2man)
keel_note("${HELP2MAN}" "help2man" "manual pages" "no manual pages; install help2man")
# keel_manual(TARGET COMPONENT PAGE NAME ARGUMENTS...): PAGE.1.gz, of `TARGET ARGUMENTS --help`
function(keel_manual target component page about)
  set(out ${CMAKE_BINARY_DIR}/man/${page}.1.gz)
  string(JOIN " " words ${ARGN})
  add_custom_command(OUTPUT ${out}
    COMMAND sh ${PROJECT_SOURCE_DIR}/packaging/manual.sh ${HELP2MAN} ${PROJECT_VERSION}
      ${out} ${page} ${about} $<TARGET_FILE:${target}> ${ARGN}
    DEPENDS ${target} ${PROJECT_SOURCE_DIR}/packaging/manual.sh VERBATIM)
  set_property(GLOBAL APPEND PROPERTY KEEL_MANUALS ${out})
  install(FILES ${out} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${component})
endfunction()
if(HELP2MAN AND NOT CMAKE_CROSSCOMPILING)
  keel_manual(keel_command tools keel "runs models on devices that plugins provide")
  keel_manual(keel_command tools keel-plugins "lists plugins" plugins)
  keel_manual(keel_command tools keel-devices "lists devices" devices)
  keel_manual(keel_command tools keel-ops "lists the ops of a device" ops)
  keel_manual(keel_command tools keel-passes "lists the passes" passes)
  keel_manual(keel_command tools keel-compile "compiles a model to a file" compile)
  keel_manual(keel_command tools keel-run "runs a model" run)
  keel_manual(keel_command tools keel-tune "searches for the fastest kernels" tune)
  keel_manual(keel_command tools keel-onnx-test "runs ONNX's test cases" onnx-test)
  keel_manual(keel_command tools keel-doctor "reports problems" doctor)
  keel_manual(keel_command tools keel-new-plugin "writes a new plugin's project" new-plugin)
  if(TARGET keel_conformance)
    keel_manual(keel_conformance conformance keel-conformance
      "tells whether a plugin keeps the device ABI")
  endif()
  get_property(manuals GLOBAL PROPERTY KEEL_MANUALS)
  add_custom_target(manuals ALL DEPENDS ${manuals})
endif()

# the vendor's guide and the headers as one page
find_program(PANDOC pandoc)
keel_note("${PANDOC}" "pandoc" "the vendor's guide as a page" "no page of the guide; install pandoc")
if(PANDOC)
  set(page ${CMAKE_BINARY_DIR}/guide.html)
  file(GLOB parts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/html/*
    ${PROJECT_SOURCE_DIR}/device_api/include/kd/*.h)
  add_custom_command(OUTPUT ${page}
    COMMAND sh ${PROJECT_SOURCE_DIR}/docs/html/make.sh ${page}
    DEPENDS ${PROJECT_SOURCE_DIR}/VENDOR_GUIDE.md ${parts} VERBATIM)
  add_custom_target(guide_page ALL DEPENDS ${page})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libkeel-dev COMPONENT dev)
endif()

if(KEEL_BUILD_TESTS AND NOT KEEL_SANITIZE AND TARGET cpu)
  add_test(NAME install COMMAND sh ${PROJECT_SOURCE_DIR}/packaging/tests/install_test.sh
    ${PROJECT_SOURCE_DIR} ${CMAKE_BINARY_DIR})
endif()
