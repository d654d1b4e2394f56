# SPDX-License-Identifier: BSD-2-Clause
#
# idle.csv: passes over memory in which little is written, with and without write tracking. Run by
# gnuplot in the folder of results.
set terminal svg size 720,420 font "DejaVu Sans,13" background "white"
set output "idle.svg"
set datafile separator comma
set datafile columnheaders
set title "A pass over memory in which little is written"
set style data boxes
set style fill solid 0.85 noborder
set boxwidth 0.36
set ylabel "ns of CPU per page of the memory"
set yrange [0:*]
set offsets 0, 0, graph 0.08, 0
set grid y
set key outside right top vertical Left reverse
stats "idle.csv" using "pages" nooutput
set xrange [-0.5:STATS_records - 0.5]
x(shift) = column(0) + shift
written(unused) = column("written_percent") == 0 ? "nothing" : \
	strcol("written_percent")." %\n".(strcol("scattered") eq "true" ? "scattered" : "in a run")
text(v) = sprintf(v < 10 ? "%.1f" : "%.0f", v)
set bmargin 4
plot "idle.csv" using (column(0)):(0):(""):xticlabels(written(0)) with labels notitle, \
     "" using (x(-0.19)):"pass_ns_per_page" lc rgb "#7f7f7f" title "not tracked", \
     "" using (x(0.19)):"pass_ns_per_page_tracked" lc rgb "#1f77b4" title "tracked", \
     "" using (x(-0.19)):"pass_ns_per_page":(text(column("pass_ns_per_page"))) \
	with labels offset 0,0.6 notitle, \
     "" using (x(0.19)):"pass_ns_per_page_tracked":(text(column("pass_ns_per_page_tracked"))) \
	with labels offset 0,0.6 notitle
