# SPDX-License-Identifier: BSD-2-Clause
#
# The version stands in four places. Here they are held against each other, whenever one changes.

# pdd_check_version(<file> <expected> <regex>): the first match's group 1 must be <expected>.
function(pdd_check_version file expected regex)
	set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
	file(READ ${file} text)
	if(NOT text MATCHES "${regex}")
		message(FATAL_ERROR "${file}: no version found; expected ${expected}")
	elseif(NOT CMAKE_MATCH_1 STREQUAL expected)
		message(FATAL_ERROR "${file}: version ${CMAKE_MATCH_1}, "
			"but the project's in CMakeLists.txt is ${PROJECT_VERSION}")
	endif()
endfunction()

foreach(part IN ITEMS MAJOR MINOR PATCH)
	pdd_check_version(include/pagededup/base.h ${PROJECT_VERSION_${part}}
		"#[ \t]*define[ \t]+PDD_VERSION_${part}[ \t]+([0-9]+)")
endforeach()

# The newest entry of the changelog stands first, the newest node of a version script last (the
# leading ".*" takes all it can).
pdd_check_version(CHANGELOG.md ${PROJECT_VERSION} "\n## ([0-9.]+)")
set(node ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
pdd_check_version(lib/libpagededup.map ${node} ".*\nPAGEDEDUP_([0-9.]+) {")
pdd_check_version(lib/linux/libpagededup-linux.map ${node} ".*\nPAGEDEDUP_LINUX_([0-9.]+) {")
