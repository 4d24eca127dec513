# A port of this clone: vcpkg install freight --overlay-ports=deploy/vcpkg. Freight is written for oneDNN 2, so the manifest of
# a project that uses it has "overrides": [{"name": "onednn", "version": "2.6.1"}]. Not tested with the suite.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DFREIGHT_UNITY=ON -DFREIGHT_TESTS=OFF -DFREIGHT_BENCH=OFF -DFREIGHT_COMMAND=OFF -DFREIGHT_WERROR=OFF
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/freight)
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE" "${SOURCE_PATH}/NOTICE")
