# SPDX-License-Identifier: BSD-2-Clause
#
# threads.csv: threads that step through one pass, and as many that only hash. Run by gnuplot in the
# folder of results.
set terminal svg size 720,420 font "DejaVu Sans,13" background "white"
set output "threads.svg"
set datafile separator comma
set datafile columnheaders
set title "Threads that share a pass"
set style data boxes
set style fill solid 0.85 noborder
set boxwidth 0.24
set ylabel "ns that go by, per page of the memory"
set yrange [0:*]
set offsets 0, 0, graph 0.08, 0
set grid y
set key outside right top vertical Left reverse
stats "threads.csv" using "threads" nooutput
set xrange [-0.5:STATS_records - 0.5]
array names[3] = ["hash_ns_per_page", "steady_pass_ns_per_page", "insert_pass_ns_per_page"]
array titles[3] = ["hashing only", "steady pass", "insert pass"]
array colours[3] = ["#7f7f7f", "#1f77b4", "#17becf"]
x(i) = column(0) + (i - 2) * 0.26
label(n) = n == 1 ? "1 thread" : sprintf("%d threads", n)
plot "threads.csv" using (column(0)):(0):(""):xticlabels(label(column("threads"))) \
	with labels notitle, \
     for [i = 1:3] "" using (x(i)):(column(names[i])) lc rgb colours[i] title titles[i], \
     for [i = 1:3] "" using (x(i)):(column(names[i])):(sprintf("%.0f", column(names[i]))) \
	with labels offset 0,0.6 notitle
