# SPDX-License-Identifier: BSD-2-Clause
#
# Headers, the CMake package and the pkg-config files; the libraries are installed where they are
# made. Nothing installed knows the prefix, so that the installed tree may be moved.

include(CMakePackageConfigHelpers)

install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

# A lower-case name is found by find_package(pagededup) and by find_package(Pagededup).
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/pagededup)
configure_package_config_file(cmake/PagededupConfig.cmake.in pagededup-config.cmake
	INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the ABI.
write_basic_package_version_file(pagededup-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
	${PROJECT_BINARY_DIR}/pagededup-config.cmake
	${PROJECT_BINARY_DIR}/pagededup-config-version.cmake
	DESTINATION ${package_dir})
install(EXPORT pagededup-targets NAMESPACE pagededup:: DESTINATION ${package_dir})

set(pc_dir ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH PDD_PC_PREFIX ${pc_dir} ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH PDD_PC_INCLUDE ${pc_dir} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
set(pc_files libpagededup.pc)
if(TARGET pagededup_linux)
	list(APPEND pc_files libpagededup-linux.pc)
endif()
foreach(pc IN LISTS pc_files)
	configure_file(pkgconfig/${pc}.in ${pc} @ONLY)
	install(FILES ${PROJECT_BINARY_DIR}/${pc} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
