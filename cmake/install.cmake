# What a C++ program finds: headers, the shared library, a CMake package (symccl::symccl) and a pkg-config file.
include(CMakePackageConfigHelpers)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/symccl)
install(TARGETS symccl EXPORT symccl-targets
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT library
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
install(DIRECTORY include/symccl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development FILES_MATCHING PATTERN "*.hpp")
install(EXPORT symccl-targets NAMESPACE symccl:: DESTINATION ${package} COMPONENT development)

configure_package_config_file(cmake/symcclConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/symcclConfig.cmake
                              INSTALL_DESTINATION ${package})
# Before 1.0 a minor version may change what programs see.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/symcclConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/symcclConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/symcclConfigVersion.cmake
        DESTINATION ${package} COMPONENT development)

# Paths relative to the file itself, so that an installed tree can be moved.
file(RELATIVE_PATH prefix_from_pkgconfig /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" prefix_from_pkgconfig "${prefix_from_pkgconfig}")
configure_file(cmake/symccl.pc.in symccl.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/symccl.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
