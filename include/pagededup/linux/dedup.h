/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * linux/dedup.h - share equal pages of a Linux process's own memory.
 *
 * Works on private anonymous memory. Equal pages are replaced by private mappings of a frame in a
 * memfd; the kernel copies on the first write. All-zero pages give back their memory and need no
 * mapping. No write is lost meanwhile: pages are compared and replaced while they are held, by
 * UFFDIO_MOVE where the kernel has it (6.8), else by userfaultfd write protection.
 *
 * READ FIRST: direct I/O and devices. A page that a device is writing (O_DIRECT reads, io_uring
 * fixed buffers, RDMA, VFIO) must not be replaced. UFFDIO_MOVE refuses pages that are pinned for
 * that, so fresh anonymous memory is safe, except from those few file systems and drivers that
 * take references without pinning (O_DIRECT of some network file systems). Write protection does
 * not see pins; it is needed for pages that were shared before and got their own copy by a write,
 * and for all pages on kernels before 6.8. Such pages are therefore left alone (reason "pins
 * unseen") unless PDD_LINUX_NO_DEVICE_WRITES promises that no device writes into the memory, nor
 * keeps any of it registered. Memory that is kept out by pdd_linux_pin() is not meant by that: a
 * program that brackets each direct I/O and each registration with pdd_linux_pin() and
 * pdd_linux_unpin() may promise it.
 *
 * Nor does the tracking of writes see a device that got its hold on a page before the page was last
 * asked about: direct I/O that is under way just then, io_uring buffers and other memory that stays
 * registered, process_vm_writev() from one process to another just then. What is known of such a
 * page is then what it contained before, until a processor writes it. Nothing is lost by that but
 * savings, since what is shared is compared first; the page may miss a page that it equals now.
 * Unless PDD_LINUX_NO_DEVICE_WRITES is promised every page is read again once in 256 passes,
 * whatever was seen, and finds it then.
 *
 * READ ALSO: while memory is added, the owner must not unmap, remap, mprotect, mlock or
 * MADV_DONTNEED it, nor register it with a userfaultfd; pdd_linux_remove() first. Memory is given
 * back by pdd_linux_discard(), which a balloon calls in place of madvise. A child of fork() must
 * not read the memory (let it exec, or use MADV_DONTFORK): pages that are being held are missing
 * there, and frames that are freed later turn into zeros. Pages that the owner did not write since
 * a fork are refused (reason "pinned"), since the kernel does not tell them apart.
 *
 * A reader or writer of a page that is just being compared waits, at most for the work on one
 * extent; so does a writer while memory is removed. So the thread that calls pdd_linux_step(),
 * pdd_linux_remove() or pdd_linux_destroy() must not have its stack in added memory, nor may the
 * trace callback touch any. These calls block signals, which are delivered afterwards: without a
 * deadline that is as long as the pages take. The library itself uses no memory of the heap.
 *
 * What does not wait, but fails: accesses through /proc/self/mem, ptrace and core dumps (a held
 * page is missing there), and what the kernel writes for a thread that ends. So no thread may have
 * its stack or thread-local storage in added memory, and no robust mutex may lie there.
 *
 * Driving it. Call pdd_linux_step() from a thread of its own, a few thousand pages at a time, or as
 * many as you like with a deadline; sleep between steps to bound the CPU time it takes. A step ends
 * at the end of a pass (PDD_STEP_PASS) even if pages are left of its budget. There is little left
 * to do, as long as nothing is written, when a pass has merged nothing (counts.merges and
 * counts.zero_merges as before it) and counts.pages_due is 0: only pages that were written again and
 * again, which are read at their age, within 64 passes. Pages that nobody wrote are not read
 * again, where the kernel tells who wrote (`track_writes` of the facilities: Linux 6.8 and a
 * userfaultfd); a first write to a page after a pass costs the writer a fault for that, which waits
 * for nobody. Old pages are looked at once in 64
 * passes (PDD_AGING_PHASE), so a page that an old one could share finds it in the index, but a
 * change of an old page may be seen as late as that.
 *
 * Locking: every function may be called from any thread; calls on one pdd_linux are serialised, so
 * a call waits for the step under way. In a child of fork all calls that return an int answer
 * -ECHILD.
 * The memory itself may be read and written at any time, also by system calls of the process.
 */
#ifndef PAGEDEDUP_LINUX_DEDUP_H
#define PAGEDEDUP_LINUX_DEDUP_H

#include <pagededup/explain.h>
#include <pagededup/scanner.h>
#include <pagededup/stats.h>
#include <pagededup/tunables.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One deduplicator: a scanner, its frames, its userfaultfd. */
struct pdd_linux;
/** A range of memory that was added. */
struct pdd_linux_memory;

enum pdd_linux_flags {
	/* No device and no direct I/O writes into any of the memory, or keeps it registered, save
	 * where it is kept out by pdd_linux_pin(); see the top of this file. */
	PDD_LINUX_NO_DEVICE_WRITES = 1u << 0,
	/* Hold by write protection even where the kernel has UFFDIO_MOVE (to test, to measure). */
	PDD_LINUX_NO_MOVE = 1u << 1,
	/* Do not track writes even where the kernel can: for a program that writes most of its
	 * memory all the time, or a few pages in most extents of 2 MiB between two passes. There a
	 * fault for each such page, and a flush for each extent, cost more than reading old pages
	 * once in 64 passes (bench_idle). */
	PDD_LINUX_NO_TRACKING = 1u << 2,
};

struct pdd_linux_options {
	size_t size;              /* sizeof(struct pdd_linux_options) */
	uint32_t flags;           /* enum pdd_linux_flags */
	const struct pdd_tunables *tunables; /* copied; NULL: the defaults */
	uint64_t expected_pages;  /* roots of the index to begin with, which spares its growing;
				     0: 512. It grows to two for each page of RAM, or, where
				     the program is short of addresses (RLIMIT_AS), to what
				     takes a quarter of those that are left */
	uint64_t max_mappings;    /* mappings that the process may have in all; 0: 15/16 of
				     vm.max_map_count */
	/* Told of merges during pdd_linux_step(), on its thread; must neither call the library nor
	 * touch added memory, where pages may be held. May be NULL. The range is the npages pages
	 * from start on. */
	void (*trace)(void *ctx, enum pdd_event event, void *start, uint64_t npages);
	void *trace_ctx;
};

/**
 * @param dedup    out
 * @param options  NULL for the defaults
 * @return 0; -EINVAL: a bad option (unknown flags, tunables that pdd_linux_set_tunables() would not
 *         take, bytes beyond the known size that are not zero); -ENOMEM; -errno of memfd_create. A
 *         kernel without userfaultfd is no error: the deduplicator then merges nothing and
 *         pdd_linux_facilities() says why.
 * Since: 0.1
 */
PDD_API int pdd_linux_create(struct pdd_linux **dedup, const struct pdd_linux_options *options);

/** Remove all memory (as pdd_linux_remove) and destroy. Remaining copies that could not be made
 * for want of memory keep their frames alive until they are unmapped. In a child of fork it only
 * closes the descriptors. NULL is allowed. */
PDD_API void pdd_linux_destroy(struct pdd_linux *dedup);

/**
 * Add a range of private anonymous memory, one space with one region.
 *
 * @param memory  out: the handle
 * @param domain  trust boundary: pages of different domains never share anything but zero pages
 * @param start   page-aligned
 * @param length  bytes, a multiple of the page size, at least one page
 * @return 0; -EINVAL: not aligned, empty, overlaps with memory that was added to this or another
 *         deduplicator of the process; -ENOMEM: no memory for items,
 *         or a part of the range is not mapped; -EACCES: a part of it is not private anonymous
 *         memory with PROT_READ | PROT_WRITE (shared, file-backed, read-only, executable,
 *         hugetlbfs), is locked, is registered with a userfaultfd, is wiped on fork, or differs in
 *         MADV_DONTFORK, MADV_DONTDUMP or MAP_NORESERVE from another part; -EFBIG: RLIMIT_FSIZE;
 *         -ECHILD: in a child of fork; other -errno if /proc/self/smaps cannot be read
 * The range becomes MADV_NOHUGEPAGE; huge pages in it are split when a part of them is merged.
 * MADV_DONTFORK, MADV_DONTDUMP and MAP_NORESERVE are kept when pages are replaced. A memory policy
 * (mbind) is not.
 * Complexity: O(pages, mappings), and the kernel walks the page tables below the range.
 * Since: 0.1
 */
PDD_API int pdd_linux_add(struct pdd_linux *dedup, struct pdd_linux_memory **memory,
			  uint32_t domain, void *start, size_t length);

/**
 * Give every shared page its own copy and forget the memory. Other threads may use it meanwhile, as
 * in a step.
 *
 * Under PDD_LINUX_NO_DEVICE_WRITES, and where the kernel has write protection, the memory is
 * anonymous again, though in several mappings, and may be added anew. What stays a private
 * mapping of the memfd, as copies, are pages that are pinned, all that was ever shared where there
 * is no such promise (the copy may be known to a device), and what is left at the kernel's limit of
 * mappings: there MADV_DONTNEED brings back no zeros, and adding is refused, until the owner maps
 * the memory afresh. Pages that give back their copies this way need the memory of one extent on
 * top for a moment.
 *
 * @return 0; -EINVAL: not added to this deduplicator; -ENOMEM: some pages could not be copied; they
 *         stay shared and the memory stays added: free some and try again; -ECHILD: in a child of
 *         fork
 * Complexity: O(pages), and a system call or two for each run of shared pages. Since: 0.1
 */
PDD_API int pdd_linux_remove(struct pdd_linux *dedup, struct pdd_linux_memory *memory);

/**
 * Do a bounded part of a pass: pdd_scanner_step(), with the deadline relative to now.
 * @param pages       pages to come by at most, at least 1
 * @param nanoseconds time after which no new run of work begins; 0: no deadline
 * @return enum pdd_step (PDD_STEP_QUIET: see pdd_linux_quiesce()); -EINVAL: no pages; -ECHILD: in a
 *         child of fork
 * Since: 0.1
 */
PDD_API int pdd_linux_step(struct pdd_linux *dedup, uint64_t pages, uint64_t nanoseconds);

/**
 * Let steps be quiet: for a fork, a snapshot, or anything else that wants no page to be missing. The
 * step under way ends within one run of work, and this call waits for it. When it returns no page is
 * held, and none will be: steps return PDD_STEP_QUIET at once until pdd_linux_resume(). What is
 * shared stays so, and all other calls work.
 * @return 0; -ECHILD: in a child of fork
 * Locking: as all calls; not from a signal handler or the trace callback. Since: 0.1
 */
PDD_API int pdd_linux_quiesce(struct pdd_linux *dedup);

/** Let steps work again. @return 0; -ECHILD: in a child of fork. Since: 0.1 */
PDD_API int pdd_linux_resume(struct pdd_linux *dedup);

/* --- what the owner of memory asks for ---
 *
 * `start` and `length` are a range of whole pages of `memory`. None of these calls makes an access
 * to the memory wait. */

/**
 * Give memory back (a balloon, free page reporting): the range reads zero afterwards, stops
 * sharing, and takes no memory until it is used again. It stays added. This is to be called in
 * place of MADV_DONTNEED, which in added memory brings back bytes that were shared once.
 *
 * Other threads may use the range meanwhile: they find a page's last content or zero, never
 * anything else, and what they write is dropped or stays. A device that holds on to a page of it
 * goes on with the old page, as with madvise. Excluded pages stay excluded.
 * Parts that were shared get a new mapping, which MADV_DONTFORK, MADV_DONTDUMP and MAP_NORESERVE
 * are renewed for. The budget of mappings (max_mappings) does not matter here.
 *
 * @return 0
 *         -EINVAL: not whole pages, empty, not inside the memory, or the memory is not added here:
 *         nothing is done
 *         -EBUSY: a page of it is pinned: nothing is done; pdd_linux_unpin() first
 *         -ENOSPC: the process is at the kernel's limit of mappings: raise vm.max_map_count, unmap
 *         something, or write zeros instead
 *         -ENOMEM: no memory for a mapping; other -errno of madvise: the memory was unmapped or
 *         locked, against the contract
 *         -ECHILD: in a child of fork
 *         After -ENOSPC, -ENOMEM and others a first part of the range may be discarded, and the
 *         rest is as it was; it may be tried again
 * Complexity: O(pages that are known), and the kernel's work. Since: 0.1
 */
PDD_API int pdd_linux_discard(struct pdd_linux *dedup, struct pdd_linux_memory *memory, void *start,
			      size_t length);

/**
 * Keep the deduplicator away from pages, as a device is about to hold on to them. When it returns
 * they share nothing and are not replaced any more, until as many calls of pdd_linux_unpin() have
 * come. Their reason is PDD_REASON_PINNED. Zero pages stay at the zero page: who writes them, or
 * pins them for a device, makes the kernel give them memory.
 *
 * @return 0
 *         -EINVAL: as pdd_linux_discard()
 *         -ENOMEM: no memory for the copies of shared pages; some of them may have got theirs
 *         -EOVERFLOW: a page of it is pinned 511 times already; unpin it first
 *         -ECHILD: in a child of fork
 *         After an error nothing is pinned by this call
 * Complexity: O(pages). Since: 0.1
 */
PDD_API int pdd_linux_pin(struct pdd_linux *dedup, struct pdd_linux_memory *memory,
			  const void *start, size_t length);

/**
 * The device has let go. The last unpinning makes pages eligible again.
 * @return 0; -EINVAL: as pdd_linux_discard(), or a page of it is not pinned: nothing is changed;
 *         -ECHILD: in a child of fork
 * Complexity: O(pages). Since: 0.1
 */
PDD_API int pdd_linux_unpin(struct pdd_linux *dedup, struct pdd_linux_memory *memory,
			    const void *start, size_t length);

/**
 * Leave pages alone because the owner wants it (memory that is hot, or secret): as pdd_linux_pin(),
 * but they are excluded or not, without counting, and their reason is PDD_REASON_EXCLUDED.
 * @return as pdd_linux_pin(), without -EOVERFLOW
 * Complexity: O(pages). Since: 0.1
 */
PDD_API int pdd_linux_exclude(struct pdd_linux *dedup, struct pdd_linux_memory *memory,
			      const void *start, size_t length);

/**
 * Undo pdd_linux_exclude() where it was done.
 * @return 0; -EINVAL: as pdd_linux_discard(); -ECHILD: in a child of fork
 * Complexity: O(pages). Since: 0.1
 */
PDD_API int pdd_linux_include(struct pdd_linux *dedup, struct pdd_linux_memory *memory,
			      const void *start, size_t length);

/**
 * Give all shared pages of all memory their own copy (KSM: run = 2), in pieces. They stay eligible,
 * so who wants it to last makes no steps meanwhile. When nothing is shared any more, all that is
 * known of pages is forgotten. Zero pages stay at the zero page.
 *
 * @param budget  pages to unmerge at most, at least 1
 * @return the number of pages unmerged; 0: done
 *         -EINVAL: no budget; -ENOMEM: no memory for the next copy: all is valid, try again;
 *         -ECHILD: in a child of fork
 * Complexity: O(pages unmerged + pages / 512), the last call O(pages). Since: 0.1
 */
PDD_API int64_t pdd_linux_unmerge(struct pdd_linux *dedup, uint64_t budget);

/* --- settings --- */

/**
 * Change the settings of tunables.h, all or none, from the next step on. merge_across_nodes changes
 * nothing here: NUMA nodes are not told apart.
 * @return 0; -EINVAL: NULL, a value out of its range, a bad size; -EBUSY: merge_across_nodes is to
 *         change while pages are shared, pdd_linux_unmerge() first; -ECHILD: in a child of fork
 * Complexity: as pdd_scanner_set_tunables(). Since: 0.1
 */
PDD_API int pdd_linux_set_tunables(struct pdd_linux *dedup, const struct pdd_tunables *tunables);

/** @param tunables in: size; out: the rest. @return 0; -EINVAL: NULL, a bad size; -ECHILD: in a
 * child of fork. Since: 0.1 */
PDD_API int pdd_linux_get_tunables(struct pdd_linux *dedup, struct pdd_tunables *tunables);

/**
 * Put chains of frames of equal content in order with the next steps, whatever the time: as
 * pdd_scanner_prune(), `prunes` in the statistics tells when it is done. Pages are moved from
 * sparse frames to fuller ones only under PDD_LINUX_NO_DEVICE_WRITES and where the kernel has write
 * protection (`write_protect` of the facilities): a device that begins to hold on to such a page
 * cannot be seen.
 * @return 0; -ECHILD: in a child of fork
 * Complexity: O(1). Since: 0.1
 */
PDD_API int pdd_linux_prune(struct pdd_linux *dedup);

/* --- what it tells --- */

/** Statistics of all memory. @param stats in: size. @return 0 or -EINVAL. Since: 0.1 */
PDD_API int pdd_linux_stats(struct pdd_linux *dedup, struct pdd_stats *stats);

/** Statistics of one range. @return 0 or -EINVAL. Since: 0.1 */
PDD_API int pdd_linux_memory_counts(struct pdd_linux *dedup, const struct pdd_linux_memory *memory,
				    struct pdd_counts *counts);

/**
 * What is known of a page, and why it is not shared: pdd_region_explain().
 * @param address      in the page
 * @param explanation  in: size; out: the rest. `frame` is good for comparing with others only,
 *                     until the next step
 * @return 0; -EINVAL: NULL, a bad size, or the address lies in no added memory; -ECHILD: in a child
 *         of fork
 * Complexity: O(memories). Since: 0.1
 */
PDD_API int pdd_linux_explain(struct pdd_linux *dedup, const void *address,
			      struct pdd_explanation *explanation);

/** What the adapter keeps and what the kernel lets it do. */
struct pdd_linux_facilities {
	bool userfaultfd;     /* one that serves accesses by the kernel too */
	bool move;            /* UFFDIO_MOVE */
	bool write_protect;   /* userfaultfd write protection of anonymous and memfd pages */
	bool pagemap_scan;    /* PAGEMAP_SCAN; otherwise /proc/self/pagemap is read */
	bool track_writes;    /* writes are tracked: pages that nobody wrote are not read again */
	const char *missing;  /* what is missing and what follows, one line each; "" if nothing */
};

struct pdd_linux_usage {
	uint64_t frames;         /* frames that live in the store */
	uint64_t store_bytes;    /* blocks that the kernel says the store has, in bytes */
	uint64_t metadata_bytes; /* items, extents, roots, frame descriptors, bitmaps, buffers, as
				    far as touched; and 192 for each mapping in added memory */
	uint64_t mappings;       /* mappings of the process, from /proc/self/maps */
	uint64_t memory_mappings; /* those of them that lie in added memory */
};

/** @return what the kernel lets it do; lives as long as the deduplicator. A step that had to give
 * up its userfaultfd changes it: read it on the stepping thread, or between steps. */
PDD_API const struct pdd_linux_facilities *pdd_linux_facilities(const struct pdd_linux *dedup);

/** @return 0, or -errno if /proc cannot be read. Complexity: O(mappings of the process). */
PDD_API int pdd_linux_usage(struct pdd_linux *dedup, struct pdd_linux_usage *usage);

/** Walk all structures and prove their invariants. @return 0, or -EUCLEAN and a text in @p why. */
PDD_API int pdd_linux_check(struct pdd_linux *dedup, const char **why);

#ifdef __cplusplus
}
#endif
#endif
