# SPDX-License-Identifier: BSD-2-Clause
#
# All rows of a run, $machine and $runs: the section "A run" of docs/benchmarks.md.

# A number with so many digits behind the point; what is not measured is a dash.
def digits($n): if . == null then "-" elif type != "number" then tostring else
	(pow(10; $n)) as $scale
	| (. * $scale | round | if . == 0 then 0 else . end) as $whole
	| if $n == 0 then $whole | tostring
	  else (if $whole < 0 then "-" else "" end) as $sign
	  | ($whole | fabs | tostring) as $text
	  | (if ($text | length) <= $n then ("0" * ($n + 1 - ($text | length))) + $text else $text end)
	  | $sign + .[:-$n] + "." + .[-$n:]
	  end
	end;

# Pages as memory.
def memory: . / 256 | if . >= 1024 then "\(. / 1024 | digits(if . == floor then 0 else 1 end)) GiB"
	else "\(digits(0)) MiB" end;

def line: "| " + join(" | ") + " |";

# table(title; ["column", ...]; [cell, ...] of each row)
def table($title; $columns; cells):
	if length == 0 then empty else
		"", $title, "", ($columns | line), ($columns | map("---") | line), (.[] | [cells] | line)
	end;

def rows($bench): map(select(.bench == $bench));

def machine: [
	["date", .date], ["commit", .commit],
	["processor", "\(.cpu), \(.cores) cores, caches \(.caches)"],
	["virtualised", .virtualised],
	["memory", "\(.memory_mib) MiB, \(.available_mib) available at the end, \(.swap_mib) MiB of swap"],
	["kernel", .kernel], ["transparent huge pages", .huge_pages],
	["frequency governor", .governor], ["compiler", .compiler],
	["load at begin and end", "\(.load_at_begin); \(.load_at_end)"]];

def unique: table("Pages that are all different (`unique`), ns of CPU per page:";
	["fill", "memory", "hashing", "insert pass", "steady pass", "insert / hashing",
	 "steady / hashing", "tree by checksum", "tree by content", "metadata bytes per page"];
	.fill, (.pages | memory), (.hash_ns_per_page | digits(0)),
	(.insert_pass_ns_per_page | digits(0)), (.steady_pass_ns_per_page | digits(0)),
	(.ratio_to_hash | digits(2)), (.steady_ratio_to_hash | digits(2)),
	(.baseline_checksum_tree_ns_per_page | digits(0)),
	(.baseline_content_ns_per_page | digits(0)), (.metadata_bytes_per_page | digits(1)));

def mirror: table("Mirrored memory until all is merged (`mirror`), ns of CPU per page:";
	["memory", "passes", "this library", "passes of the model of KSM", "model of KSM"];
	(.pages | memory), (.passes | digits(0)), (.cpu_ns_per_page | digits(0)),
	(.baseline_passes | digits(0)), (.baseline_cpu_ns_per_page | digits(0)));

def scale: table("The cost of a page by their number (`scale`), ns of CPU per page:";
	["pages", "what", "ns", "to the smallest", "hashing", "pass / hashing"];
	(.pages | digits(0)), (if .index_only then "index only" else "pass" end),
	(.ns_per_page | digits(1)), (.to_smallest | digits(2)), (.hash_ns_per_page | digits(1)),
	(.ratio_to_hash | digits(2)));

def threads: table("Threads (`threads`), ns of wall time per page of the memory:";
	["threads", "memory", "hashing", "steady pass", "insert pass", "hashing / steady",
	 "merges the same"];
	(.threads | digits(0)), (.pages | memory), (.hash_ns_per_page | digits(0)),
	(.steady_pass_ns_per_page | digits(0)), (.insert_pass_ns_per_page | digits(0)),
	(.ratio | digits(2)), .merged_equal);

def ksm:
	def pair($name; $n): "\(.["ksmd_" + $name] | digits($n)) : \(.["ours_" + $name] | digits($n))";
	table("The kernel's ksmd and this library (`ksm`), ksmd : ours:";
	["dataset", "memory", "seconds of CPU", "ksmd / ours, and in single rounds", "ns per page",
	 "wall seconds", "passes", "pages saved", "idle ns per page and pass"];
	.dataset, (.pages | memory), pair("cpu_s"; 3),
	"\(.cpu_ratio | digits(2)) (\(.cpu_ratio_min | digits(2)) to \(.cpu_ratio_max | digits(2)))",
	pair("cpu_ns_per_page"; 0), pair("wall_s"; 3), pair("passes"; 0), pair("saved_pages"; 0),
	pair("idle_ns_per_page"; 1));

