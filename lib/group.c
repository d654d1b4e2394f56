/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group.c - pages of equal content that are to found a frame together.
 *
 * A group is made when the page at hand finds a twin in the index. It takes the twin's place there,
 * so that more pages of the same content join it instead of founding frames of their own.
 *
 * Invariants
 *  1. An open group stands in the index until its frame takes its place, or it is dissolved; one
 *     that is full (twin and members would fill a frame) does not. So there is at most one open
 *     group of a key; and other threads, whose pages cannot join, find that there is going to be a
 *     frame (search.c): else they would found another one.
 *  2. The twin and the members are PENDING and bound to the group, the members in its list. Once
 *     the frame is made each has a place reserved in it, and the members, which are at hand, are
 *     bound to the frame. The twin stays bound to the group: its space may not be locked, so its
 *     owner may withdraw it, and remove it, at any time; then the group forgets it. One more place
 *     is the group's own, which keeps the frame alive until the group is settled.
 *  3. After pddi_groups_settle() no group exists, and nothing is bound to one.
 *
 * Founding a frame copies the first member's page while it may be written. What came out is
 * checksummed: only if it has the recorded checksum the frame is used, so the key of a frame is
 * that of its content. From then on twin and members join like anybody else: held and compared.
 */
#include "scanner_internal.h"

static void close_group(struct pdd_scanner *scanner, struct pdd_group *group)
{
	if (!group->open)
		return;
	pddi_index_remove(scanner, &group->node);
	group->open = false;
}

void pddi_group_join(struct pdd_scanner *scanner, struct pdd_group *group, struct pdd_item *item)
{
	item_set(item, ITEM_PENDING, item_reason(item));
	item_bind_group(item, group);
	item_list_insert(&group->members, item);
	group->nmembers++;
	if (group->nmembers + 1 >= scanner->priv.tunables.max_page_sharing)
		close_group(scanner, group);
}

void pddi_group_found(struct pdd_scanner *scanner, struct pdd_worker *worker,
		      struct pdd_item *twin, struct pdd_item *item, const void *content)
{
	struct pdd_group *group = &worker->priv.groups[worker->priv.ngroups++];

	*group = (struct pdd_group){
		.node = { .checksum = twin->priv.node.checksum },
		.visit = &worker->priv.visit,
		.twin = twin,
		.twin_reason = PDD_REASON_CHANGED,
		.content = content,
		.partition = item_partition(twin),
		.open = true,
		.fresh = item_is_fresh(twin),
	};
	pdd_index_replace(&scanner->priv.index, &twin->priv.node, &group->node, PDD_KIND_GROUP);
	item_set(twin, ITEM_PENDING, item_reason(twin));
	item_bind_group(twin, group);
	twin->priv.node.u.member.pprev = NULL;
	pddi_group_join(scanner, group, item);
}

/* No frame: the twin goes back to where it was, the members are told why. */
static void dissolve(struct pdd_scanner *scanner, struct pdd_group *group, enum pdd_reason reason)
{
	struct pdd_item *twin = group->twin;

	close_group(scanner, group);
	while (group->members)
		pddi_pending_cancel(scanner, group->members, reason);
	if (!twin)
		return;
	if (pddi_reason_is_general(reason)) {
		pddi_pending_cancel(scanner, twin, reason);
	} else {
		item_set(twin, ITEM_SEEN, item_reason(twin));
		if (!pddi_search_insert(scanner, twin, item_reason(twin)))
			item_set_due(twin, true);
	}
	group->twin = NULL;
}

/* Bind twin and members to the frame, each to a place of its own. */
static void adopt_frame(struct pdd_group *group, struct pdd_frame *frame)
{
	frame->priv.nreserved = group->nmembers + 1 + (group->twin != NULL);
	group->frame = frame;
	for (struct pdd_item *item = group->members; item; item = item->priv.node.u.member.next)
		item->priv.node.u.member.owner = frame;
}

/* Whether the copy is what the group's members were when they were read: 0, 1 if not, or -errno of
 * the checksum hook. Without the lock. */
static int check_copy(const struct pdd_scanner *scanner, struct pdd_frame *frame, uint64_t checksum)
{
	const void *content = pddi_frame_content(scanner, frame);
	struct pdd_checksum copy;
	int err = content ? pddi_checksum_read(scanner, &copy, content) : 1;

	return err ? err : copy.value != checksum;
}

