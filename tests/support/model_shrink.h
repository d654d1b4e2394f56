/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * model_shrink.h - scripts of the model in processes of their own, so that one that fails ends none
 * but that; and how one that fails is made shorter.
 *
 * Two runs fail the same way if they say the same but for numbers, at the same place of the tests,
 * and end by the same signal.
 */
#ifndef PDD_TEST_MODEL_SHRINK_H
#define PDD_TEST_MODEL_SHRINK_H

#include "model_script.h"

struct model_run {
	bool ok;
	int status;         /* as waitpid() tells it */
	char said[512];     /* the lines that say why it failed */
	char way[512];      /* in which it failed: the same without numbers */
	struct model_script_progress progress;
};

/* Play it, in a process. */
void model_script_run(const struct model_script *script, struct model_run *run);

#define MODEL_BATCH 16u

/* Play, in one process, the scripts that model_script_make() makes with these seeds; up to
 * MODEL_BATCH. Returns how many went well; if not all, `run` is of the next one. */
uint64_t model_script_run_batch(struct model_script_progress *progress, struct model_run *run,
				uint64_t seed, uint64_t n, uint64_t noperations);

/* Take out and make simple what can be, as long as it fails as this run did. Returns the number of
 * runs that took. */
uint64_t model_shrink(struct model_script *script, const struct model_run *failure);

#endif
