# SPDX-License-Identifier: BSD-2-Clause
#
# unique.csv: a pass over pages that are all different, against hashing them and against the
# indexes of old. Run by gnuplot in the folder of results.
set terminal svg size 960,460 font "DejaVu Sans,13" background "white"
set output "unique.svg"
set datafile separator comma
set datafile columnheaders
set title "Pages that are all different"
set style data boxes
set style fill solid 0.85 noborder
set boxwidth 0.16
set ylabel "ns of CPU per page"
set yrange [0:*]
set offsets 0, 0, graph 0.08, 0
set grid y
set key outside right top vertical Left reverse width -2
stats "unique.csv" using "pages" nooutput
set xrange [-0.5:STATS_records - 0.5]
size(pages) = pages >= 262144 ? sprintf("%.3g GiB", pages / 262144) : \
	sprintf("%.3g MiB", pages / 256)
array names[5] = ["hash_ns_per_page", "steady_pass_ns_per_page", "insert_pass_ns_per_page", \
	"baseline_checksum_tree_ns_per_page", "baseline_content_ns_per_page"]
array titles[5] = ["hashing only", "steady pass", "insert pass", "one tree by checksum", \
	"tree by content, rebuilt"]
array colours[5] = ["#7f7f7f", "#1f77b4", "#17becf", "#ff7f0e", "#d62728"]
x(i) = column(0) + (i - 3) * 0.17
set bmargin 4
plot "unique.csv" using (column(0)):(0):(""):xticlabels(strcol("fill")."\n".size(column("pages"))) \
	with labels notitle, \
     for [i = 1:5] "" using (x(i)):(column(names[i])) lc rgb colours[i] title titles[i], \
     for [i = 1:5] "" using (x(i)):(column(names[i])):(sprintf("%.0f", column(names[i]))) \
	with labels font ",11" offset 0,0.6 notitle
