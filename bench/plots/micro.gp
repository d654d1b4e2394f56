# SPDX-License-Identifier: BSD-2-Clause
#
# micro.csv: the forest against one tree, by their size. Run by gnuplot in the folder of results.
set terminal svg size 1120,420 font "DejaVu Sans,13" background "white"
set output "micro.svg"
set datafile separator comma
set datafile columnheaders
set multiplot layout 1,3
set logscale x 2
set xtics ("1 Ki" 2**10, "32 Ki" 2**15, "1 Mi" 2**20)
set xrange [2**9.5:2**20.5]
set logscale y
set yrange [5:5000]
set xlabel "nodes"
set grid y
set key top left Left reverse
array contenders[4] = ["forest", "forest_ahead", "single", "bsd"]
array titles[4] = ["forest", "forest, loaded ahead", "one tree", "one tree of BSD"]
array colours[4] = ["#1f77b4", "#17becf", "#ff7f0e", "#d62728"]
ns(operation, i) = strcol("structure") eq "index" && strcol("operation") eq operation && \
	strcol("contender") eq contenders[i] ? column("ns") : NaN
do for [operation in "insert find remove"] {
	set title "Index: ".operation
	set ylabel operation eq "insert" ? "ns of CPU per node" : ""
	plot for [i = 1:4] "micro.csv" using "size":(ns(operation, i)) with linespoints lw 2 \
		pt 4 + i lc rgb colours[i] title i == 2 && operation ne "insert" ? "" : titles[i]
}
