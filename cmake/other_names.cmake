# catalog/other_names.txt becomes a source of the library: what other programs call flags and models.
file(READ ${CMAKE_SOURCE_DIR}/catalog/other_names.txt OTHER_NAMES)
set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/catalog/other_names.txt)
configure_file(${CMAKE_SOURCE_DIR}/cmake/other_names.cpp.in ${CMAKE_BINARY_DIR}/other_names.cpp @ONLY)
target_sources(freight PRIVATE ${CMAKE_BINARY_DIR}/other_names.cpp)
