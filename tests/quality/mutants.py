#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Mutation testing of the core: does some test notice when a line of it is wrong?

    mutants.py [COUNT [SEED]]

A mutant is the core with one small change: an operator, a bound, a constant, a returned value, a
condition negated, a statement deleted. COUNT (300) of all that can be made are drawn by SEED, which
is printed and random if not given. Each is built and meets the tests, until one fails. One that
none fails on survived: a test is missing, or the change is harmless (docs/internals/mutants.md).
Exit status: 0 if at least 85 of 100 were killed, 1 if fewer, 2 if this could not be found out.

What is mutated: the bodies of functions in lib/*.c, lib/*.h and include/pagededup/*.h. Not the
checks (lib/check*, PDD_ASSERT, PDD_INVARIANT, PDD_CHECK), not prefetches, which nothing but time
depends on. A change that leaves every object file as it was is no mutant, nor is one that does not
compile; both are replaced by the next one drawn, and counted.

Why it is fast: tests are linked once, with a shared object of the core in which all symbols are
visible, private ones too. So a mutant is one compilation (in a header, those of the files that
include it) and one link. Tests that killed mutants of the same file soonest come first. A test
that takes ten times as long as it did with the core as it is, and three seconds, hangs: killed.
What a test compiles into itself from a header is as it should be; only the core is wrong.

Results are appended to build/mutants/results-SEED.jsonl as they are found, and not found anew while
the mutated text, and for survivors the tests, are what they were: so a run can be stopped and
started again, and one after a test was added only repeats the survivors.

Settings (environment)
    CC                      the compiler
    MUTANTS_JOBS (all)      compilations at once
    MUTANTS_CHECKS (1)      level of internal checks
    MUTANTS_SLOWEST_S (6)   tests that take longer with the core as it is are left out
    PDD_SEED (1), ...       what the tests know; set, so that a run can be had again
"""

import glob
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
OUT = os.path.join(ROOT, "build", "mutants")
TREE = os.path.join(OUT, "tree")  # the scratch copy that is changed
CC = os.environ.get("CC", "gcc")
JOBS = int(os.environ.get("MUTANTS_JOBS", os.cpu_count() or 1))
CHECKS = os.environ.get("MUTANTS_CHECKS", "1")
PASSES_AT = 85
SLOWEST_S = float(os.environ.get("MUTANTS_SLOWEST_S", "6"))
MEMORY_BYTES = 4 << 30  # what a test may use
# Tests that do the same again and again do it less often here.
FEWER = {"model/model": {"PDD_ROUNDS": "60"}, "model/property": {"PDD_ROUNDS": "60"},
         "torture/threads": {"PDD_SECONDS": "1"}, "torture/quiesce": {"PDD_ROUNDS": "1000"},
         "scenario/million_operations": {"PDD_OPERATIONS": "100000"}}
# Tests that count in a core of their own, and are not linked as others are.
OTHER_CORE = {"scenario/adversaries"}
CFLAGS = ["-std=c11", "-O1", "-fPIC", "-w", "-Werror=int-conversion",
          "-DPDD_CHECKS=" + CHECKS, "-Iinclude", "-Ilib"]


def fail(why):
    print("mutants.py: " + why, file=sys.stderr)
    sys.exit(2)


def flags_of(*what):
    done = subprocess.run(["pkg-config", *what], capture_output=True, text=True, check=False)
    if done.returncode:
        fail(done.stderr.strip() or "pkg-config failed")
    return done.stdout.split()


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


# ---- which changes can be made ----

TOKEN = re.compile(r"""
    (?P<name>[A-Za-z_]\w*) |
    (?P<number>0[xX][0-9a-fA-F]+[uUlL]*|\d+[uUlL]*) |
    (?P<op><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|
           [-+*/%&|^!~<>=?:;,.(){}\[\]])
    """, re.VERBOSE)

SWAPS = {
    "==": ["!="], "!=": ["=="],
    "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"],
    "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["*"],
    "<<": [">>"], ">>": ["<<"], "&": ["|"], "|": ["&"], "^": ["|"],
    "&&": ["||"], "||": ["&&"],
    "+=": ["-="], "-=": ["+="], "|=": ["&="], "&=": ["|="], "^=": ["|="],
    "++": ["--"], "--": ["++"],
}
BINARY = {"+", "-", "*", "&"}  # have a meaning with one operand, too
NO_MUTANTS_IN = re.compile(r"PDD_(ASSERT|INVARIANT|CHECK|COUNT_VISIT)|_Static_assert|sizeof|"
                           r"\w*prefetch\w*|UINT64_C|__attribute__")
IS_CHECK = re.compile(r"(^|_)checks?(_|$)")
TYPES = re.compile(r"(struct|enum|union|const|static|inline|unsigned|signed|int|char|bool|void|"
                   r"long|size_t|u?int\d+_t|uintptr_t|_Atomic)$")
KEYWORDS = {"if", "for", "while", "do", "switch", "return", "else", "case", "default", "goto",
            "break", "continue"}


def blank(text):
    """The text with comments, strings and lines of the preprocessor made spaces."""
    def spaces(match):
        return re.sub(r"[^\n]", " ", match.group())
    text = re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", spaces, text,
                  flags=re.DOTALL)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", spaces, text, flags=re.MULTILINE)


class Token:
    def __init__(self, match):
        self.text, self.start, self.end, self.kind = (
            match.group(), match.start(), match.end(), match.lastgroup)


def closing(tokens, i):
    """The index of the token that closes what tokens[i] opens."""
    depth = 0
    for k in range(i, len(tokens)):
        if tokens[k].text in ("(", "[", "{"):
            depth += 1
        elif tokens[k].text in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                return k
    return len(tokens) - 1


def opening(tokens, i):
    """The index of the token that opens what tokens[i] closes."""
    depth = 0
    for k in range(i, 0, -1):
        depth += (tokens[k].text == ")") - (tokens[k].text == "(")
        if depth == 0:
            return k
    return 0


def bodies(tokens):
    """Names of functions but checks, and the ranges of tokens of their bodies, `name(...) {`."""
    i = 0
    while i < len(tokens):
        if tokens[i].text in ("(", "["):
            i = closing(tokens, i)
        elif tokens[i].text == "{" and tokens[i - 1].text != "extern":
            end = closing(tokens, i)
            name = tokens[opening(tokens, i - 1) - 1].text if tokens[i - 1].text == ")" else ""
            if name and not IS_CHECK.search(name):
                yield name, i + 1, end
            i = end
        i += 1


def is_operand(token):
    if token.kind == "op":
        return token.text in (")", "]")
    return token.text not in KEYWORDS


def starts_statement(tokens, i, heads):
    before = tokens[i - 1]
    return before.text in (";", "{", "}", "else", "do") or i - 1 in heads


def changes(text):
    """All changes of a file, as (start, end, what comes there)."""
    tokens = [Token(match) for match in TOKEN.finditer(blank(text))]
    for _, first, last in bodies(tokens):
        skipped, heads, found = set(), set(), []
        for i in range(first, last):
            token = tokens[i]
            if NO_MUTANTS_IN.match(token.text) and tokens[i + 1].text == "(":
                skipped.update(range(i, closing(tokens, i + 1) + 1))
            if token.text in ("if", "for", "while", "switch") and tokens[i + 1].text == "(":
                heads.add(closing(tokens, i + 1))
        in_for = set()
        for i in range(first, last):
            if tokens[i].text == "for":
                in_for.update(range(i + 1, closing(tokens, i + 1) + 1))
        for i in range(first, last):
            if i in skipped:
                continue
            token = tokens[i]
            if token.text in SWAPS:
                if token.text in BINARY and not is_operand(tokens[i - 1]):
                    continue
                if token.text == "*" and (TYPES.match(tokens[i - 1].text) or
                                          TYPES.match(tokens[i - 2].text)):
                    continue
                found += [(token.start, token.end, other) for other in SWAPS[token.text]]
            elif token.text == "!":
                found.append((token.start, token.end, ""))
            elif token.text in ("true", "false"):
                found.append((token.start, token.end, "false" if token.text == "true" else "true"))
            elif token.kind == "number":
                suffix = re.search(r"[uUlL]*$", token.text).group()
                value = int(token.text[:len(token.text) - len(suffix)], 0)
                found.append((token.start, token.end, f"{value + 1}{suffix}"))
                if value:
                    found.append((token.start, token.end, f"{value - 1}{suffix}"))
            elif token.text in ("if", "while") and tokens[i + 1].text == "(":
                end = closing(tokens, i + 1)
                inner = text[tokens[i + 1].start:tokens[end].end]
                found.append((tokens[i + 1].start, tokens[end].end, f"(!{inner})"))
            elif token.text == "return":
                end = statement_end(tokens, i)
                inner = text[token.end:tokens[end].start].strip()
                if not inner:
                    found.append((token.start, token.end, ""))
                elif inner not in ("true", "false"):
                    found.append((token.start, tokens[end].start, f"return !({inner})"))
                    if inner != "0":
                        found.append((token.start, tokens[end].start, "return 0"))
            if i not in in_for and is_deletable(tokens, i, heads):
                end = statement_end(tokens, i)
                found.append((token.start, tokens[end].start, ""))
        yield from found


def statement_end(tokens, i):
    while tokens[i].text != ";":
        i = closing(tokens, i) + 1 if tokens[i].text in ("(", "[", "{") else i + 1
    return i


def is_deletable(tokens, i, heads):
    """Whether a statement starts here that can be left out: a call, an assignment, a jump."""
    token, after = tokens[i], tokens[i + 1]
    if not starts_statement(tokens, i, heads):
        return False
    if token.text in ("break", "continue"):
        return True
    if token.text in ("*", "++", "--"):
        return True
    if token.kind != "name" or token.text in KEYWORDS or TYPES.match(token.text):
        return False
    return after.kind == "op" and after.text != ":"


def is_in_prefetch(mutant):
    tokens = [Token(match) for match in TOKEN.finditer(blank(mutant.text))]
    return any("prefetch" in name and tokens[first].start <= mutant.start < tokens[last].start
               for name, first, last in bodies(tokens))


class Mutant:
    def __init__(self, path, text, start, end, put):
        self.path, self.start, self.end, self.put, self.text = path, start, end, put, text
        self.line = text.count("\n", 0, start) + 1
        self.id = hashlib.sha256(f"{path}\0{text}\0{start}\0{end}\0{put}".encode()).hexdigest()[:16]

    def mutated(self):
        return self.text[:self.start] + self.put + self.text[self.end:]

    def describe(self):
        """The line as it is, with [what goes -> what comes]."""
        def short(piece):
            piece = " ".join(piece.split())
            return piece if len(piece) <= 60 else piece[:57] + "..."
        begin = self.text.rfind("\n", 0, self.start) + 1
        stop = self.text.find("\n", self.end)
        return " ".join((f"{self.text[begin:self.start].strip()} "
                         f"[{short(self.text[self.start:self.end])} -> {short(self.put)}] "
                         f"{self.text[self.end:stop].strip()}").split())


def all_mutants(sources):
    for path in sources:
        if os.path.basename(path).startswith("check") and "checksum" not in path:
            continue
        text = read(os.path.join(ROOT, path))
        for start, end, put in changes(text):
            yield Mutant(path, text, start, end, put)


# ---- what the mutants share ----

def copy_tree():
    """A copy of lib/ and include/, of which only files that changed are written."""
    sources = []
    for pattern in ("lib/*.[ch]", "include/pagededup/*.h", "include/*.h"):
        sources += sorted(os.path.relpath(p, ROOT) for p in glob.glob(os.path.join(ROOT, pattern)))
    for path in sources:
        there = os.path.join(TREE, path)
        os.makedirs(os.path.dirname(there), exist_ok=True)
        text = read(os.path.join(ROOT, path))
        if not os.path.exists(there) or read(there) != text:
            write(there, text)
    for old in glob.glob(os.path.join(TREE, "*", "**", "*.[ch]"), recursive=True):
        if os.path.relpath(old, TREE) not in sources:
            os.remove(old)
    return sources


def test_sources():
    tests = {}
    for folder in ("unit", "exhaustive", "model", "scenario", "torture"):
        for path in sorted(glob.glob(os.path.join(ROOT, "tests", folder, "test_*.c"))):
            name = folder + "/" + os.path.basename(path)[5:-2]
            if name not in OTHER_CORE:
                tests[name] = [path]
    for name in ("index", "script"):
        fuzz = os.path.join(ROOT, "tests", "fuzz")
        tests["fuzz/" + name] = [os.path.join(fuzz, f"fuzz_{name}.c"),
                                 os.path.join(fuzz, "replay.c")]
    return tests


def command_of(test):
    program = os.path.join(OUT, "tests", test.replace("/", "_"))
    if test.startswith("fuzz/"):
        return [program, os.path.join(ROOT, "tests", "fuzz", "corpus", test[5:])]
    return [program]


def build_shared(sources, tests):
    """The core as it is and the tests, by ninja, so that only what changed is built anew."""
    core = [path for path in sources if path.endswith(".c")]
    rules = [
        "rule cc", f"  command = cd {TREE} && {CC} {' '.join(CFLAGS + XXHASH)} -MMD -MF $out.d "
        "-MT $out -c $in -o $out", "  depfile = $out.d",
        "rule test_cc", f"  command = {CC} -std=c11 -O1 -w -DPDD_CHECKS={CHECKS} -I{TREE}/include "
        f"-I{TREE}/lib -I{ROOT}/tests/support -MMD -MF $out.d -c $in -o $out", "  depfile = $out.d",
        "rule so", f"  command = {CC} -shared -o $out $in",
        "rule ar", "  command = rm -f $out && ar rcs $out $in",
        "rule program", f"  command = {CC} -o $out $in -L{OUT}/base -lcore {' '.join(CMOCKA)} "
        "-lpthread"]
    objects = []
    for path in core:
        objects.append(object_of(path, "base"))
        # Named as in the copy, so that a mutant's command is the same but for the output.
        rules.append(f"build {objects[-1]}: cc {os.path.join(TREE, path)}")
    rules.append(f"build {OUT}/base/libcore.so: so {' '.join(objects)}")
    support = []
    for path in sorted(glob.glob(os.path.join(ROOT, "tests", "support", "*.c"))):
        support.append(os.path.join(OUT, "support", os.path.basename(path)[:-2] + ".o"))
        rules.append(f"build {support[-1]}: test_cc {path}")
    rules.append(f"build {OUT}/support/support.a: ar {' '.join(support)}")
    for test, files in tests.items():
        program = command_of(test)[0]
        made = []
        for path in files:
            made.append(f"{program}.{os.path.basename(path)[:-2]}.o")
            rules.append(f"build {made[-1]}: test_cc {path}")
        rules.append(f"build {program}: program {' '.join(made)} {OUT}/support/support.a | "
                     f"{OUT}/base/libcore.so")
    write(os.path.join(OUT, "build.ninja"), "\n".join(rules) + "\n")
    if subprocess.run(["ninja", "--quiet", "-C", OUT, "-j", str(JOBS)], check=False).returncode:
        fail("the core or its tests do not build")
    return core


def object_of(path, folder):
    return os.path.join(OUT, folder, os.path.basename(path)[:-2] + ".o")


def including(core):
    """For each file of the copy the sources that are compiled from it."""
    users = {}
    for path in core:
        for name in read(object_of(path, "base") + ".d").replace("\\\n", " ").split()[1:]:
            there = os.path.normpath(os.path.join(TREE, name))
            users.setdefault(os.path.relpath(there, TREE), []).append(path)
    return users


# ---- running ----

def restrain():
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def run(test, folder, limit_s):
    """How a test ends with the core in a folder: passed, failed, skipped or hangs."""
    env = {"PDD_SEED": "1", **FEWER.get(test, {}), **os.environ,
           "LD_LIBRARY_PATH": os.path.join(OUT, folder)}
    with subprocess.Popen(command_of(test), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, env=env, cwd=OUT,
                          preexec_fn=restrain) as process:
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return "hangs"
    return {0: "passed", 77: "skipped"}.get(status, "failed")


def measure(tests):
    """The seconds that each test takes with the core as it is. One that fails is an error; one
    that cannot run here or takes too long is left out, and said."""
    times = {}
    for test in tests:
        begin = time.monotonic()
        end = run(test, "base", 60)
        times[test] = time.monotonic() - begin
        if end == "failed":
            fail(f"{test} fails with the core as it is")
        if end != "passed" or times[test] > SLOWEST_S:
            print(f"left out: {test}, {end} after {times[test]:.1f} s")
            del times[test]
    if not times:
        fail("there is no test to run")
    return times


class Order:
    """Tests, soonest kill first: of this file, then of any, then the fastest."""

    def __init__(self, times):
        self.times, self.kills = times, {}

    def note(self, path, test):
        for key in ((path, test), ("", test)):
            self.kills[key] = self.kills.get(key, 0) + 1

    def of(self, path):
        stem = os.path.basename(path).split("_internal")[0].split(".")[0]

        def gain(test):
            kills = (4 * self.kills.get((path, test), 0) + self.kills.get(("", test), 0) +
                     2 * (test.split("/")[1] == stem) + 0.1)
            return -kills / (self.times[test] + 0.02)
        return sorted(self.times, key=gain)


def build_mutant(mutant, core, users):
    """Build the mutant's libcore.so: "built", "equal" if that is what the core is, or "broken"."""
    there = os.path.join(TREE, mutant.path)
    units, changed, running = users.get(mutant.path, []), {}, []
    write(there, mutant.mutated())
    try:
        for k, path in enumerate(units):
            out = object_of(path, "mutant")
            running.append((path, out, subprocess.Popen(
                [CC] + CFLAGS + XXHASH + ["-c", os.path.join(TREE, path), "-o", out],
                cwd=TREE, stderr=subprocess.DEVNULL)))
            if len(running) < JOBS and k + 1 < len(units):
                continue
            broken = [process for _, _, process in running if process.wait()]
            if broken:
                return "broken"
            for path_done, out_done, _ in running:
                if not same_file(out_done, object_of(path_done, "base")):
                    changed[path_done] = out_done
            running = []
    finally:
        write(there, mutant.text)
    if not changed:
        return "equal"
    objects = [changed.get(path, object_of(path, "base")) for path in core]
    library = os.path.join(OUT, "mutant", "libcore.so")
    done = subprocess.run([CC, "-shared", "-o", library] + objects, stderr=subprocess.DEVNULL,
                          check=False)
    return "broken" if done.returncode else "built"


