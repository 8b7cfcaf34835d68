# Defines livebag_ros::opencv and livebag_ros::pcl, each where its library is installed. The package itself uses
# this file, and so does every package that finds it: what its machine has decides, not what ours had.
#
#     find_package(livebag_ros REQUIRED)                      # both, where they are
#     find_package(livebag_ros REQUIRED COMPONENTS opencv)    # this one, or not found; the other is not looked for

if(livebag_ros_FIND_COMPONENTS)
  set(_livebag_wanted ${livebag_ros_FIND_COMPONENTS})
else()
  set(_livebag_wanted opencv pcl)
endif()

# The headers come in by the include path: livebag/stream.hpp has the adapter if it can include opencv2/core.hpp.
if("opencv" IN_LIST _livebag_wanted AND NOT TARGET livebag_ros::opencv)
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
if("pcl" IN_LIST _livebag_wanted AND NOT TARGET livebag_ros::pcl)
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

# Imported interfaces count as system headers, so warnings in OpenCV and PCL are not ours.
foreach(_livebag_component IN LISTS livebag_ros_FIND_COMPONENTS)
  if(livebag_ros_FIND_REQUIRED_${_livebag_component} AND NOT TARGET livebag_ros::${_livebag_component})
    set(livebag_ros_FOUND FALSE)
    set(livebag_ros_NOT_FOUND_MESSAGE
      "livebag_ros: there is no ${_livebag_component} here; the components are opencv (libopencv-dev) and pcl (libpcl-dev)")
  endif()
endforeach()
