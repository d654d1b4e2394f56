# SPDX-License-Identifier: BSD-2-Clause
#
# scale.csv: does a page cost more where there are more of them? Run by gnuplot in the folder of
# results.
set terminal svg size 960,420 font "DejaVu Sans,13" background "white"
set output "scale.svg"
set datafile separator comma
set datafile columnheaders
set multiplot layout 1,2
set logscale x 2
set yrange [0:*]
set grid y
set key bottom right
set ylabel "ns of CPU per page"
of(index_only, y) = strcol("index_only") eq index_only ? column(y) : NaN

set title "A pass that inserts every page"
set xlabel "pages of 4 KiB"
set xtics ("64 Ki" 2**16, "256 Ki" 2**18, "1 Mi" 2**20, "2 Mi" 2**21)
set xrange [2**15.5:2**21.5]
plot "scale.csv" using "pages":(of("false", "ns_per_page")) with linespoints lw 2 pt 7 \
	lc rgb "#1f77b4" title "pass", \
     "" using "pages":(of("false", "hash_ns_per_page")) with linespoints lw 2 pt 5 \
	lc rgb "#7f7f7f" title "hashing them only"

set xtics ("64 Ki" 2**16, "256 Ki" 2**18, "1 Mi" 2**20, \
	"4 Mi" 2**22, "16 Mi" 2**24, "64 Mi" 2**26)
set title "Index only, nothing is hashed"
set xlabel "entries"
set xrange [2**15.5:2**26.5]
plot "scale.csv" using "pages":(of("true", "ns_per_page")) with linespoints lw 2 pt 7 \
	lc rgb "#2ca02c" title "search and insertion"
