/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * prune.c - a walk over all frames between two passes: chains are put in order, frames that are
 * gone or kept in vain are dropped, and sparse frames are emptied into fuller ones (refiled).
 *
 * Why refile: writes take sharers away from all frames of a chain, and frames that got room again
 * are filled only as far as new pages of that content come along. 10 frames with 10 sharers each
 * where one with 100 would do cost 9 pages for ever.
 *
 * Invariants
 *  1. prune_root and prune_checksum are where the prune goes on: in this tree all frames of
 *     checksums before that one were come by, and prune_skip of it, and those of the trees before.
 *     These are numbers, not nodes, so whatever happens between two steps does no harm: if some of
 *     several leaders of one checksum go meanwhile, others of it may be left to the next prune.
 *     Where the table of roots grows, frames move to the last tree, and are come by there.
 *  2. A sharer moves only to a frame of its own chain, which has the same content, and only by the
 *     hook frames_remap, which does nothing to a page that was written. So no content is compared.
 *  3. Each step makes progress: it comes by one chain at least, or moves one sharer.
 *
 * A chain is put in order once, when the prune comes to it; steps that go on with it rely on the
 * order that changes keep.
 *
 * Locking: one step prunes at a time, while no other is at pages (scanner.c). The space of the
 * sharer that is moved is tried; if it is busy, or the hook fails, the chain is left until the next
 * prune. Around the hook the scanner's lock is released: other spaces may lose sharers, and frames
 * their last one, but no frame goes back meanwhile, since the prune is a visit. Complexity: O(roots
 * + nodes) for a whole prune, O(log) for each sharer that is moved.
 */
#include "scanner_internal.h"

/* Coming by so many trees counts as one page. */
#define TREES_PER_PAGE 64u
#define NS_PER_MS UINT64_C(1000000)

bool pddi_prune_is_due(const struct pdd_scanner *scanner)
{
	uint64_t period = scanner->priv.tunables.chain_prune_ms * NS_PER_MS;

	/* A pass comes between two prunes, whatever the time. */
	if (scanner->priv.pruned_pass == scanner->priv.epoch + 1)
		return false;
	/* Nobody tells when the last clone that maps a kept frame is gone. */
	if (!scanner->priv.prune_wanted && !scanner->priv.stats.frames_kept)
		return false;
	return !scanner->priv.ops.now_ns || !scanner->priv.pruned_ns ||
	       pddi_now(scanner) - scanner->priv.pruned_ns >= period;
}

/* Let the page of a sharer show the target; 0 or -errno, 0 pages done being busy. */
static int remap(struct pdd_scanner *scanner, struct pdd_item *item, struct pdd_frame *target)
{
	struct pdd_region *region = item->priv.region;
	uint64_t page = item_page(item);
	int n;

	pddi_unlock(scanner);
	n = scanner->priv.ops.frames_remap(scanner->priv.ctx, region, page, &target, 1);
	pddi_lock(scanner);
	if (n > 0)
		return 0;
	(void)pddi_reason(scanner, PDD_HOOK_FRAMES_REMAP, n);
	return n ? n : -EBUSY;
}

/* Move one sharer. Its space is locked, so only its frame can go meanwhile, and take it along. */
static bool refile(struct pdd_scanner *scanner, struct pdd_visit *visit, struct pdd_frame *source,
		   struct pdd_frame *target)
{
	struct pdd_item *item = source->priv.sharers;
	struct pdd_space *space = item->priv.region->priv.space;
	int err;

	/* A reverse walk may be asking for the page. */
	if (!pddi_claim(scanner, visit, &visit->beside, item->priv.region, item_page(item)))
		return false;
	if (!scanner->priv.ops.space_trylock(scanner->priv.ctx, space)) {
		scanner->priv.stats.space_lock_misses++;
		pddi_unclaim(&visit->beside);
		return false;
	}
	pdd_frame_reserve(target); /* so that it stays */
	err = remap(scanner, item, target);
	pdd_frame_unreserve(target);
	if (!err)
		pddi_stable_refile(scanner, item, source, target);
	pddi_stable_drop_empty(scanner, target);
	pddi_unclaim(&visit->beside);
	pddi_unlock(scanner);
	scanner->priv.ops.space_unlock(scanner->priv.ctx, space);
	pddi_lock(scanner);
	return !err;
}

