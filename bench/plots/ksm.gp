# SPDX-License-Identifier: BSD-2-Clause
#
# ksm.csv: the kernel's ksmd and this library on the same memory. Run by gnuplot in the folder of
# results.
set terminal svg size 960,440 font "DejaVu Sans,13" background "white"
set output "ksm.svg"
set datafile separator comma
set datafile columnheaders
set style data boxes
set style fill solid 0.85 noborder
set boxwidth 0.36
set grid y
set bmargin 4
set key top center horizontal
stats "ksm.csv" using "ksmd_cpu_ns_per_page" nooutput
set xrange [-0.6:STATS_records - 0.4]
set yrange [0:*]
set offsets 0, 0, graph 0.2, 0
x(shift) = column(0) + shift
what(d) = d eq "unique" ? "unique\none pass" : d."\nuntil merged"
text(v) = sprintf(v < 10 ? "%.1f" : "%.0f", v)
array sides[2] = ["ksmd", "ours"]
array titles[2] = ["ksmd", "this library"]
array colours[2] = ["#d62728", "#1f77b4"]
shift(i) = (i - 1.5) * 0.38
ns(i, kind) = column(sides[i].kind)
set multiplot layout 1,2

set title "CPU time, every page looked at"
set ylabel "ns of CPU per page"
cpu = "_cpu_ns_per_page"
plot "ksm.csv" using (column(0)):(0):(""):xticlabels(what(strcol("dataset"))) \
	with labels notitle, \
     for [i = 1:2] "" using (x(shift(i))):(ns(i, cpu)) lc rgb colours[i] title titles[i], \
     for [i = 1:2] "" using (x(shift(i))):(ns(i, cpu)):(text(ns(i, cpu))) \
	with labels offset 0,0.6 notitle

set title "A pass over memory at rest, defaults of both"
set ylabel "ns of CPU per page and pass"
idle = "_idle_ns_per_page"
# bench_ksm --no-idle leaves these columns out.
if (system("head -n 1 ksm.csv | grep -c idle_ns") + 0) {
	plot "ksm.csv" using (column(0)):(0):(""):xticlabels(strcol("dataset")) \
		with labels notitle, \
	     for [i = 1:2] "" using (x(shift(i))):(ns(i, idle)) lc rgb colours[i] \
		title titles[i], \
	     for [i = 1:2] "" using (x(shift(i))):(ns(i, idle)):(text(ns(i, idle))) \
		with labels offset 0,0.6 notitle
} else {
	set label 1 "not measured" at graph 0.5,0.5 center
	set yrange [0:1]
	plot 2 notitle
}
