# find_package(livebag) makes livebag::stream, livebag::recording where the engine's library is installed, and where their libraries are installed livebag::opencv and
# livebag::pcl. It says which one it left out (silence with QUIET); REQUIRED COMPONENTS opencv makes that an error.
#
# Two places know this file: prefix/lib/cmake/livebag/ after an installation, and cpp/cmake/ in the repository
# (-Dlivebag_DIR=…/cpp/cmake).
foreach(candidate "${CMAKE_CURRENT_LIST_DIR}/../../../include" "${CMAKE_CURRENT_LIST_DIR}/../include")
  if(EXISTS "${candidate}/livebag/stream.hpp")
    get_filename_component(livebag_INCLUDE_DIR "${candidate}" ABSOLUTE)
    break()
  endif()
endforeach()

include(CMakeFindDependencyMacro)
find_dependency(Threads)

set(livebag_stream_FOUND TRUE)
if(NOT TARGET livebag::stream)
  add_library(livebag::stream INTERFACE IMPORTED)
  set_target_properties(livebag::stream PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${livebag_INCLUDE_DIR}"
    INTERFACE_COMPILE_FEATURES cxx_std_17
    INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()

# The engine: recorder and queries.
find_library(LIVEBAG_LIBRARY livebag_c HINTS "${CMAKE_CURRENT_LIST_DIR}/../..")
if(LIVEBAG_LIBRARY)
  if(NOT TARGET livebag::recording)
    add_library(livebag::recording INTERFACE IMPORTED)
    set_target_properties(livebag::recording PROPERTIES INTERFACE_LINK_LIBRARIES "livebag::stream;${LIVEBAG_LIBRARY}")
  endif()
  set(livebag_recording_FOUND TRUE)
elseif(NOT livebag_FIND_QUIETLY)
  message(STATUS "livebag: no livebag::recording, since liblivebag_c.so is not there (cargo build --release -p livebag-c)")
endif()

# Adapter(NAME, include folders, libraries)
function(livebag_adapter name includes libraries)
  if(TARGET livebag::${name})
    return()
  endif()
  add_library(livebag::${name} INTERFACE IMPORTED)
  set_target_properties(livebag::${name} PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${includes}" INTERFACE_LINK_LIBRARIES "livebag::stream;${libraries}")
endfunction()

# By hand, since Debian's libopencv-core-dev has no CMake package.
find_path(LIVEBAG_OPENCV_INCLUDE opencv2/core.hpp PATH_SUFFIXES opencv4)
find_library(LIVEBAG_OPENCV_CORE opencv_core)
if(LIVEBAG_OPENCV_INCLUDE AND LIVEBAG_OPENCV_CORE)
  livebag_adapter(opencv "${LIVEBAG_OPENCV_INCLUDE}" "${LIVEBAG_OPENCV_CORE}")
  set(livebag_opencv_FOUND TRUE)
elseif(NOT livebag_FIND_QUIETLY)
  message(STATUS "livebag: no livebag::opencv, since OpenCV is not there (Debian: libopencv-core-dev)")
endif()

# pcl::PointCloud is a template: its headers, Eigen and Boost suffice.
file(GLOB livebag_pcl_folders /usr/include/pcl-* /usr/local/include/pcl-*)
find_path(LIVEBAG_PCL_INCLUDE_DIR pcl/point_cloud.h HINTS ${livebag_pcl_folders})
find_path(LIVEBAG_EIGEN_INCLUDE_DIR Eigen/Core PATH_SUFFIXES eigen3)
if(LIVEBAG_PCL_INCLUDE_DIR AND LIVEBAG_EIGEN_INCLUDE_DIR)
  livebag_adapter(pcl "${LIVEBAG_PCL_INCLUDE_DIR};${LIVEBAG_EIGEN_INCLUDE_DIR}" "")
  set(livebag_pcl_FOUND TRUE)
elseif(NOT livebag_FIND_QUIETLY)
  message(STATUS "livebag: no livebag::pcl, since PCL is not there (Debian: libpcl-dev)")
endif()

set(livebag_FOUND TRUE)
foreach(component IN LISTS livebag_FIND_COMPONENTS)
  if(livebag_FIND_REQUIRED_${component} AND NOT livebag_${component}_FOUND)
    set(livebag_FOUND FALSE)
    set(livebag_NOT_FOUND_MESSAGE "livebag's component '${component}' is not to be had: its library is not installed")
  endif()
endforeach()