/* Whether sharers can still be moved from one frame to the other: owners of spaces may have taken
 * some away, or all. */
static bool can_refile(const struct pdd_scanner *scanner, const struct pdd_frame *source,
		       const struct pdd_frame *target)
{
	return source->priv.sharers && target->priv.flags & FRAME_LISTED &&
	       frame_partition(source) == frame_partition(target) &&
	       pdd_frame_has_room(target, scanner->priv.tunables.max_page_sharing);
}

static void spend(uint64_t *left, uint64_t cost)
{
	*left = cost < *left ? *left - cost : 0;
}

static bool is_late(const struct pdd_scanner *scanner, struct pdd_worker *worker)
{
	return pddi_is_quiescing(scanner) ||
	       (worker->priv.deadline_ns && pddi_now(scanner) >= worker->priv.deadline_ns);
}

enum progress {
	GO_ON = 0,
	PAUSE = 1,    /* the step has to end */
	LEAVE_IT = 2, /* a sharer cannot be moved: until the next prune */
};

/* Move sharers of a frame to another, as many as go. */
static enum progress refile_all(struct pdd_scanner *scanner, struct pdd_worker *worker,
				struct pdd_frame *source, struct pdd_frame *target, uint64_t *left)
{
	while (can_refile(scanner, source, target)) {
		if (!refile(scanner, &worker->priv.visit, source, target)) {
			scanner->priv.prune_wanted = true;
			return LEAVE_IT;
		}
		spend(left, 1);
		if (!*left || is_late(scanner, worker))
			return PAUSE;
	}
	return GO_ON;
}

/* Come by a chain; *leader becomes who leads it then, NULL if it is gone. True: done with it. */
static bool prune_chain(struct pdd_scanner *scanner, struct pdd_worker *worker,
			struct pdd_frame **leader, uint64_t *left)
{
	uint32_t limit = scanner->priv.tunables.max_page_sharing;
	struct pdd_frame *source, *target;
	enum progress progress = GO_ON;
	uint64_t nframes;

	if (!scanner->priv.prune_tidied) {
		*leader = pddi_stable_tidy(scanner, *leader, &nframes);
		scanner->priv.prune_tidied = *leader != NULL;
		spend(left, nframes);
	}
	while (*leader && progress == GO_ON && scanner->priv.ops.frames_remap &&
	       pdd_chain_plan_refile(*leader, &source, &target, limit)) {
		progress = refile_all(scanner, worker, source, target, left);
		/* The source may have been the leader, and be gone; so may the target. */
		*leader = target->priv.flags & FRAME_LISTED ? pddi_stable_leader(scanner, target)
							    : NULL;
	}
	if (progress != PAUSE)
		scanner->priv.prune_tidied = false;
	return progress != PAUSE;
}

/* The first frame from a node on, in order. */
static struct pdd_frame *frame_from(struct pdd_rbnode *rb)
{
	for (; rb; rb = pdd_rb_next(rb)) {
		struct pdd_index_node *node = (struct pdd_index_node *)(void *)rb;

		if (pdd_index_kind(node) == PDD_KIND_FRAME)
			return frame_of(node);
	}
	return NULL;
}

static struct pdd_frame *frame_behind(const struct pdd_frame *leader)
{
	return frame_from(pdd_rb_next(&leader->priv.node.u.rb));
}

