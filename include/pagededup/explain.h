/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * explain.h - why is this page not shared?
 */
#ifndef PAGEDEDUP_EXPLAIN_H
#define PAGEDEDUP_EXPLAIN_H

#include <pagededup/checksum.h>
#include <pagededup/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What the library knows of a page. */
enum pdd_page_state {
	PDD_STATE_NEW = 0,      /* nothing */
	PDD_STATE_ZERO = 1,     /* was replaced by the zero page */
	PDD_STATE_SEEN = 2,     /* was read once, or could not be merged */
	PDD_STATE_UNSHARED = 3, /* unchanged, in the index: nothing equal was found */
	PDD_STATE_SHARED = 4,   /* shares a frame */
};

struct pdd_explanation {
	size_t size;             /* in: sizeof(struct pdd_explanation) */
	enum pdd_page_state state;
	enum pdd_reason reason;  /* PDD_REASON_NONE: shared, or at the zero page */
	enum pdd_class class_;   /* of what was read there last; OTHER also if nothing is known */
	uint32_t age;            /* encounters, up to PDD_AGE_MAX */
	uint32_t next_look_passes; /* it is looked at in the next pass (0), the one after it (1), ..;
				      unless it is written. Where writes are tracked that is its turn,
				      for which it has to be written. UINT32_MAX: not at all. In the
				      middle of a pass that one is left out, even if it is still to
				      come by */
	uint32_t npins;
	bool due;                /* to be looked at whatever its age */
	bool excluded;
	struct pdd_frame *frame; /* that it shares, or NULL */
};

/**
 * What is known of a page and why it is not shared. A page that is added but not looked at is
 * explained, too: PDD_REASON_NEW, or PDD_REASON_NO_RECORD in a sparse region.
 *
 * @param explanation  in: size; out: the rest, as far as that
 * @param page         0 .. pages of the region - 1
 * @return 0, or -EINVAL: NULL, not added, no such page
 * Locking: as all calls on a scanner. Calls hooks: none.
 * Complexity: O(1); O(log extents) in a sparse region. Since: 0.1
 */
PDD_API int pdd_region_explain(const struct pdd_region *region, uint64_t page,
			       struct pdd_explanation *explanation);

#ifdef __cplusplus
}
#endif
#endif
