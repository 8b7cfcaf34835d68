# Defines livebag_ros::opencv and livebag_ros::pcl, each where its library is installed. The package itself uses
# this file, and so does every package that finds it: what its machine has decides, not what ours had.
# CMAKE_DISABLE_FIND_PACKAGE_PCL (or …_OpenCV) leaves one out.

# The headers come in by the include path: livebag/stream.hpp has the adapter if it can include opencv2/core.hpp.
if(NOT TARGET livebag_ros::opencv)
  find_package(OpenCV QUIET COMPONENTS core)
  if(OpenCV_FOUND)
    set(_livebag_includes ${OpenCV_INCLUDE_DIRS})
    set(_livebag_libraries ${OpenCV_LIBS})
  else()
    # Debian's libopencv-core-dev has no CMake package.
    find_path(LIVEBAG_OPENCV_INCLUDE opencv2/core.hpp PATH_SUFFIXES opencv4)
    find_library(LIVEBAG_OPENCV_CORE opencv_core)
    set(_livebag_includes ${LIVEBAG_OPENCV_INCLUDE})
    set(_livebag_libraries ${LIVEBAG_OPENCV_CORE})
  endif()
  if(_livebag_includes AND _livebag_libraries)
    add_library(livebag_ros::opencv INTERFACE IMPORTED)
    set_target_properties(livebag_ros::opencv PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${_livebag_includes}"
      INTERFACE_LINK_LIBRARIES "livebag_ros::livebag;${_livebag_libraries}")
  endif()
endif()

# Headers suffice: pcl::PointCloud is a template. LIVEBAG_PCL_INCLUDE names the folders of PCL, Eigen and Boost
# where they lie somewhere else.
if(NOT TARGET livebag_ros::pcl)
  set(LIVEBAG_PCL_INCLUDE "" CACHE STRING "Include folders of PCL, Eigen and Boost")
  set(_livebag_includes ${LIVEBAG_PCL_INCLUDE})
  if(NOT _livebag_includes)
    find_package(PCL QUIET COMPONENTS common)
    if(PCL_FOUND)
      set(_livebag_includes ${PCL_INCLUDE_DIRS})
    endif()
  endif()
  if(_livebag_includes)
    add_library(livebag_ros::pcl INTERFACE IMPORTED)
    set_target_properties(livebag_ros::pcl PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${_livebag_includes}"
      INTERFACE_LINK_LIBRARIES livebag_ros::livebag)
  endif()
endif()

unset(_livebag_includes)
unset(_livebag_libraries)
