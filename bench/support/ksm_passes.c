/* SPDX-License-Identifier: BSD-2-Clause */
/* ksm_passes.c - see ksm_passes.h. */
#include "ksm_passes.h"

#include <inttypes.h>

#include "ksm_settings.h"

#define PER_PASS_PASSES 4u
#define PASSES_MAX 32u

static uint64_t saved_pages(const struct ksm_pass *pass)
{
	return pass->sharing + pass->zero;
}

static void add(struct ksm_figures *figures, const struct ksm_pass *pass, uint64_t npages)
{
	figures->cpu_s += pass->cpu_s;
	figures->wall_s += pass->wall_s;
	figures->looks_per_page += (double)pass->looks / (double)npages;
	figures->shared = pass->shared;
	figures->sharing = pass->sharing;
	figures->zero = pass->zero;
	figures->passes++;
}

static void average(struct ksm_figures *figures)
{
	figures->cpu_s /= (double)figures->passes;
	figures->wall_s /= (double)figures->passes;
	figures->looks_per_page /= (double)figures->passes;
}

static int per_pass(struct ksm_figures *figures, const struct ksm_passer *passer)
{
	struct ksm_pass pass;

	for (unsigned i = 0; i < PER_PASS_PASSES; i++) {
		if (passer->pass(passer->ctx, &pass))
			return -1;
		if (pass.looks != passer->npages)
			return ksm_complain("%s looked %" PRIu64 " times at %" PRIu64 " pages",
					    passer->name, pass.looks, passer->npages);
		if (i)
			add(figures, &pass, passer->npages);
	}
	average(figures);
	return 0;
}

static bool is_merged(const struct ksm_pass *pass, const struct ksm_pass *at_the_end)
{
	return saved_pages(pass) * 1000 >= saved_pages(at_the_end) * 999;
}

static int until_merged(struct ksm_figures *figures, const struct ksm_passer *passer)
{
	struct ksm_pass passes[PASSES_MAX];
	const struct ksm_pass *end;
	unsigned n = 0, last = 0; /* last: the one that changed something, as far as is known */

	do {
		if (n == PASSES_MAX)
			return ksm_complain("%s goes on merging after %u passes", passer->name, n);
		if (passer->pass(passer->ctx, &passes[n]))
			return -1;
		if (saved_pages(&passes[n]) != saved_pages(&passes[last]))
			last = n;
		n++;
	} while (n < 2 + KSM_QUIET_PASSES || n - 1 - last < KSM_QUIET_PASSES);
	end = &passes[n - 1];
	for (unsigned i = 0; i < n; i++) {
		add(figures, &passes[i], passer->npages);
		if (is_merged(&passes[i], end))
			break;
	}
	figures->shared = end->shared;
	figures->sharing = end->sharing;
	figures->zero = end->zero;
	return 0;
}

static int idle(struct ksm_figures *figures, const struct ksm_passer *passer)
{
	struct ksm_pass pass;

	for (unsigned i = 0; i < passer->settle_passes; i++)
		if (passer->pass(passer->ctx, &pass))
			return -1;
	for (unsigned i = 0; i < passer->idle_passes; i++) {
		if (passer->pass(passer->ctx, &pass))
			return -1;
		add(figures, &pass, passer->npages);
	}
	average(figures);
	return 0;
}

int ksm_passes_measure(struct ksm_figures *figures, const struct ksm_passer *passer,
		       enum ksm_task task)
{
	*figures = (struct ksm_figures){ 0 };
	switch (task) {
	case KSM_TASK_PER_PASS:
		return per_pass(figures, passer);
	case KSM_TASK_UNTIL_MERGED:
		return until_merged(figures, passer);
	case KSM_TASK_IDLE:
		break;
	}
	return idle(figures, passer);
}