def same_file(one, other):
    with open(one, "rb") as a, open(other, "rb") as b:
        return a.read() == b.read()


def try_mutant(mutant, core, users, order):
    built = build_mutant(mutant, core, users)
    if built != "built":
        return {"end": built}
    for test in order.of(mutant.path):
        end = run(test, "mutant", 3 + 10 * order.times[test])
        if end in ("failed", "hangs"):
            return {"end": "killed", "by": test, "how": end}
    return {"end": "survived"}


# ---- results ----

def digest(paths):
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(read(path).encode())
    return total.hexdigest()[:16]


def load(path):
    if not os.path.exists(path):
        return {}
    return {result["id"]: result for result in map(json.loads, read(path).splitlines())}


def report(seed, results, times):
    ends = [result["end"] for result in results]
    killed, survived = ends.count("killed"), ends.count("survived")
    hangs = sum(result.get("how") == "hangs" for result in results)
    score = 100 * killed / (killed + survived) if killed + survived else 0
    print("\nsurvivors:")
    for result in sorted((r for r in results if r["end"] == "survived"),
                         key=lambda r: (r["path"], r["line"])):
        print(f"  {result['path']}:{result['line']}: {result['change']}")
    print(f"\nseed {seed}: {killed + survived} mutants, {killed} killed ({hangs} of them by the "
          f"time limit), {survived} survived {len(times)} tests; not counted: "
          f"{ends.count('equal')} equivalent by the compiler, {ends.count('broken')} that do not "
          "compile")
    print(f"score {score:.1f} %, {PASSES_AT} are needed")
    return 0 if score >= PASSES_AT else 1


