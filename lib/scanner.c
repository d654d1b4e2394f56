/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scanner.c - passes and steps.
 *
 * A pass comes by every page of every region once (pass.c says in which order). A step does a part
 * of it: extent by extent, each under its space's lock by try. A space that is busy all the time
 * loses its pages' look in this pass, and nobody waits.
 *
 * Invariants
 *  1. Between steps nothing is pending: no item PENDING, no group, no hook left open, no lock held.
 *  2. Each try of a space that fails is followed by work elsewhere, or ends the look at an extent:
 *     so every pass ends.
 *  3. At the deadline no new run of work begins, but every step gets on by at least one.
 *
 * Several threads. A step takes the extent at which the pass goes on, tries its space and moves the
 * pass on, all under the scanner's lock; so each extent is taken once, and others go on behind it.
 * Then it visits the extent, mostly without the lock (visit.c, claim.c). A pass ends when nothing
 * is left to take, nobody is at pages any more (nstepping), and the last one
 * has come once more by what was in each other's way (pass.c). Invariant 1 holds for each thread,
 * and for all of them when no step is under way.
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
	       ops->frames_unmap && ops->frame_content && ops->frame_free &&
	       !ops->extent_get == !ops->extent_put && !ops->lock == !ops->unlock;
}

static int init_settings(struct pdd_scanner *scanner, const struct pdd_scanner_options *options)
{
	uint32_t shift = options->page_shift ? options->page_shift : 12;

	if (shift < 3 || shift > 30 || (options->flags & ~(uint32_t)PDD_SCANNER_UNIFORM_CHECKSUM))
		return -EINVAL;
	scanner->priv.page_size = (size_t)1 << shift;
	scanner->priv.flags = options->flags;
	pdd_tunables_init(&scanner->priv.tunables);
	return options->tunables ? pddi_tunables_set(scanner, options->tunables) : 0;
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

/* A copy of the options, whatever version of them the caller knows. 0 or -EINVAL. */
static int copy_options(struct pdd_scanner_options *copy, const struct pdd_scanner_options *options)
{
	const unsigned char *bytes = (const unsigned char *)options;

	memset(copy, 0, sizeof(*copy));
	/* 0.1 knew all but the last member; a size never ends within one. */
	if (options->size != offsetof(struct pdd_scanner_options, tunables) &&
	    options->size < sizeof(*copy))
		return -EINVAL;
	for (size_t i = sizeof(*copy); i < options->size; i++)
		if (bytes[i])
			return -EINVAL;
	memcpy(copy, options, options->size < sizeof(*copy) ? options->size : sizeof(*copy));
	return 0;
}

int pdd_scanner_init(struct pdd_scanner *scanner, const struct pdd_ops *ops, void *ctx,
		     const struct pdd_scanner_options *options)
{
	struct pdd_scanner_options copy;
	int err;

	if (!scanner || !ops || !options || ops->size < offsetof(struct pdd_ops, zero_map) ||
	    ops->size % sizeof(void (*)(void)))
		return -EINVAL;
	err = copy_options(&copy, options);
	if (err)
		return err;
	memset(scanner, 0, sizeof(*scanner));
	memcpy(&scanner->priv.ops, ops, ops->size < sizeof(*ops) ? ops->size : sizeof(*ops));
	scanner->priv.ctx = ctx;
	if (!scanner->priv.ops.checksum)
		scanner->priv.checksum_page = pdd_checksum_fastest();
	if (!ops_complete(&scanner->priv.ops))
		return -EINVAL;
	err = init_settings(scanner, &copy);
	if (!err)
		err = init_secret(scanner, &copy);
	if (!err)
		err = pdd_index_init(&scanner->priv.index, copy.roots, copy.nroots,
				     copy.first_nroots ? copy.first_nroots : copy.nroots);
	return err;
}

int pddi_checksum_by_hook(const struct pdd_scanner *scanner, struct pdd_checksum *checksum,
			  const void *content)
{
	int err = scanner->priv.ops.checksum(scanner->priv.ctx, &checksum->value, content);

	if (err)
		return err;
	checksum->class_ = pddi_content_class(content, scanner->priv.page_size);
	if (!(scanner->priv.flags & PDD_SCANNER_UNIFORM_CHECKSUM))
		checksum->value = pdd_checksum_mix(checksum->value);
	return 0;
}

enum pdd_reason pddi_checksum(struct pdd_scanner *scanner, struct pdd_checksum *checksum,
			      const void *content)
{
	int err = pddi_checksum_read(scanner, checksum, content);

	return err ? pddi_reason(scanner, PDD_HOOK_CHECKSUM, err) : PDD_REASON_NONE;
}

enum pdd_reason pddi_reason(struct pdd_scanner *scanner, enum pdd_hook hook, int err)
{
	if (err == 0 || err == -EBUSY || err == -EAGAIN)
		return PDD_REASON_BUSY;
	scanner->priv.stats.hook_errors++;
	scanner->priv.stats.hook_errors_by_hook[hook]++;
	if (err == -ENOSPC)
		return PDD_REASON_MAPPING_BUDGET;
	return err == -ENOMEM ? PDD_REASON_NO_MEMORY : PDD_REASON_HOOK_FAILED;
}

static void end_pass(struct pdd_scanner *scanner)
{
	scanner->priv.in_pass = false;
	scanner->priv.epoch++;
	scanner->priv.stats.full_scans++;
	if (scanner->priv.compare_passes)
		scanner->priv.compare_passes--;
	if (scanner->priv.restless_passes)
		scanner->priv.restless_passes--;
}

/* With a deadline, what is read between two looks at the clock. */
#define TIMED_BYTES ((size_t)PDD_EXTENT_PAGES << 12)

/* How many pages to come by at a stop: at most one extent. */
static uint64_t stop_pages(const struct pdd_scanner *scanner, const struct pdd_worker *worker,
			   const struct pddi_stop *stop, uint64_t left)
{
	uint64_t n = PDD_EXTENT_PAGES - stop->first % PDD_EXTENT_PAGES;

	if (worker->priv.deadline_ns && n > TIMED_BYTES / scanner->priv.page_size)
		n = TIMED_BYTES / scanner->priv.page_size + (TIMED_BYTES < scanner->priv.page_size);
	if (n > stop->end - stop->first)
		n = stop->end - stop->first;
	return n < left ? n : left;
}

/* Come by pages of at most one extent; takes from the budget. */
static void come_by(struct pdd_scanner *scanner, struct pdd_worker *worker,
		    const struct pddi_stop *stop, uint64_t *left)
{
	uint64_t n = stop_pages(scanner, worker, stop, *left);
	struct pdd_space *space = stop->region->priv.space;

	if (scanner->priv.ops.space_trylock(scanner->priv.ctx, space)) {
		pddi_pass_came_by(scanner, stop, stop->first + n);
		pddi_visit(scanner, worker, stop, n, *left);
	} else {
		scanner->priv.stats.space_lock_misses++;
		if (pddi_pass_put_off(scanner, stop)) {
			n = 1; /* a try in vain costs something, too */
		} else {
			pddi_visit_miss(stop->region, stop->first, n);
			pddi_pass_missed(scanner, stop, stop->first + n);
		}
	}
	*left -= n;
}

/* Come once more by the due pages of an extent, alone; takes from the budget. */
static void come_again(struct pdd_scanner *scanner, struct pdd_worker *worker,
		       const struct pddi_stop *stop, uint64_t *left)
{
	uint64_t n = stop_pages(scanner, worker, stop, *left);
	struct pdd_space *space = stop->region->priv.space;

	pddi_pass_take_again(scanner, stop, stop->first + n);
	if (scanner->priv.ops.space_trylock(scanner->priv.ctx, space)) {
		worker->priv.only_due = scanner->priv.coming_again = true;
		pddi_visit(scanner, worker, stop, n, n);
		worker->priv.only_due = scanner->priv.coming_again = false;
	} else {
		scanner->priv.stats.space_lock_misses++;
	}
	*left -= n;
}

/* Whether the step has to begin or go on with a prune. */
static bool has_to_prune(const struct pdd_scanner *scanner)
{
	return scanner->priv.in_prune || scanner->priv.prune_forced ||
	       (!scanner->priv.in_pass && pddi_prune_is_due(scanner));
}

/* Prune, which one step does while no other is at pages. False: the step ends with *result. */
static bool prune(struct pdd_scanner *scanner, struct pdd_worker *worker, uint64_t *left,
		  enum pdd_step *result)
{
	bool begun_before = scanner->priv.in_prune, done;

	if (scanner->priv.nstepping) {
		scanner->priv.prune_waits = true;
		*result = PDD_STEP_WAIT;
		return false;
	}
	scanner->priv.prune_waits = false;
	scanner->priv.pruning = true;
	done = pddi_prune_step(scanner, worker, left);
	scanner->priv.pruning = false;
	pddi_frames_flush(scanner);
	/* What ends a prune of several steps does nothing else: it had little budget. */
	*result = PDD_STEP_MORE;
	return done && *left && !(begun_before && scanner->priv.nframes);
}

/* Whether another thread is at the extent that comes next. */
static bool is_taken(const struct pdd_scanner *scanner, const struct pddi_stop *stop)
{
	return pddi_is_claimed(scanner, NULL, stop->region, stop->first);
}

static enum pdd_step step(struct pdd_scanner *scanner, struct pdd_worker *worker,
			  const struct pdd_budget *budget)
{
	enum pdd_step result;
	uint64_t left = budget->pages;
	struct pddi_stop stop;
	bool is_over = false; /* the time */

	worker->priv.deadline_ns = budget->deadline_ns;
	worker->priv.runs = 0;
	if (scanner->priv.pruning)
		return PDD_STEP_WAIT;
	if (has_to_prune(scanner) && !prune(scanner, worker, &left, &result))
		return result;
	if (!scanner->priv.in_pass && !pddi_pass_begin(scanner))
		return PDD_STEP_IDLE;
	for (;;) {
		bool once_more = !pddi_pass_next(scanner, &stop);

		if (once_more && scanner->priv.nstepping)
			return PDD_STEP_WAIT;
		if (once_more && !pddi_pass_next_again(scanner, &stop))
			break;
		if (!left || pddi_is_quiescing(scanner) || is_over || scanner->priv.prune_waits)
			return PDD_STEP_MORE;
		if (is_taken(scanner, &stop))
			return PDD_STEP_WAIT;
		(once_more ? come_again : come_by)(scanner, worker, &stop, &left);
		is_over = budget->deadline_ns && pddi_now(scanner) >= budget->deadline_ns;
	}
	end_pass(scanner);
	return PDD_STEP_PASS;
}

/*
 * Quiescing. Either the step sees the mark and does nothing, or the other thread sees the step:
 * each writes its own word before it reads the other's, all in one total order (seq_cst). The
 * step's end is a release, which pairs with that read: who is told that no step is under way sees
 * all that steps have done.
 */
int pdd_scanner_step(struct pdd_scanner *scanner, struct pdd_worker *worker,
		     const struct pdd_budget *budget)
{
	enum pdd_step result = PDD_STEP_QUIET;

	if (!scanner || !worker || !budget || budget->pages == 0 ||
	    (budget->deadline_ns && !scanner->priv.ops.now_ns))
		return -EINVAL;
	__atomic_add_fetch(&scanner->priv.steps, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&scanner->priv.quiescing, __ATOMIC_SEQ_CST)) {
		pddi_lock(scanner);
		result = step(scanner, worker, budget);
		pddi_unlock(scanner);
	}
	__atomic_sub_fetch(&scanner->priv.steps, 1, __ATOMIC_RELEASE);
	return result;
}

bool pdd_scanner_quiesce(struct pdd_scanner *scanner)
{
	__atomic_store_n(&scanner->priv.quiescing, 1, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&scanner->priv.steps, __ATOMIC_SEQ_CST) == 0;
}

void pdd_scanner_resume(struct pdd_scanner *scanner)
{
	__atomic_store_n(&scanner->priv.quiescing, 0, __ATOMIC_RELEASE);
}