def alignment: table("Pairs that come at different times (`alignment`), counts:";
	["policy", "index", "longest period", "merged", "worst wait, passes", "looks per pass",
	 "peak / mean"];
	.policy, .index, (.max_period | digits(0)), "\(.merged) of \(.pairs)",
	(.worst_wait_passes | digits(0)), (.looks_per_pass | digits(0)), (.peak_over_mean | digits(2)));

def contention: table("A space whose lock is held by others (`contention`):";
	["lock", "victim pages per s alone", "contended", "reads ratio", "victim merged after, s",
	 "longest step, ms", "worst wait, passes", "bound"];
	.lock, (.uncontended_pages_per_s | digits(0)), (.contended_pages_per_s | digits(0)),
	(.reads_ratio | digits(2)), (.victim_merge_s | digits(3)), (.max_step_ms | digits(1)),
	(.worst_wait_passes | digits(0)), (.bound_passes | digits(0)));

def idle: table("Passes over memory at rest (`idle`), ns:";
	["memory", "written", "per page, not tracked", "per page, tracked", "per written page",
	 "a write, not tracked", "a write, tracked"];
	(.pages | memory),
	(if .written_percent == 0 then "nothing" else
		"\(.written_percent) %, \(if .scattered then "scattered" else "a run" end)" end),
	(.pass_ns_per_page | digits(1)), (.pass_ns_per_page_tracked | digits(2)),
	(.ns_per_written_page | digits(0)), (.write_ns | digits(0)), (.write_ns_tracked | digits(0)));

def rmap: table("Who maps a frame (`rmap`):";
	["case", "regions", "sharers", "mappings", "visits", "us", "visits of the model of KSM",
	 "us of it"];
	.case, (.regions | digits(0)), (.sharers | digits(0)), (.hits | digits(0)),
	(.visits | digits(0)), (.ns / 1000 | digits(1)), (.full_walk_visits | digits(0)),
	(.full_walk_ns / 1000 | digits(1)));

def sparse: table("Large spaces with little in them (`sparse`):";
	["bytes", "pages", "first pass, ms", "unmerge, ms", "hook calls", "of unmerge",
	 "metadata bytes"];
	"2^\(.bytes | log2 | digits(0))", (.present_pages | digits(0)), (.scan_ms | digits(3)),
	(.unmerge_ms | digits(3)), (.hook_calls_scan | digits(0)), (.hook_calls_unmerge | digits(0)),
	(.metadata_bytes | digits(0)));

def collisions: table("Different pages of one checksum (`collisions`), ns of CPU per page:";
	["fill", "pages", "insert pass", "steady pass", "tree by content", "insert / tree",
	 "steady / tree", "compares per page: insert", "steady"];
	.fill, (.pages | digits(0)), (.insert_pass_ns_per_page | digits(0)),
	(.steady_pass_ns_per_page | digits(0)), (.baseline_content_ns_per_page | digits(0)),
	(.insert_ratio | digits(2)), (.steady_ratio | digits(2)),
	(.insert_compares_per_page | digits(1)), (.steady_compares_per_page | digits(1)));

# The contenders of an operation side by side, at the largest size. Names differ by structure.
def micro: group_by([.structure, .operation]) | map(
		(map(.size) | max) as $size | map(select(.size == $size)))
	| table("Single structures, largest size (`micro`), ns of CPU per operation:";
	["structure", "operation", "size", "ns"];
	.[0].structure, .[0].operation, (.[0].size | digits(0)),
	(map("\(.contender) \(.ns | digits(1))") | join(", ")));

def processes: table("Whole processes (`processes`), seconds:";
	["case", "wall", "least to greatest", "user", "system", "passes", "MiB saved"];
	.case, (.wall_s | digits(3)), "\(.wall_s_min | digits(3)) to \(.wall_s_max | digits(3))",
	(.user_s | digits(3)), (.system_s | digits(3)), (.passes | digits(0)),
	(if .saved_bytes then .saved_bytes / 1048576 | digits(1) else "-" end));

def not_measured: map(select(.reason != ""))
	| if length == 0 then empty else
		"", "Not as it should have been:", "",
		(.[] | "* `\(.program) \(.arguments)`: "
			+ (if .status == "ok" then "" else .status + ", " end) + .reason)
	  end;

($machine[0] | (if .quick then
		"This was `bench/run.sh --quick`: the figures only show that all of it works.", ""
		else empty end),
	(["", ""] | line), (["---", "---"] | line), (machine[] | line)),
(rows("unique") | unique), (rows("mirror") | mirror), (rows("scale") | scale),
(rows("threads") | threads), (rows("ksm") | ksm), (rows("alignment") | alignment),
(rows("contention") | contention), (rows("idle") | idle), (rows("rmap") | rmap),
(rows("sparse") | sparse), (rows("collisions") | collisions), (rows("micro") | micro), (rows("processes") | processes),
($runs | not_measured)