def main():
    try:
        count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
        seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    except ValueError:
        fail("usage: mutants.py [COUNT [SEED]]")
    for folder in ("base", "mutant", "support", "tests"):
        os.makedirs(os.path.join(OUT, folder), exist_ok=True)
    sources, tests = copy_tree(), test_sources()
    core = build_shared(sources, tests)
    users = including(core)
    times = measure(tests)
    mutants = list(all_mutants(sources))
    print(f"seed {seed}: {count} of {len(mutants)} changes; {len(times)} tests, "
          f"{sum(times.values()):.0f} s", flush=True)
    random.Random(seed).shuffle(mutants)

    tests_are = f"{SLOWEST_S:g} " + digest([p for pattern in ("*/*.c", "*/*.h") for p in
                        glob.glob(os.path.join(ROOT, "tests", pattern))])
    core_is = digest(os.path.join(ROOT, path) for path in sources)
    log = os.path.join(OUT, f"results-{seed}.jsonl")
    known, order, results, effective = load(log), Order(times), [], 0
    for mutant in mutants:
        if effective == count:
            break
        if is_in_prefetch(mutant):
            continue
        result = known.get(mutant.id)
        # What was killed is, as long as its file is the same. A survivor met other tests, perhaps.
        if not result or result["end"] == "survived" and (result["tests"], result["core"]) != (
                tests_are, core_is):
            result = dict(id=mutant.id, path=mutant.path, line=mutant.line,
                          change=mutant.describe(), tests=tests_are, core=core_is,
                          **try_mutant(mutant, core, users, order))
            with open(log, "a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")
        results.append(result)
        if result["end"] == "killed":
            order.note(mutant.path, result["by"])
        if result["end"] in ("killed", "survived"):
            effective += 1
            print(f"{effective} {result['path']}:{result['line']}: {result['change']}: " +
                  (f"killed by {result['by']}" if result["end"] == "killed" else "SURVIVED"),
                  flush=True)
    if effective < count:
        print(f"there are no more than {effective}")
    if not effective:
        fail("no mutant could be built")
    sys.exit(report(seed, results, times))


if __name__ == "__main__":
    XXHASH = flags_of("--cflags", "libxxhash")
    CMOCKA = flags_of("--cflags", "--libs", "cmocka")
    shutil.rmtree(os.path.join(OUT, "mutant"), ignore_errors=True)
    main()
