# The server's page becomes a source of the library, so that the installed command needs no files beside it.
set(PAGE_FILE ${CMAKE_SOURCE_DIR}/src/freight/serve/page/index.html)
set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PAGE_FILE})
file(READ ${PAGE_FILE} PAGE_TEXT)
configure_file(${CMAKE_SOURCE_DIR}/cmake/page.cpp.in ${CMAKE_BINARY_DIR}/page.cpp @ONLY)
target_sources(freight PRIVATE ${CMAKE_BINARY_DIR}/page.cpp)
