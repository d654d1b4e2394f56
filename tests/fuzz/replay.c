/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * replay.c - in libFuzzer's place where there is none: <target> FILE|FOLDER... feeds each file to
 * the target. What a target finds ends the process. Fails if there was no file at all.
 */
#define _GNU_SOURCE

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

/* Of a target that has none. */
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	return 0;
}

static bool complain(const char *path)
{
	fprintf(stderr, "%s: %s\n", path, strerror(errno));
	return false;
}

/* The input in memory of exactly its size, so that reading behind it is noticed. */
static bool feed(const char *path, size_t size)
{
	FILE *file = fopen(path, "rbe");
	uint8_t *data = malloc(size ? size : 1);
	bool ok = file && data && fread(data, 1, size, file) == size;

	if (file)
		fclose(file);
	if (ok) {
		fprintf(stderr, "%s\n", path); /* the last one is that which failed */
		LLVMFuzzerTestOneInput(data, size);
	}
	free(data);
	return ok || complain(path);
}

static bool replay(const char *path, unsigned *n)
{
	struct dirent **names = NULL;
	struct stat st;
	bool ok = true;
	int count;

	if (stat(path, &st) != 0)
		return complain(path);
	if (!S_ISDIR(st.st_mode)) {
		++*n;
		return feed(path, (size_t)st.st_size);
	}
	count = scandir(path, &names, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		char *inner = NULL;

		if (names[i]->d_name[0] != '.')
			ok = asprintf(&inner, "%s/%s", path, names[i]->d_name) > 0 &&
			     replay(inner, n) && ok;
		free(inner);
		free(names[i]);
	}
	free(names);
	return count < 0 ? complain(path) : ok;
}

int main(int argc, char **argv)
{
	unsigned n = 0;
	bool ok = true;

	LLVMFuzzerInitialize(&argc, &argv);
	for (int i = 1; i < argc; i++)
		ok = replay(argv[i], &n) && ok;
	printf("%u inputs\n", n);
	return ok && n ? 0 : 1;
}
