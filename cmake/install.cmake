# `cmake --install build --prefix P`: the command (component `command`), and the headers, the library and a package for
# find_package(freight) (`development`).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(FREIGHT_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/freight)

if(TARGET freight_app)
  install(TARGETS freight_app RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
endif()
install(TARGETS freight EXPORT freightTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
# What programs include, and nothing else: cmake/public_headers.txt lists it.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/public_headers.txt)
file(STRINGS ${CMAKE_SOURCE_DIR}/cmake/public_headers.txt public_headers REGEX "^[a-z]")
foreach(pattern ${public_headers})
  file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/src/freight/${pattern})
  list(FILTER headers EXCLUDE REGEX "_internal\\.h$")
  if(NOT headers)
    message(FATAL_ERROR "cmake/public_headers.txt: there is no src/freight/${pattern}")
  endif()
  foreach(header ${headers})
    cmake_path(GET header PARENT_PATH folder)
    install(FILES src/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT development)
  endforeach()
endforeach()
install(EXPORT freightTargets NAMESPACE freight:: DESTINATION ${FREIGHT_PACKAGE_DIR} COMPONENT development)
configure_package_config_file(cmake/freightConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/freightConfig.cmake
                              INSTALL_DESTINATION ${FREIGHT_PACKAGE_DIR})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/freightConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/freightConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/freightConfigVersion.cmake
        DESTINATION ${FREIGHT_PACKAGE_DIR} COMPONENT development)
