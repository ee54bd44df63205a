# What Keel can use, what was found, and what is off without it.
find_package(PkgConfig QUIET)
find_package(Threads REQUIRED)
find_package(Python3 COMPONENTS Interpreter)

function(keel_note found name with without)
  if(found)
    set(line "  ${name}: found: ${with}")
  else()
    set(line "  ${name}: NOT FOUND: ${without}")
  endif()
  set_property(GLOBAL APPEND_STRING PROPERTY KEEL_REPORT "${line}\n")
endfunction()

function(keel_report)
  get_property(report GLOBAL PROPERTY KEEL_REPORT)
  message(STATUS "Keel ${PROJECT_VERSION}, optional parts:\n${report}")
endfunction()

# op sets beside ONNX's own and Keel's, which are always there, and ranks
set(optional strings pictures microsoft ml ranks)
set(KEEL_OPSETS "${optional}" CACHE STRING
    "Sets of ops that libkeel has, of strings (ops on strings), pictures (ImageDecoder), microsoft \
(com.microsoft), ml (ai.onnx.ml) and ranks (exchanges, groups of devices, links and splits); \
ONNX's others and Keel's own are always there")
string(REPLACE "," ";" KEEL_OPSETS "${KEEL_OPSETS}")
list(REMOVE_ITEM KEEL_OPSETS onnx keel)
foreach(set ${KEEL_OPSETS})
  if(NOT set IN_LIST optional)
    message(FATAL_ERROR "KEEL_OPSETS: there is no op set \"${set}\" that can be chosen: these"
            " are strings, pictures, microsoft, ml and ranks")
  endif()
endforeach()
foreach(set ${optional})
  if(NOT set IN_LIST KEEL_OPSETS)
    set_property(GLOBAL APPEND_STRING PROPERTY KEEL_REPORT
                 "  op set ${set}: off (KEEL_OPSETS): models with its ops are refused\n")
  endif()
endforeach()

# ONNX: protobuf-c and its compiler
find_program(PROTOC_C NAMES protoc-c)
find_path(PROTOBUF_C_INCLUDE protobuf-c/protobuf-c.h)
find_library(PROTOBUF_C_LIBRARY protobuf-c)
if(PROTOC_C AND PROTOBUF_C_INCLUDE AND PROTOBUF_C_LIBRARY)
  set(KEEL_ONNX ON)
endif()
keel_note("${KEEL_ONNX}" "protobuf-c and protoc-c" "ONNX models"
          "no ONNX models; install libprotobuf-c-dev, protobuf-c-compiler")

# manifests
find_path(CJSON_INCLUDE cjson/cJSON.h)
find_library(CJSON_LIBRARY cjson)
if(CJSON_INCLUDE AND CJSON_LIBRARY)
  set(KEEL_CJSON ON)
endif()
keel_note("${KEEL_CJSON}" "cJSON" "plugin manifests"
          "no plugin manifests; install libcjson-dev")

# Python's calls in C, by the limited API of CPython 3.11: for every one from there on
find_package(Python3 3.11 QUIET COMPONENTS Interpreter Development.Module)
set(KEEL_PYTHON_CALLS ${Python3_Development.Module_FOUND})
set(KEEL_PYTHON_INCLUDE ${Python3_INCLUDE_DIRS})
keel_note("${KEEL_PYTHON_CALLS}" "Python.h of 3.11 or later" "the Python package's calls in C"
          "the Python package calls by ctypes alone, at several times the cost; install python3-dev")

# links between processes: a module for each MPI, by the names that Debian gives to compilers
find_program(KEEL_OPENMPI_CC mpicc.openmpi)
find_program(KEEL_MPICH_CC mpicc.mpich)
keel_note("${KEEL_OPENMPI_CC}" "Open MPI" "links between processes: keel_openmpi.so"
          "no keel_openmpi.so for links between processes; install libopenmpi-dev")
keel_note("${KEEL_MPICH_CC}" "MPICH" "links between processes: keel_mpich.so"
          "no keel_mpich.so for links between processes; install libmpich-dev")

# regular expressions in models
find_path(PCRE2_INCLUDE pcre2.h)
find_library(PCRE2_LIBRARY pcre2-8)
if(PCRE2_INCLUDE AND PCRE2_LIBRARY)
  set(KEEL_PCRE2 ON)
