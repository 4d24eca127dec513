# `cmake --install build --prefix P`: the command, the headers, the library and a package for find_package(freight).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(FREIGHT_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/freight)

if(TARGET freight_app)
  install(TARGETS freight_app RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(TARGETS freight EXPORT freightTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
# Headers of the backends' insides stay private (tools/check_structure has the same patterns).
install(DIRECTORY src/freight DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h"
        REGEX "/backend/(ref|cpu|gpu)/" EXCLUDE
        REGEX "_internal\\.h$" EXCLUDE)
install(EXPORT freightTargets NAMESPACE freight:: DESTINATION ${FREIGHT_PACKAGE_DIR})
configure_package_config_file(cmake/freightConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/freightConfig.cmake
                              INSTALL_DESTINATION ${FREIGHT_PACKAGE_DIR})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/freightConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/freightConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/freightConfigVersion.cmake
        DESTINATION ${FREIGHT_PACKAGE_DIR})
