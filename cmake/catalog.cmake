# catalog/*.json become one source of the library, so that the installed command knows devices, prices, links, the study and
# the sources of weights.
file(READ ${CMAKE_SOURCE_DIR}/catalog/devices.json CATALOG_DEVICES)
file(READ ${CMAKE_SOURCE_DIR}/catalog/prices.json CATALOG_PRICES)
file(READ ${CMAKE_SOURCE_DIR}/catalog/links.json CATALOG_LINKS)
file(READ ${CMAKE_SOURCE_DIR}/catalog/study.json CATALOG_STUDY)
file(READ ${CMAKE_SOURCE_DIR}/catalog/weights.json CATALOG_WEIGHTS)
set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             ${CMAKE_SOURCE_DIR}/catalog/devices.json ${CMAKE_SOURCE_DIR}/catalog/prices.json
             ${CMAKE_SOURCE_DIR}/catalog/links.json ${CMAKE_SOURCE_DIR}/catalog/study.json
             ${CMAKE_SOURCE_DIR}/catalog/weights.json)
configure_file(${CMAKE_SOURCE_DIR}/cmake/catalog.cpp.in ${CMAKE_BINARY_DIR}/catalog.cpp @ONLY)
target_sources(freight PRIVATE ${CMAKE_BINARY_DIR}/catalog.cpp)