endif()
keel_note("${KEEL_PCRE2}" "PCRE2" "RegexFullMatch and Tokenizer"
          "no RegexFullMatch, no Tokenizer by expressions; install libpcre2-dev")

# pictures, for ImageDecoder: headers only; the libraries are opened when first used
find_path(JPEG_INCLUDE jpeglib.h)
keel_note("${JPEG_INCLUDE}" "libjpeg" "ImageDecoder of JPEG (opened at first use)"
          "no ImageDecoder of JPEG; install libjpeg-dev")
find_path(PNG_INCLUDE png.h)
keel_note("${PNG_INCLUDE}" "libpng" "ImageDecoder of PNG (opened at first use)"
          "no ImageDecoder of PNG; install libpng-dev")
find_path(WEBP_INCLUDE webp/decode.h)
keel_note("${WEBP_INCLUDE}" "libwebp" "ImageDecoder of WebP (opened at first use)"
          "no ImageDecoder of WebP; install libwebp-dev")
include(CheckCSourceCompiles)
find_path(TIFF_INCLUDE tiffio.h)
if(TIFF_INCLUDE)
  set(CMAKE_REQUIRED_INCLUDES ${TIFF_INCLUDE})
  check_c_source_compiles("
    #include <stdio.h>
    #include <tiffio.h>
    int main(void) { return sizeof(&TIFFOpenOptionsSetMaxSingleMemAlloc) == 0; }" KEEL_TIFF)
  unset(CMAKE_REQUIRED_INCLUDES)
endif()
keel_note("${KEEL_TIFF}" "libtiff 4.5" "ImageDecoder of TIFF (opened at first use)"
          "no ImageDecoder of TIFF; install libtiff-dev, 4.5 or later")
find_path(OPENJPEG_INCLUDE openjpeg.h PATH_SUFFIXES openjpeg-2.5 openjpeg-2.4 openjpeg-2.3)
keel_note("${OPENJPEG_INCLUDE}" "OpenJPEG" "ImageDecoder of JPEG 2000 (opened at first use)"
          "no ImageDecoder of JPEG 2000; install libopenjp2-7-dev")

# CPU mathematics: headers only; the libraries are opened when first used
find_path(OPENBLAS_INCLUDE cblas.h
          PATH_SUFFIXES openblas openblas-pthread x86_64-linux-gnu)
keel_note("${OPENBLAS_INCLUDE}" "OpenBLAS" "MatMul and Gemm through it by the option products=openblas"
          "no option products=openblas; install libopenblas-dev")
find_path(DNNL_INCLUDE dnnl.h)
keel_note("${DNNL_INCLUDE}" "oneDNN" "Conv and pooling through it (opened at first use)"
          "Conv by the plugin's own products; install libdnnl-dev")

# glibc's vector functions (2.35 and later), which gcc calls where it makes vectors
include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_FLAGS "-O3 -fno-math-errno -Werror")
set(CMAKE_REQUIRED_LIBRARIES mvec m)
check_c_source_compiles("
  extern float erff(float) __attribute__((simd(\"notinbranch\")));
  float x[64];
  int main(void) { for (int i = 0; i < 64; i++) x[i] = erff(x[i]); return 0; }" KEEL_MVEC)
unset(CMAKE_REQUIRED_FLAGS)
unset(CMAKE_REQUIRED_LIBRARIES)
keel_note("${KEEL_MVEC}" "libmvec" "Erf, Exp, Tanh and their kin, 16 at a time"
          "Erf, Exp, Tanh and their kin one by one; build with gcc, for x86-64, on glibc 2.35")

find_library(CMOCKA_LIBRARY cmocka)
keel_note("${CMOCKA_LIBRARY}" "cmocka" "unit tests"
          "no unit tests; install libcmocka-dev")

# peers of the benchmarks
if(KEEL_BUILD_BENCH AND NOT KEEL_SANITIZE)
  find_package(OpenMP COMPONENTS C QUIET)
  keel_note("${OpenMP_C_FOUND}" "OpenMP" "a peer in host/bench"
            "no OpenMP beside Keel in host/bench; use gcc, or install libomp-dev")
  include(CheckLanguage)
  check_language(CXX)
  if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
    find_package(TBB QUIET)
  endif()
  keel_note("${TBB_FOUND}" "oneTBB" "a peer in host/bench"
            "no oneTBB beside Keel in host/bench; install libtbb-dev and g++")
endif()
