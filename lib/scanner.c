/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scanner.c - passes and steps.
 *
 * A pass comes by every page of every region once, in the order in which spaces and regions were
 * added. A step does a part of it: extent by extent, each under its space's lock by try; a busy
 * space loses its pages' look in this pass, and nobody waits.
 *
 * Invariants
 *  1. Between steps nothing is pending: no item PENDING, no group, no hook left open, no lock held.
 *  2. Within a pass the cursor only moves on, so every pass ends after the regions that are there.
 *  3. At the deadline no new run of work begins, but every step gets on by at least one.
 *
 * Cost: O(pages come by), and reading each page that is looked at once.
 */
#include <string.h>

#include "content.h"
#include "scanner_internal.h"

/* Hooks without which nothing works. */
static bool ops_complete(const struct pdd_ops *ops)
{
	return ops->space_trylock && ops->space_unlock && ops->pages_get && ops->pages_put &&
	       ops->hold && ops->release && ops->frames_create && ops->frames_map &&
	       ops->frames_unmap && ops->frame_content && ops->frame_free;
}

static bool is_power_of_two(uint64_t n)
{
	return n != 0 && (n & (n - 1)) == 0;
}

static int init_settings(struct pdd_scanner *scanner, const struct pdd_scanner_options *options)
{
	const uint32_t known = PDD_SCANNER_UNIFORM_CHECKSUM | PDD_SCANNER_KEEP_ZERO_PAGES |
			       PDD_SCANNER_ONE_LOOK;
	uint32_t shift = options->page_shift ? options->page_shift : 12;
	uint32_t limit = options->max_page_sharing ? options->max_page_sharing
						   : PDD_MAX_PAGE_SHARING;
	uint32_t period = options->max_period_passes ? options->max_period_passes
						     : PDD_AGING_PERIOD_MAX;

	if (shift < 3 || shift > 30 || (options->flags & ~known) || limit < 2)
		return -EINVAL;
	if (!is_power_of_two(period) || period > PDD_AGING_PERIOD_MAX ||
	    (options->aging != PDD_AGING_PHASE && options->aging != PDD_AGING_NONE))
		return -EINVAL;
	scanner->priv.page_size = (size_t)1 << shift;
	scanner->priv.flags = options->flags;
	scanner->priv.max_page_sharing = limit;
	scanner->priv.aging = options->aging;
	scanner->priv.max_period = period;
	return 0;
}

static int init_secret(struct pdd_scanner *scanner, const struct pdd_scanner_options *options)
{
	if (!options->secret)
		return scanner->priv.ops.checksum ? 0 : -EINVAL;
	if (options->secret_len < PDD_SECRET_LEN_MIN || options->secret_len > PDD_SECRET_LEN_MAX)
		return -EINVAL;
	memcpy(scanner->priv.secret, options->secret, options->secret_len);
	scanner->priv.secret_len = options->secret_len;
	return 0;
}

/* A newer caller's options are understood if what is not known here is not used. */
static bool is_zero_tail(const struct pdd_scanner_options *options)
{
	const unsigned char *bytes = (const unsigned char *)options;

	for (size_t i = sizeof(*options); i < options->size; i++)
		if (bytes[i])
			return false;
	return true;
}

int pdd_scanner_init(struct pdd_scanner *scanner, const struct pdd_ops *ops, void *ctx,
		     const struct pdd_scanner_options *options)
{
	int err;

	if (!scanner || !ops || !options || options->size < sizeof(*options) ||
	    ops->size < offsetof(struct pdd_ops, zero_map) || !is_zero_tail(options))
		return -EINVAL;
	memset(scanner, 0, sizeof(*scanner));
	memcpy(&scanner->priv.ops, ops, ops->size < sizeof(*ops) ? ops->size : sizeof(*ops));
	scanner->priv.ctx = ctx;
	if (!ops_complete(&scanner->priv.ops))
		return -EINVAL;
	err = init_settings(scanner, options);
	if (!err)
		err = init_secret(scanner, options);
	if (!err)
		err = pdd_index_init(&scanner->priv.index, options->roots, options->nroots);
	return err;
}

int pddi_checksum(const struct pdd_scanner *scanner, struct pdd_checksum *checksum,
		  const void *content)
{
	int err;

	if (!scanner->priv.ops.checksum) {
		*checksum = pdd_checksum_page(content, scanner->priv.page_size,
					      scanner->priv.secret, scanner->priv.secret_len);
		return 0;
	}
	err = scanner->priv.ops.checksum(scanner->priv.ctx, &checksum->value, content);
	if (err)
		return err;
	checksum->class_ = pddi_content_class(content, scanner->priv.page_size);
	if (!(scanner->priv.flags & PDD_SCANNER_UNIFORM_CHECKSUM))
		checksum->value = pdd_checksum_mix(checksum->value);
	return 0;
}

