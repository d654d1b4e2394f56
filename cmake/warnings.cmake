# SPDX-License-Identifier: BSD-2-Clause
#
# Warnings for gcc 12 and clang 14; errors in our own tree, not in that of an embedder who builds us
# as a part of his. `cmake --compile-no-warning-as-error` turns that off.

if(NOT DEFINED CMAKE_COMPILE_WARNING_AS_ERROR)
	set(CMAKE_COMPILE_WARNING_AS_ERROR ${PROJECT_IS_TOP_LEVEL})
endif()

add_compile_options(
	-Wall
	-Wextra
	-Wpedantic
	-Wcast-qual
	-Wformat=2
	-Wmissing-prototypes
	-Wold-style-definition
	-Wpointer-arith
	-Wredundant-decls
	-Wshadow
	-Wstrict-prototypes
	-Wundef
	-Wvla
	-Wwrite-strings
	-Wno-unused-parameter # the signatures of hooks and of test functions are given
)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
	add_compile_options(-Wduplicated-cond -Wlogical-op)
else()
	# What only assertions use, where they are not evaluated.
	add_compile_options(-Wno-unneeded-internal-declaration)
endif()
