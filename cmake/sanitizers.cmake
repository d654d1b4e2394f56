# SPDX-License-Identifier: BSD-2-Clause
#
# Everything is built with -fsanitize=${PDD_SANITIZE}, with one exception under ThreadSanitizer.

if(PDD_SANITIZE)
	add_compile_options(-fsanitize=${PDD_SANITIZE} -fno-sanitize-recover=all
		-fno-omit-frame-pointer)
	add_link_options(-fsanitize=${PDD_SANITIZE})
endif()

# All code tells libFuzzer which way it takes; the targets alone have its main (tests/fuzz).
if(PDD_FUZZ)
	if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
		message(FATAL_ERROR "PDD_FUZZ needs clang: -DCMAKE_C_COMPILER=clang "
			"(Debian: apt-get install clang libclang-rt-14-dev)")
	endif()
	# Comparisons are not traced: inputs hold hardly any magic numbers, and it takes half the time.
	add_compile_options(-fsanitize=fuzzer-no-link -fno-sanitize-coverage=trace-cmp)
	add_link_options(-fsanitize=fuzzer-no-link)
	# Nor are the ways of what only proves.
	set_source_files_properties(lib/check.c PROPERTIES
		COMPILE_OPTIONS -fno-sanitize=fuzzer-no-link)
endif()

# These three files read live pages, which their owners may write meanwhile. That race is meant: what
# such a read says is a hint, and counts only once it was repeated on a held page. So their loops are
# not instrumented, and are kept from becoming calls of memcmp or memcpy, which the sanitizer's
# runtime intercepts. (-fno-builtin would do the reverse to the inlined memcpy calls of xxHash.)
# Nothing else may be listed here.
if(PDD_SANITIZE MATCHES "thread")
	if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
		set(keep_loops -fno-tree-loop-distribute-patterns)
	else()
		set(keep_loops -mllvm -disable-loop-idiom-all)
	endif()
	set_source_files_properties(lib/checksum.c lib/checksum_avx2.c lib/content.c PROPERTIES
		COMPILE_OPTIONS "-fno-sanitize=thread;${keep_loops}")
endif()