enum pdd_reason pddi_reason(struct pdd_scanner *scanner, int err)
{
	if (err == 0 || err == -EBUSY || err == -EAGAIN)
		return PDD_REASON_BUSY;
	scanner->priv.stats.hook_errors++;
	if (err == -ENOSPC)
		return PDD_REASON_MAPPING_BUDGET;
	return err == -ENOMEM ? PDD_REASON_NO_MEMORY : PDD_REASON_HOOK_FAILED;
}

/* A page that pages_get cannot describe. Those behind it may be described, unless all are busy. */
static uint64_t look_at_undescribed(struct pdd_scanner *scanner, struct pdd_region *region,
				    uint64_t page, int err)
{
	pddi_look_refused(scanner, pddi_item_at(region, page), pddi_reason(scanner, err));
	return err == -EBUSY ? 0 : 1;
}

/* Look at pages of one extent as far as one call of pages_get describes them, and carry out what
 * was decided. The number of pages come by, 0 if none could be described. */
static uint64_t visit_views(struct pdd_scanner *scanner, struct pdd_worker *worker,
			    struct pdd_region *region, uint64_t first, uint64_t npages)
{
	const struct pdd_ops *ops = &scanner->priv.ops;
	struct pdd_view *views = worker->priv.views;
	uint64_t done = 0;
	int n = ops->pages_get(scanner->priv.ctx, region, views, PDD_WORKER_VIEWS, first, npages);

	if (n <= 0)
		return look_at_undescribed(scanner, region, first, n);
	for (uint32_t i = 0; i < (uint32_t)n && i < PDD_WORKER_VIEWS && done < npages; i++) {
		pddi_view_clip(&views[i], npages - done);
		pddi_look(scanner, worker, region, first + done, &views[i]);
		done += views[i].npages;
	}
	pddi_look_flush(scanner, worker);
	pddi_groups_create_frames(scanner, worker);
	ops->pages_put(scanner->priv.ctx, region, first, done);
	pddi_carry_out(scanner, worker, region->priv.space);
	return done;
}

/* Come by pages of one extent. */
static void visit(struct pdd_scanner *scanner, struct pdd_worker *worker,
		  struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct pdd_space *space = region->priv.space;
	uint64_t done = 0, n = 1;

	if (!scanner->priv.ops.space_trylock(scanner->priv.ctx, space)) {
		scanner->priv.stats.space_lock_misses++;
		space->priv.counts.pages_busy += npages;
		return;
	}
	while (done < npages && n) {
		n = visit_views(scanner, worker, region, first + done, npages - done);
		done += n;
	}
	scanner->priv.ops.space_unlock(scanner->priv.ctx, space);
	space->priv.counts.pages_busy += npages - done;
}

/* Move the cursor behind pages of its region. */
static void advance(struct pdd_scanner *scanner, uint64_t npages)
{
	struct pdd_region *region = scanner->priv.cursor;

	scanner->priv.cursor_page += npages;
	if (scanner->priv.cursor_page == region->priv.npages) {
		scanner->priv.cursor = pddi_region_next(region);
		scanner->priv.cursor_page = 0;
	}
}

static void begin_pass(struct pdd_scanner *scanner)
{
	scanner->priv.cursor = pddi_region_first(scanner->priv.spaces);
	scanner->priv.cursor_page = 0;
	scanner->priv.in_pass = true;
}

static void end_pass(struct pdd_scanner *scanner)
{
	scanner->priv.in_pass = false;
	scanner->priv.epoch++;
	scanner->priv.stats.full_scans++;
}

int pdd_scanner_step(struct pdd_scanner *scanner, struct pdd_worker *worker,
		     const struct pdd_budget *budget)
{
	uint64_t left = budget->pages;

	if (left == 0 || (budget->deadline_ns && !scanner->priv.ops.now_ns))
		return -EINVAL;
	if (!scanner->priv.in_pass) {
		if (!pddi_region_first(scanner->priv.spaces))
			return PDD_STEP_IDLE;
		begin_pass(scanner);
	}
	worker->priv.deadline_ns = budget->deadline_ns;
	worker->priv.runs = 0;
	while (scanner->priv.cursor && left) {
		struct pdd_region *region = scanner->priv.cursor;
		uint64_t page = scanner->priv.cursor_page;
		uint64_t n = PDD_EXTENT_PAGES - page % PDD_EXTENT_PAGES;

		if (n > region->priv.npages - page)
			n = region->priv.npages - page;
		if (n > left)
			n = left;
		visit(scanner, worker, region, page, n);
		advance(scanner, n);
		left -= n;
		if (budget->deadline_ns && pddi_now(scanner) >= budget->deadline_ns)
			break;
	}
	if (scanner->priv.cursor)
		return PDD_STEP_MORE;
	end_pass(scanner);
	return PDD_STEP_PASS;
}
