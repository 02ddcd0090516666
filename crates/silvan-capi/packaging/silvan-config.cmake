# find_package(silvan 1.0) defines silvan::silvan (shared) and silvan::static. The version is that of the interface.

get_filename_component(_silvan_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET silvan::silvan)
  add_library(silvan::silvan SHARED IMPORTED)
  set_target_properties(silvan::silvan PROPERTIES
    IMPORTED_LOCATION "${_silvan_prefix}/lib/libsilvan.so.1"
    IMPORTED_SONAME "libsilvan.so.1"
    INTERFACE_INCLUDE_DIRECTORIES "${_silvan_prefix}/include")

  add_library(silvan::static STATIC IMPORTED)
  set_target_properties(silvan::static PROPERTIES
    IMPORTED_LOCATION "${_silvan_prefix}/lib/libsilvan.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_silvan_prefix}/include"
    INTERFACE_LINK_LIBRARIES "gcc_s;pthread;${CMAKE_DL_LIBS};m")
endif()

unset(_silvan_prefix)