/* Use the frames that were made for the first n of some groups. */
static void use_frames(struct pdd_scanner *scanner, const struct pdd_worker *worker,
		       struct pdd_group *groups, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct pdd_frame *frame = worker->priv.frames[i];
		struct pdd_group *group = &groups[i];
		int err = worker->priv.errors[i];

		pdd_frame_init(frame, group->node.checksum, (uint32_t)(group->partition >> 16),
			       (uint16_t)group->partition);
		if (!err) {
			adopt_frame(group, frame);
			continue;
		}
		if (err < 0)
			(void)pddi_reason(scanner, PDD_HOOK_CHECKSUM, err);
		pddi_frame_free(scanner, frame);
		dissolve(scanner, group, PDD_REASON_CHANGED);
	}
}

/* A group whose twin left it has members, unless these left as well. */
static struct pdd_frame_wish wish_of(const struct pdd_group *group)
{
	const struct pdd_item *item = group->twin ? group->twin : group->members;

	return (struct pdd_frame_wish){
		.content = group->content,
		.region = item->priv.region,
		.page = item_page(item),
		.node = (uint16_t)group->partition,
	};
}

/* Make frames for groups, and check the copies; the number of frames or -errno. */
static int make_frames(struct pdd_scanner *scanner, struct pdd_worker *worker, uint32_t done,
		       uint32_t ngroups)
{
	const struct pdd_group *groups = &worker->priv.groups[done];
	struct pdd_frame **frames = worker->priv.frames;
	int n;

	pddi_unlock(scanner);
	/* The groups of one extent are of one domain. */
	n = scanner->priv.ops.frames_create(scanner->priv.ctx, frames, &worker->priv.wishes[done],
					    ngroups - done, (uint32_t)(groups->partition >> 16));
	if (n > (int)(ngroups - done))
		n = (int)(ngroups - done);
	for (int i = 0; i < n; i++)
		worker->priv.errors[i] =
			check_copy(scanner, frames[i], groups[i].node.checksum);
	pddi_lock(scanner);
	return n;
}

void pddi_groups_create_frames(struct pdd_scanner *scanner, struct pdd_worker *worker)
{
	struct pdd_group *groups = worker->priv.groups;
	uint32_t ngroups = worker->priv.ngroups, done = 0;

	for (uint32_t i = 0; i < ngroups; i++)
		worker->priv.wishes[i] = wish_of(&groups[i]);
	while (done < ngroups) {
		int n = make_frames(scanner, worker, done, ngroups);

		if (n <= 0) {
			enum pdd_reason reason = pddi_reason(scanner, PDD_HOOK_FRAMES_CREATE, n);

			if (n == -ENOSPC)
				reason = PDD_REASON_NO_MEMORY;
			while (done < ngroups)
				dissolve(scanner, &groups[done++], reason);
			break;
		}
		use_frames(scanner, worker, &groups[done], (uint32_t)n);
		done += (uint32_t)n;
	}
}

/* Put a page into the index, where another one of its key may have come meanwhile. If that is the
 * only one it makes way: it may be one that cannot be held, with which this page would found group
 * after group. If there are several they are of different contents. */
static void take_place(struct pdd_scanner *scanner, struct pdd_item *item)
{
	enum pdd_reason reason = item_reason(item);
	bool done;

	if (!pddi_reason_stays(reason))
		reason = PDD_REASON_UNIQUE;
	done = pddi_search_insert(scanner, item, reason);
	if (!done) {
		pddi_search_evict(scanner, item->priv.node.checksum, item_partition(item));
		done = pddi_search_insert(scanner, item, reason);
	}
	item_set_due(item, !done);
	if (!done)
		pddi_search_collided(scanner);
}

void pddi_group_twin_failed(struct pdd_scanner *scanner, struct pdd_group *group,
			    enum pdd_reason reason)
{
	struct pdd_item *item = group->members;

	if (pddi_reason_is_general(reason)) {
		while (group->members)
			pddi_pending_cancel(scanner, group->members, reason);
	} else if (item && !item->priv.node.u.member.next) {
		/* Nobody is left to share with: the page takes the twin's place in the index. */
		close_group(scanner, group);
		pddi_pending_withdraw(scanner, item);
		take_place(scanner, item);
	}
}

void pddi_groups_settle(struct pdd_scanner *scanner, struct pdd_worker *worker)
{
	for (uint32_t i = 0; i < worker->priv.ngroups; i++) {
		struct pdd_frame *frame = worker->priv.groups[i].frame;

		if (!frame)
			continue;
		close_group(scanner, &worker->priv.groups[i]);
		if (frame->priv.nsharers && !(frame->priv.flags & FRAME_GONE))
			pddi_stable_insert(scanner, frame);
		pddi_stable_unreserve(scanner, frame);
	}
	worker->priv.ngroups = 0;
}