/* The frame of a tree at which the prune goes on. */
static struct pdd_frame *find_leader(const struct pdd_scanner *scanner,
				     const struct pdd_rbroot *root)
{
	struct pdd_rbnode *rb = root->node, *first = NULL;
	struct pdd_frame *leader;

	while (rb) {
		const struct pdd_index_node *node = (const struct pdd_index_node *)(void *)rb;
		bool left = !pdd_index_is_behind(scanner->priv.prune_checksum, node->checksum);

		if (left)
			first = rb;
		rb = left ? rb->left : rb->right;
	}
	leader = frame_from(first);
	for (uint64_t i = 0; leader && i < scanner->priv.prune_skip &&
			     leader->priv.node.checksum == scanner->priv.prune_checksum;
	     i++)
		leader = frame_behind(leader);
	return leader;
}

/* Come by the chains of one tree; true: by all of them. */
static bool prune_tree(struct pdd_scanner *scanner, struct pdd_worker *worker,
		       const struct pdd_rbroot *root, uint64_t *left)
{
	struct pdd_frame *leader = find_leader(scanner, root);

	while (leader) {
		if (leader->priv.node.checksum != scanner->priv.prune_checksum) {
			scanner->priv.prune_checksum = leader->priv.node.checksum;
			scanner->priv.prune_skip = 0;
			scanner->priv.prune_tidied = false; /* the chain before may be gone */
		}
		if (!prune_chain(scanner, worker, &leader, left))
			return false;
		scanner->priv.prune_skip += leader != NULL;
		leader = leader ? frame_behind(leader) : find_leader(scanner, root);
		if (leader && (!*left || is_late(scanner, worker)))
			return false;
	}
	return true;
}

/* Go on to the next tree; false: there is none. */
static bool next_tree(struct pdd_scanner *scanner)
{
	if (scanner->priv.prune_root + 1 == scanner->priv.index.nroots || scanner->priv.nframes == 0)
		return false;
	scanner->priv.prune_root++;
	scanner->priv.prune_checksum = 0; /* before all others */
	scanner->priv.prune_skip = 0;
	return true;
}

static void begin(struct pdd_scanner *scanner)
{
	scanner->priv.in_prune = true;
	scanner->priv.prune_wanted = false;
	scanner->priv.prune_forced = false;
	scanner->priv.prune_root = 0;
	scanner->priv.prune_checksum = 0;
	scanner->priv.prune_skip = 0;
	scanner->priv.prune_tidied = false;
	scanner->priv.pruned_ns = pddi_now(scanner);
	scanner->priv.pruned_pass = scanner->priv.epoch + 1;
}

/* Go on until it is done, the budget is used up, or it is late; true: it is done. */
static bool prune(struct pdd_scanner *scanner, struct pdd_worker *worker, uint64_t *left)
{
	uint64_t ntrees = 0;

	if (scanner->priv.prune_forced || !scanner->priv.in_prune)
		begin(scanner);
	for (;;) {
		const struct pdd_rbroot *root =
			&scanner->priv.index.roots[scanner->priv.prune_root];
		uint64_t before = *left;

		if (!prune_tree(scanner, worker, root, left))
			return false;
		if (!next_tree(scanner))
			break;
		if (++ntrees % TREES_PER_PAGE == 0)
			spend(left, 1);
		if (*left != before && (!*left || is_late(scanner, worker)))
			return false;
	}
	scanner->priv.in_prune = false;
	scanner->priv.stats.prunes++;
	return true;
}

bool pddi_prune_step(struct pdd_scanner *scanner, struct pdd_worker *worker, uint64_t *left)
{
	bool done;

	pddi_visit_begin(scanner, &worker->priv.visit);
	done = prune(scanner, worker, left);
	pddi_visit_end(scanner, &worker->priv.visit);
	return done;
}

int pdd_scanner_prune(struct pdd_scanner *scanner)
{
	if (!scanner)
		return -EINVAL;
	pddi_lock(scanner);
	scanner->priv.prune_forced = true;
	pddi_unlock(scanner);
	return 0;
}
