/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * explain.c - what is known of one page, and the names of reasons and hooks.
 */
#include <string.h>

#include "scanner_internal.h"

static enum pdd_page_state state_of(const struct pdd_item *item)
{
	switch (item_state(item)) {
	case ITEM_NEW: return PDD_STATE_NEW;
	case ITEM_ZERO: return PDD_STATE_ZERO;
	case ITEM_INDEXED: return PDD_STATE_UNSHARED;
	case ITEM_SHARER: return PDD_STATE_SHARED;
	case ITEM_SEEN:
	case ITEM_PENDING: break;
	}
	return PDD_STATE_SEEN;
}

/* In how many passes it is looked at: those to come are the pass under way, if the cursor has not
 * come by it, and those behind that; which is not asked here. */
static uint32_t next_look(const struct pdd_scanner *scanner, const struct pdd_item *item)
{
	enum pdd_aging policy = (enum pdd_aging)scanner->priv.tunables.aging;
	uint32_t longest = pddi_max_period(scanner);
	uint32_t age = item_age(item), passes = 0;
	uint64_t epoch = scanner->priv.epoch + scanner->priv.in_pass;

	if (item_is_kept_out(item))
		return UINT32_MAX;
	if (item_is_due(item) || item_state(item) == ITEM_NEW || item_state(item) == ITEM_SHARER ||
	    item_state(item) == ITEM_ZERO)
		return 0;
	while (!pdd_aging_look(policy, age, epoch + passes, item->priv.node.checksum, longest)) {
		age = pdd_aging_next(policy, age, longest);
		passes++;
	}
	return passes;
}

static void explain(const struct pdd_scanner *scanner, struct pdd_explanation *out,
		    const struct pdd_item *item)
{
	out->state = state_of(item);
	out->reason = item_reason(item);
	out->class_ = item_state(item) == ITEM_ZERO ? PDD_CLASS_ZERO : item_class(item);
	out->age = item_age(item);
	out->next_look_passes = next_look(scanner, item);
	out->npins = item_pins(item);
	out->due = item_is_due(item);
	out->excluded = item_is_excluded(item);
	out->frame = item_state(item) == ITEM_SHARER ? item_frame(item) : NULL;
}

int pdd_region_explain(const struct pdd_region *region, uint64_t page,
		       struct pdd_explanation *explanation)
{
	struct pdd_explanation all = { .reason = PDD_REASON_NO_RECORD };
	const struct pdd_scanner *scanner;
	const struct pdd_extent *extent;
	size_t size = explanation ? explanation->size : 0;
	bool valid;

	if (size < sizeof(size) || !region || !region->priv.space)
		return -EINVAL;
	scanner = region->priv.space->priv.scanner;
	pddi_lock(scanner);
	valid = pddi_range_is_valid(region, page, 1);
	extent = valid ? pddi_extent_find(region, page / PDD_EXTENT_PAGES) : NULL;
	if (extent)
		explain(scanner, &all, pddi_extent_item(extent, page));
	pddi_unlock(scanner);
	if (!valid)
		return -EINVAL;
	if (size > sizeof(all))
		memset((char *)explanation + sizeof(all), 0, size - sizeof(all));
	memcpy(explanation, &all, size < sizeof(all) ? size : sizeof(all));
	explanation->size = size;
	return 0;
}

const char *pdd_reason_name(enum pdd_reason reason)
{
	static const char *const names[PDD_REASONS] = {
		[PDD_REASON_NONE] = "none",
		[PDD_REASON_NEW] = "new",
		[PDD_REASON_ABSENT] = "absent",
		[PDD_REASON_FIRST_LOOK] = "first look",
		[PDD_REASON_VOLATILE] = "volatile",
		[PDD_REASON_UNIQUE] = "unique",
		[PDD_REASON_STALE] = "stale",
		[PDD_REASON_CHANGED] = "changed while merged",
		[PDD_REASON_BUSY] = "busy",
		[PDD_REASON_DEADLINE] = "deadline",
		[PDD_REASON_PINNED] = "pinned",
		[PDD_REASON_PINS_UNSEEN] = "pins unseen",
		[PDD_REASON_LOCKED] = "locked",
		[PDD_REASON_HUGE] = "huge page",
		[PDD_REASON_EXCLUDED] = "excluded",
		[PDD_REASON_SPECIAL] = "special memory",
		[PDD_REASON_FOREIGN_FRAME] = "foreign frame",
		[PDD_REASON_KERNEL_ZERO] = "kernel's zero page",
		[PDD_REASON_NO_HOLD] = "no hold",
		[PDD_REASON_MAPPING_BUDGET] = "mapping budget",
		[PDD_REASON_NO_MEMORY] = "no memory",
		[PDD_REASON_HOOK_FAILED] = "hook failed",
		[PDD_REASON_UNMERGED] = "unmerged",
		[PDD_REASON_COLLISION] = "checksum collision",
		[PDD_REASON_NO_RECORD] = "no record",
	};

	return (unsigned)reason < PDD_REASONS ? names[reason] : "unknown";
}

const char *pdd_hook_name(enum pdd_hook hook)
{
	static const char *const names[PDD_HOOKS] = {
		[PDD_HOOK_PAGES_GET] = "pages_get",
		[PDD_HOOK_HOLD] = "hold",
		[PDD_HOOK_FRAMES_CREATE] = "frames_create",
		[PDD_HOOK_FRAMES_MAP] = "frames_map",
		[PDD_HOOK_FRAMES_UNMAP] = "frames_unmap",
		[PDD_HOOK_ZERO_MAP] = "zero_map",
		[PDD_HOOK_CHECKSUM] = "checksum",
		[PDD_HOOK_FRAMES_REMAP] = "frames_remap",
		[PDD_HOOK_PAGES_DISCARD] = "pages_discard",
		[PDD_HOOK_EXTENT_GET] = "extent_get",
		[PDD_HOOK_PAGES_WRITTEN] = "pages_written",
	};

	return (unsigned)hook < PDD_HOOKS ? names[hook] : "unknown";
}
