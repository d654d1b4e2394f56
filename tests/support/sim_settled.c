/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim_settled.c - what must have become of all pages once they were left alone for long enough: it
 * follows from their contents, whatever happened before.
 */
#include "sim.h"

#include <stdlib.h>

#include "item_internal.h"

typedef uint64_t numbers[SIM_SETTLED_CONTENTS]; /* of pages that count, by content */

/* The library knows what the page shows. */
static void check_state(const struct sim_page *page, const struct pdd_item *item)
{
	enum item_state state = item ? item_state(item) : ITEM_NEW;

	if ((page->kind == PDD_PAGE_SHARED) != (state == ITEM_SHARER) ||
	    (page->kind == PDD_PAGE_ZERO) != (state == ITEM_ZERO) ||
	    (page->kind == PDD_PAGE_PRIVATE && state == ITEM_NEW && !item_is_kept_out(item)))
		sim_fail("a page of kind %d, content %d, is recorded in state %d", (int)page->kind,
			 (int)page->expected, (int)state);
}

/* The number behind the greatest content. */
static uint64_t count_pages(const struct sim *sim, numbers *of_domain)
{
	uint64_t end = 0;

	for (const struct sim_space *space = sim->spaces; space; space = space->next) {
		for (const struct sim_region *r = space->regions; r; r = r->next) {
			for (uint64_t i = 0; i < r->npages; i++) {
				const struct pdd_item *item = sim_item(r, i);
				const struct sim_page *page = &r->pages[i];

				check_state(page, item);
				if (page->kind == PDD_PAGE_ABSENT ||
				    (item && item_is_kept_out(item)))
					continue;
				of_domain[space->domain][page->expected]++;
				end = page->expected < end ? end : page->expected + 1;
			}
		}
	}
	return end;
}

void sim_assert_settled(const struct sim *sim)
{
	numbers *of_domain = calloc(SIM_SETTLED_DOMAINS, sizeof(*of_domain));
	bool keeps_zero = sim->options.no_zero_map || sim->options.keep_zero_pages;
	uint64_t limit = sim->scanner.priv.tunables.max_page_sharing;
	uint64_t zero = 0, sharing = 0, places = 0;
	struct pdd_stats stats = sim_stats(sim);
	uint64_t end = count_pages(sim, of_domain);

	for (unsigned d = 0; d < SIM_SETTLED_DOMAINS; d++) {
		for (uint64_t c = 0; c < end; c++) {
			uint64_t n = of_domain[d][c], frames = (n + limit - 1) / limit;

			if (c == 0 && !keeps_zero) {
				zero += n;
			} else {
				places += frames;
				sharing += n - frames;
			}
		}
	}
	free(of_domain);
	if (stats.pages_sharing != sharing || stats.counts.ksm_zero_pages != zero ||
	    stats.pages_shared + stats.counts.pages_unshared != places)
		sim_fail("sharing %d of %d, shared and unshared %d of %d, zero %d of %d",
			 (int)stats.pages_sharing, (int)sharing,
			 (int)(stats.pages_shared + stats.counts.pages_unshared), (int)places,
			 (int)stats.counts.ksm_zero_pages, (int)zero);
}
