# Packages, by cpack: .deb files, one a component of KeelInstall.cmake, and a tarball of all.
#   cpack -G DEB, cpack -G TGZ (in the build folder)
set(CPACK_PACKAGE_NAME keel)
set(CPACK_PACKAGE_VENDOR Keel)
set(CPACK_PACKAGE_CONTACT "Keel's developers <keel@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Runs models on devices that plugins provide")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
# what a program that links libkeel depends on; ldconfig runs when libkeel comes and goes
configure_file(${PROJECT_SOURCE_DIR}/packaging/debian/shlibs.in ${CMAKE_BINARY_DIR}/packaging/shlibs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/packaging/shlibs
  ${PROJECT_SOURCE_DIR}/packaging/debian/triggers)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# keel_package(COMPONENT PACKAGE SUMMARY [DEPENDS d...] [RECOMMENDS r...] [SUGGESTS s...])
function(keel_package component package summary)
  cmake_parse_arguments(arg "" "" "DEPENDS;RECOMMENDS;SUGGESTS" ${ARGN})
  string(TOUPPER "${component}" key)
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${package} PARENT_SCOPE)
  set(CPACK_COMPONENT_${key}_DESCRIPTION ${summary} PARENT_SCOPE)
  set(CPACK_DEBIAN_${key}_DESCRIPTION ${summary} PARENT_SCOPE)
  foreach(kind DEPENDS RECOMMENDS SUGGESTS)
    list(JOIN arg_${kind} ", " words)
    set(CPACK_DEBIAN_${key}_PACKAGE_${kind} "${words}" PARENT_SCOPE)
  endforeach()
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} RENAME copyright COMPONENT ${component})
  set(keel_components ${keel_components} ${component} PARENT_SCOPE)
endfunction()

set(same "(= ${PROJECT_VERSION})")
set(keel_components)
# what libkeel and the suite open, and so dpkg-shlibdeps does not see
foreach(has CJSON=libcjson1 PCRE2=libpcre2-8-0 ONNX=libprotobuf-c1)
  string(REGEX MATCH "(.*)=(.*)" has ${has})
  if(KEEL_${CMAKE_MATCH_1})
    list(APPEND opened ${CMAKE_MATCH_2})
  endif()
endforeach()
keel_package(runtime libkeel0 "Keel's runtime library, without a plugin" DEPENDS ${opened}
  RECOMMENDS "keel-plugin-cpu ${same}"
  SUGGESTS libjpeg62-turbo libpng16-16 libwebp7 libtiff6 libopenjp2-7)
keel_package(dev libkeel-dev "Headers, CMake package and pkg-config files of Keel and its device ABI"
  DEPENDS "libkeel0 ${same}" SUGGESTS keel-conformance)
keel_package(tools keel "The command keel: runs models on devices that plugins provide"
  DEPENDS "libkeel0 ${same}" RECOMMENDS keel-plugin-cpu)
if(TARGET keel_conformance)
  keel_package(conformance keel-conformance "Tells whether a plugin keeps Keel's device ABI"
    DEPENDS ${opened})
endif()
set(opens_cpu libdnnl2 "libopenblas0-pthread | libopenblas0")
set(opens_opencl ocl-icd-libopencl1)
set(opens_vulkan libvulkan1 libshaderc1)
set(opens_cuda)
foreach(plugin IN LISTS keel_plugins)
  keel_package(plugin-${plugin} keel-plugin-${plugin} "Keel's plugin for ${plugin}"
    RECOMMENDS ${opens_${plugin}} SUGGESTS libkeel0)
endforeach()
set(launches_openmpi openmpi-bin)
set(launches_mpich mpich)
set(words_openmpi "Open MPI")
set(words_mpich MPICH)
set(words_mpi "MPI's standard ABI")
foreach(mpi openmpi mpich mpi)
  if(TARGET keel_${mpi})
    keel_package(link-${mpi} keel-link-${mpi} "Links between Keel's processes by ${words_${mpi}}"
      DEPENDS "libkeel0 ${same}" RECOMMENDS ${launches_${mpi}})
  endif()
endforeach()
keel_package(bridge-onnxruntime keel-onnxruntime "Keel's devices as a provider of ONNX Runtime"
  DEPENDS "libkeel0 ${same}" RECOMMENDS keel-plugin-cpu)
keel_package(bridge-pjrt keel-jax "Keel's devices as a platform of JAX"
  DEPENDS "libkeel0 ${same}" RECOMMENDS keel-plugin-cpu)
set(CPACK_COMPONENTS_ALL ${keel_components})
include(CPack)

# the whole of it, in a bare Debian: sh packaging/tests/chroot_test.sh . build/release
find_program(DPKG_SHLIBDEPS dpkg-shlibdeps)
if(DPKG_SHLIBDEPS AND KEEL_BUILD_TESTS AND NOT KEEL_SANITIZE AND TARGET cpu)
  add_test(NAME packages COMMAND sh ${PROJECT_SOURCE_DIR}/packaging/tests/chroot_test.sh
    --short ${PROJECT_SOURCE_DIR} ${CMAKE_BINARY_DIR})
endif()
