# `cpack --config build/CPackConfig.cmake -G DEB -B DIR`: Debian packages of what was built, `freight` (the command) and
# `libfreight-dev` (library, headers, CMake package). tools/bundle packs for other systems.
set(CPACK_PACKAGE_NAME freight)
set(CPACK_PACKAGE_VENDOR "The Freight authors")
set(CPACK_PACKAGE_CONTACT "The Freight authors <maintainers@freight.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL command development)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME freight)
set(CPACK_COMPONENT_COMMAND_DESCRIPTION "trains, saves and deploys neural networks\n The command freight.")
set(CPACK_DEBIAN_COMMAND_PACKAGE_SHLIBDEPS ON)  # needs dpkg-dev
# Libraries that are loaded when they are needed.
set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS "libcurl4, libopenblas0-pthread | liblapack3, libxgboost0, libtiff6, libgif7")
set(CPACK_DEBIAN_COMMAND_PACKAGE_SUGGESTS "ocl-icd-libopencl1, libclblast1, libgloo-dev")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libfreight-dev)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "neural networks in C++\n The static library, its headers and its CMake package.")
# What programs link by way of the static library.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "g++, libdnnl-dev, libdeflate-dev, zlib1g-dev, libxxhash-dev, libwebp-dev, libutf8proc-dev, libsentencepiece-dev, nettle-dev, libpng-dev, libjpeg62-turbo-dev | libjpeg-dev")
function(install_license component package)
  install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION share/doc/${package} RENAME copyright COMPONENT ${component})
  install(FILES ${CMAKE_SOURCE_DIR}/NOTICE DESTINATION share/doc/${package} COMPONENT ${component})
  install(FILES ${CMAKE_SOURCE_DIR}/third_party/cpp-httplib/LICENSE DESTINATION share/doc/${package} RENAME LICENSE.cpp-httplib
          COMPONENT ${component})
endfunction()
install_license(command freight)
install_license(development libfreight-dev)
include(CPack)
